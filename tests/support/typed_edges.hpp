// Types and features for the entries of a graph, and what a local graph must have of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "partition/local_graph.hpp"

namespace atl {

struct EdgeArrays {
  static constexpr std::int64_t kColumns = 2;
  static constexpr std::int64_t kTypes = 5;
  static constexpr std::int64_t kNodeTypes = 3;
  std::vector<std::uint16_t> types;
  std::vector<float> features;
  std::vector<std::uint16_t> node_types;

  // The graph with all of them.
  GraphView on(const Csr& csr, bool symmetric) const {
    return {csr.view(), symmetric, types, features, kColumns, node_types};
  }
};

// Five types and two features per entry that follow from the ends and from how many entries between
// them came before: the same in both directions. Node i has type i % 3.
inline EdgeArrays make_edge_arrays(const Csr& csr) {
  EdgeArrays arrays;
  for (std::int64_t row = 0; row < csr.view().rows(); ++row) {
    std::map<std::int64_t, std::int64_t> seen;
    for (const std::int64_t column : csr.view().row(row)) {
      const std::int64_t k = seen[column]++;
      const std::int64_t low = std::min(row, column);
      const std::int64_t high = std::max(row, column);
      arrays.types.push_back(
          static_cast<std::uint16_t>((7 * low + 3 * high + 2 * k) % EdgeArrays::kTypes));
      arrays.features.push_back(static_cast<float>(1000 * low + high));
      arrays.features.push_back(static_cast<float>(k) + 0.5F);
    }
    arrays.node_types.push_back(static_cast<std::uint16_t>(row % EdgeArrays::kNodeTypes));
  }
  return arrays;
}

// Every inner node has exactly the typed in-edges that the whole graph gives it, and its type.
inline void expect_edge_arrays(const LocalGraphView& local, const GraphView& graph) {
  using Entry = std::tuple<std::int64_t, float, std::uint16_t, float, float>;
  const LocalMatrixView& matrix = local.forward;
  ASSERT_EQ(matrix.edge_types.size(), matrix.csr.col_idx.size());
  ASSERT_EQ(matrix.edge_feature_columns, EdgeArrays::kColumns);
  ASSERT_EQ(matrix.edge_features.size(), 2 * matrix.csr.col_idx.size());
  ASSERT_EQ(local.node_types.size(), local.inner_ids.size());
  for (std::int64_t i = 0; i < local.inner(); ++i) {
    const std::int64_t id = to_index(local.inner_ids[i]);
    EXPECT_EQ(local.node_types[i], graph.node_types[id]);
    std::multiset<Entry> expected;
    for (std::int64_t e = graph.in_edges.row_ptr[id]; e < graph.in_edges.row_ptr[id + 1]; ++e) {
      expected.emplace(graph.in_edges.col_idx[e], graph.in_edges.value(e), graph.edge_types[e],
                       graph.edge_features[2 * e], graph.edge_features[2 * e + 1]);
    }
    std::multiset<Entry> found;
    for (std::int64_t e = matrix.csr.row_ptr[i]; e < matrix.csr.row_ptr[i + 1]; ++e) {
      const std::int32_t column = matrix.csr.col_idx[e];
      const GlobalId source = column < local.inner() ? local.inner_ids[column]
                                                     : matrix.halo_ids[column - local.inner()];
      found.emplace(to_index(source), matrix.csr.value(e), matrix.edge_types[e],
                    matrix.edge_features[2 * e], matrix.edge_features[2 * e + 1]);
    }
    EXPECT_EQ(found, expected) << "node " << id;
  }
}

}  // namespace atl
