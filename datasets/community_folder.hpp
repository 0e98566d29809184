// Communities of a dataset's graph, kept beside it, DATASET/communities/COUNT-HASH, or beside its
// partitions: communities.npy and communities.json (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"

namespace atl {

// The folder that has those of every number.
std::filesystem::path communities_folder(const Dataset& dataset,
                                         const std::filesystem::path& parts_dir = {});
// Where so many communities of `dataset` are kept, whether they are or not. HASH covers what the
// dataset means and the format. parts_dir: where partitions are kept, if not in the dataset.
std::filesystem::path community_folder(const Dataset& dataset, int count,
                                       const std::filesystem::path& parts_dir = {});

// The community of every node, from 0: a function of graph and count only, whatever its cut into
// parts. Made, and kept, if they are not there or damaged; where they can't be kept, a warning says
// so. The files of the dataset are those that its checksums say. One process calls this.
std::vector<std::int32_t> ensure_communities(const Dataset& dataset, int count,
                                             const std::filesystem::path& parts_dir = {});

// The name of the dataset that the communities in `folder` were made for.
std::string owner_of_communities(const std::filesystem::path& folder);
// Throws Error{kInput} if ensure_communities() does not find those in `folder`, or makes them anew.
// every_byte: looks for damage in the array, too, not at its size alone.
void check_communities(const std::filesystem::path& folder, const Dataset& dataset,
                       const std::filesystem::path& parts_dir, bool every_byte);

}  // namespace atl
