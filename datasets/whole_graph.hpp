// A dataset as the only part of itself, made in memory: one rank needs no partition on disk.
#pragma once

#include "base/json.hpp"
#include "datasets/shard.hpp"
#include "partition/partitioner.hpp"

namespace atl {

struct WholeGraph {
  Shard shard;   // the same values in the same order as of a partition into one part
  Json quality;  // as quality.json
};

// Whether there is memory for it beside what training needs; else a partition on disk serves, of
// which a mapping holds what fits.
bool fits_into_memory(const Dataset& dataset);

// Validates the dataset as if it were cut, and writes nothing. Throws as ensure_partition.
WholeGraph whole_graph(const Dataset& dataset, const PartitionOptions& options);

}  // namespace atl
