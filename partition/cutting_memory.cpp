// What cutting takes of memory, from what the structures hold and METIS was seen to take.
#include <algorithm>

#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

// The products shape, 124 million entries in 8 parts, took METIS 7.3 GB.
constexpr std::int64_t kMetisPerEntry = 60;

// Per node: weights (twice where they are summed in 64 bits), communities, wishes, sizes, the order
// with its keys. Per entry: the contracted graph, at worst as large as the graph itself.
constexpr std::int64_t kCommunitiesPerNode = 64;
constexpr std::int64_t kCommunitiesPerEntry = 8;

// Counts of pins with their part and combination, and of nets near each part.
constexpr std::int64_t kRowsPerNodeAndPart = 4 + 2 + 4 + 4;
constexpr std::int64_t kRowsPerNode = 24;

}  // namespace

std::int64_t most_cutting_bytes(std::int64_t nodes, std::int64_t edges, bool symmetric, int parts,
                                const PartitionOptions& options) {
  const std::int64_t entries = symmetric ? edges : 2 * edges;
  const std::int64_t transposed = symmetric ? 0 : 4 * edges + 8 * nodes;
  const bool detailed = entries <= Multilevel::kDetailedEntries;
  const bool metis = options.method == "metis" || (options.method == "auto" && detailed);
  const bool communities = options.method == "communities" || options.method == "auto";
  std::int64_t cutting = 0;
  if (metis) cutting = kMetisPerEntry * entries;
  if (communities) {
    cutting = std::max(cutting, transposed + kCommunitiesPerNode * nodes +
                                    (detailed ? 3 : 1) * kCommunitiesPerEntry * entries);
  }
  if (!options.refine) return cutting;
  // A node counts no more parts than it has neighbours.
  const std::int64_t counted = std::min(nodes * parts, entries + nodes);
  return std::max(cutting, (symmetric ? 1 : 2) * (kRowsPerNodeAndPart - 4) * counted + transposed +
                               4 * nodes * parts + kRowsPerNode * nodes);
}

}  // namespace atl
