// Small random graphs and the ranks that hold them, for tests of distributed code.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "engine/comm/transport.hpp"
#include "kernels/registry.hpp"
#include "partition/local_graph.hpp"

namespace atl {

// A graph with skewed degrees, some isolated nodes, a self-loop and, if directed, duplicate edges.
// Symmetric structure unless `directed`. Values in (0, 2) if `weighted`.
inline Csr random_graph(std::int32_t nodes, int degree, bool directed, bool weighted,
                        unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::pair<std::int32_t, float>>> rows(static_cast<std::size_t>(nodes));
  const auto uniform = [&] { return std::uniform_real_distribution<float>(0.01F, 1.0F)(random); };
  for (int edge = 0; edge < nodes * degree; ++edge) {
    const auto skewed = uniform() * uniform();
    const auto from = static_cast<std::int32_t>(skewed * static_cast<float>(nodes - 1));
    const auto to = static_cast<std::int32_t>(random() % static_cast<unsigned>(nodes));
    if (from % 17 == 5 || to % 17 == 5) continue;  // isolated nodes
    const float value = weighted ? 2 * uniform() : 1.0F;
    if (directed) {
      rows[to].emplace_back(from, value);
    } else if (from != to) {
      rows[to].emplace_back(from, value);
      rows[from].emplace_back(to, value);
    }
  }
  if (nodes > 2) rows[2].emplace_back(2, 1.0F);
  Csr graph;
  graph.row_ptr.clear();
  graph.row_ptr.push_back(0);
  for (auto& row : rows) {
    std::stable_sort(row.begin(), row.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [column, value] : row) {
      graph.col_idx.push_back(column);
      if (weighted) graph.values.push_back(value);
    }
    graph.row_ptr.push_back(static_cast<std::int64_t>(graph.col_idx.size()));
  }
  return graph;
}

// Node i belongs to a part that is a hash of i, so that parts are scattered; every part is used if
// nodes >= 8 * parts or so.
inline std::vector<std::int32_t> scattered_parts(std::int64_t nodes, int parts) {
  std::vector<std::int32_t> part_of(static_cast<std::size_t>(nodes));
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::uint32_t hash = static_cast<std::uint32_t>(i) * 2654435761U;
    part_of[i] = static_cast<std::int32_t>((hash >> 16U) % static_cast<std::uint32_t>(parts));
  }
  return part_of;
}

// Runs body(transport, local graph) on P ranks as threads.
inline void run_parts(const GraphView& graph, int parts,
                      const std::function<void(Transport&, const LocalGraphView&)>& body) {
  const std::vector<std::int32_t> part_of = scattered_parts(graph.nodes(), parts);
  LocalGraphBuilder builder(graph, part_of, parts);
  std::vector<LocalGraph> graphs;
  for (int part = 0; part < parts; ++part) graphs.push_back(builder.build(part));
  run_local_ranks(parts, 30, [&](Transport& transport) {
    body(transport, graphs[static_cast<std::size_t>(transport.rank())].view());
  });
}

}  // namespace atl
