// Keeps chains short: a new delta takes the small ones right before it into itself and stands on an
// earlier base, so that n appends leave a chain of about log2(n) folders. The folders whose changes
// it takes stay as they are. Internal to datasets/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "datasets/delta.hpp"
#include "datasets/delta_writer.hpp"

namespace atl {

// How many of the chain's last deltas become one; 1: the last one stays as it is. A delta is taken
// in if it has less than twice the bytes of what takes it, as the runs of a log-structured merge
// tree are (O'Neil et al. 1996): so what has been appended once is written log2(n) times at most.
std::size_t deltas_to_fold(const Chain& chain);

// All that the last deltas of a chain do together, but for the rows of new nodes.
struct FoldedDelta {
  std::filesystem::path base;
  std::string base_checksum;
  std::int64_t nodes_before = 0;
  std::vector<std::string> names;  // of the folders that are taken in, the oldest first
  DeltaEdges added, removed;
  std::int64_t new_ones = 0;                               // of `added`, not in the base
  std::vector<std::int32_t> removed_nodes, changed_nodes;  // of the base; ascending
  std::string node_ids;                                    // lines
};

// The last `count` of the chain of `whole`, with the values that they lead to.
FoldedDelta fold_deltas(const Dataset& whole, std::size_t count);

}  // namespace atl
