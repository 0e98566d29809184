// Parts of a graph that isn't there, for tests and benchmarks of simulator and search.
#pragma once

#include "partition/quality.hpp"

namespace atl {

// Parts of some 20,000 nodes, no two alike, each with halo rows of every other one. With
// `unevenness` 1 the last of 32 has a fifth more nodes than the first.
inline PartitionQuality make_parts(int ranks, double unevenness = 1) {
  PartitionQuality quality;
  for (int r = 0; r < ranks; ++r) {
    const auto nodes = static_cast<std::int64_t>(20000 + unevenness * 137 * r);
    quality.parts.push_back({.nodes = nodes,
                             .central = nodes / 2 + 31 * (r % 97),
                             .edges = 14 * nodes,
                             .marginal_edges = 8 * nodes});
    for (int from = 0; from < ranks; ++from) {
      quality.forward_rows.push_back(from == r ? 0 : 900 + 17 * ((r * 7 + from * 3) % 11));
    }
  }
  quality.backward_rows = quality.forward_rows;
  return quality;
}

}  // namespace atl
