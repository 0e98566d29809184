// The links of a dataset that one rank scores: those whose first end it owns.
#pragma once

#include <array>
#include <filesystem>

#include "datasets/dataset.hpp"
#include "engine/exchange/row_fetch.hpp"

namespace atl {

// Negatives of a held-out edge where the dataset has none: drawn anew, the same in every run.
inline constexpr std::int64_t kDrawnNegatives = 100;

// Pairs of nodes: an inner row of this rank and any node.
struct NodePairs {
  std::vector<std::int32_t> row;
  std::vector<std::int32_t> node;

  std::int64_t size() const { return static_cast<std::int64_t>(row.size()); }
};

// One set of edges, by row.
struct LinkSet {
  NodePairs edges;
  std::vector<std::int64_t> number;  // of each edge in the file of its set
  std::int64_t total = 0;            // edges of all ranks
  std::int64_t largest = 0;          // of the ranks
  // The negatives that they are ranked against: other ends for each edge, or pairs that all edges
  // share.
  std::int64_t each = 0;
  std::vector<std::int32_t> others;  // [edges, each]
  NodePairs shared;
  std::int64_t largest_shared = 0;
};

struct LinkShare {
  NodeHomes homes;
  std::array<LinkSet, 3> sets;  // train, valid, test

  // Rank 0 reads the files in `folder` for all. inner_ids: of this rank, on the host. Throws
  // Error{kInput} on all ranks for an id that is no node. Collective.
  static LinkShare read(Transport& transport, const std::filesystem::path& folder,
                        std::span<const GlobalId> inner_ids, std::int64_t nodes);
};

}  // namespace atl
