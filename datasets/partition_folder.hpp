// The partition of a dataset on disk: DATASET/parts/P-method-objective-HASH with partition.json,
// quality.json and one shard folder part-K per part (docs/formats.md).
#pragma once

#include <filesystem>

#include "base/json.hpp"
#include "datasets/dataset.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Where that partition lies, whether it exists or not. HASH covers all options and the dataset's
// checksum, so a changed dataset never meets an old partition by name.
std::filesystem::path partition_folder(const Dataset& dataset, int parts,
                                       const PartitionOptions& options);
// partition / "part-K"
std::filesystem::path shard_folder(const std::filesystem::path& partition, int part);

// Returns the folder, made first (atomically) if it is not there. Throws Error{kInput} if the
// folder there belongs to another dataset or is damaged. One process calls this; the others wait
// for it.
std::filesystem::path ensure_partition(const Dataset& dataset, int parts,
                                       const PartitionOptions& options);

// Checks partition.json of an existing folder against the dataset and returns it. Throws
// Error{kInput} naming both checksums if they differ.
Json read_partition(const std::filesystem::path& folder, const Dataset& dataset);

}  // namespace atl
