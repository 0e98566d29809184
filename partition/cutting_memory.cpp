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

// Of halo rows (partition/halo_rows.hpp): a count of pins, the part it is of and the pins combined;
// a count of nets near a part; and what a node has beside.
constexpr std::int64_t kPerPinCount = 4 + 2 + 4;
constexpr std::int64_t kPerNodeAndPart = 4;
constexpr std::int64_t kPerNode = 24;

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
  return std::max(cutting, (symmetric ? 1 : 2) * kPerPinCount * counted + transposed +
                               kPerNodeAndPart * nodes * parts + kPerNode * nodes);
}

}  // namespace atl
