// Shared by tests of cuts: random cuts, and the rows and edges between parts counted one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/philox.hpp"
#include "partition/halo_rows.hpp"
#include "partition/local_graph.hpp"
#include "partition/transpose.hpp"
#include "tests/partition/example_graphs.hpp"

namespace atl {

using Parts = std::vector<std::int32_t>;

inline std::uint32_t draw(std::uint64_t seed, std::uint64_t i, std::uint32_t below) {
  const RandomKey key{seed, RandomStream::kPartition, 0, 0};
  return static_cast<std::uint32_t>(std::uint64_t{random_bits(key, i, 0)} * below >> 32U);
}

// Gains are exact where no edge is there twice.
inline Csr without_duplicates(const Csr& csr) {
  Csr result;
  for (std::int64_t v = 0; v < csr.view().rows(); ++v) {
    std::vector<std::int32_t> row = to_vector(csr.view().row(v));
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
    result.col_idx.insert(result.col_idx.end(), row.begin(), row.end());
    result.row_ptr.push_back(static_cast<std::int64_t>(result.col_idx.size()));
  }
  return result;
}

inline Parts random_parts(std::int64_t nodes, int parts, std::uint64_t seed) {
  Parts part_of(static_cast<std::size_t>(nodes));
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    part_of[v] = static_cast<std::int32_t>(
        v < static_cast<std::size_t>(parts) ? v : draw(seed, v, static_cast<std::uint32_t>(parts)));
  }
  return part_of;
}

// Rows that training sends, one direction of a symmetric graph, both of a directed one: every pair
// of a node and another part with a node that reads it. weight(direction, part of the node, part of
// the reader).
template <typename Weight>
std::int64_t weigh_rows(const GraphView& graph, const Parts& part_of, const Weight& weight) {
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> directions(2);
  for (std::int32_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) {
      if (part_of[u] == part_of[v]) continue;
      directions[0].emplace_back(u, part_of[v]);
      directions[1].emplace_back(v, part_of[u]);
    }
  }
  if (graph.symmetric) directions.pop_back();
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < directions.size(); ++d) {
    auto& rows = directions[d];
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());
    for (const auto& [node, part] : rows) sum += weight(d, part_of[node], part);
  }
  return sum;
}
inline std::int64_t count_rows(const GraphView& graph, const Parts& part_of) {
  return weigh_rows(graph, part_of, [](std::size_t, int, int) { return 1; });
}

// Stored edges between parts.
inline std::int64_t count_cut_edges(const GraphView& graph, const Parts& part_of) {
  std::int64_t edges = 0;
  for (std::int32_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) edges += part_of[u] != part_of[v] ? 1 : 0;
  }
  return edges;
}

// The nets of a graph's rows.
struct Directions {
  explicit Directions(const GraphView& graph) : reversed(transpose(graph.in_edges)) {
    const CsrView in = graph.in_edges;
    if (graph.symmetric) {
      nets = {{in, in, true}};
    } else {
      nets = {{reversed.view(), in, true}, {in, reversed.view(), true}};
    }
  }
  Csr reversed;
  std::vector<Nets> nets;
};

inline PartLoads no_limits(const Parts& part_of, const std::vector<std::int32_t>& weights,
                           int parts) {
  return {1, weights, std::vector<double>(static_cast<std::size_t>(parts), 1e18), part_of};
}

// `count` cliques of `size` nodes with consecutive ids. ring: the last node of each is linked to
// the first one of the next.
inline Csr cliques(std::int32_t count, std::int32_t size, bool ring) {
  Csr csr;
  const std::int32_t nodes = count * size;
  for (std::int32_t v = 0; v < nodes; ++v) {
    const std::int32_t first = v / size * size;
    if (ring && v == first) csr.col_idx.push_back((v + nodes - 1) % nodes);
    for (std::int32_t u = first; u < first + size; ++u) {
      if (u != v) csr.col_idx.push_back(u);
    }
    if (ring && v == first + size - 1) csr.col_idx.push_back((v + 1) % nodes);
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

}  // namespace atl
