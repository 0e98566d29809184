// Communities of a dataset's graph, kept beside it, DATASET/communities/COUNT-HASH, or beside its
// partitions: communities.npy and communities.json (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "datasets/dataset.hpp"

namespace atl {

// Where so many communities of `dataset` are kept, whether they are or not. HASH covers what the
// dataset means and the format. parts_dir: where partitions are kept, if not in the dataset.
std::filesystem::path community_folder(const Dataset& dataset, int count,
                                       const std::filesystem::path& parts_dir = {});

// The community of every node, from 0: a function of graph and count only, whatever its cut into
// parts. Made, and kept, if they are not there or damaged; where they can't be kept, a warning says
// so. The files of the dataset are those that its checksums say. One process calls this.
std::vector<std::int32_t> ensure_communities(const Dataset& dataset, int count,
                                             const std::filesystem::path& parts_dir = {});

}  // namespace atl
