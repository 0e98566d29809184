// Minimum vertex covers of bipartite graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/csr.hpp"

namespace atl {

// One flag per node: 1 if it is in the cover.
struct VertexCover {
  std::vector<std::uint8_t> sources;
  std::vector<std::uint8_t> targets;
};

// The fewest nodes that touch every edge and, among these, the fewest targets: which these are does
// not depend on the order of nodes or edges, so two ranks that know the same edges need not talk
// about it. edges: by source, in [0, targets). Takes E sqrt(V) steps at most (Hopcroft and Karp
// 1973, and Koenig's theorem).
VertexCover minimum_vertex_cover(const CsrView& edges, std::int64_t targets);

}  // namespace atl
