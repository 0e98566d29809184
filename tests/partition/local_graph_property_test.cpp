// Properties of local graphs on random graphs, against the global edge list.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partition/local_graph.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

using Edge = std::tuple<std::int64_t, std::int64_t, float>;  // row, column, value

std::vector<Edge> global_edges(const CsrView& csr, bool transposed) {
  std::vector<Edge> edges;
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
      const std::int64_t column = csr.col_idx[e];
      edges.emplace_back(transposed ? column : row, transposed ? row : column, csr.value(e));
    }
  }
  std::ranges::sort(edges);
  return edges;
}

// Global id of a local column.
std::int64_t column_id(const LocalGraphView& graph, const LocalMatrixView& matrix,
                       std::int32_t column) {
  const std::int64_t inner = graph.inner();
  return to_index(column < inner ? graph.inner_ids[column] : matrix.halo_ids[column - inner]);
}

// Appends the edges of one part; checks the order inside every row.
void append_edges(const LocalGraphView& graph, const LocalMatrixView& matrix,
                  std::vector<Edge>& edges) {
  for (std::int64_t row = 0; row < graph.inner(); ++row) {
    const std::int64_t begin = matrix.csr.row_ptr[row];
    const std::int64_t end = matrix.csr.row_ptr[row + 1];
    ASSERT_GE(matrix.split[row], begin);
    ASSERT_LE(matrix.split[row], end);
    for (std::int64_t e = begin; e < end; ++e) {
      const std::int32_t column = matrix.csr.col_idx[e];
      ASSERT_EQ(column < graph.inner(), e < matrix.split[row]);
      if (e > begin) {
        ASSERT_LE(matrix.csr.col_idx[e - 1], column);
      }
      edges.emplace_back(to_index(graph.inner_ids[row]), column_id(graph, matrix, column),
                         matrix.csr.value(e));
    }
    if (row < graph.central) {
      ASSERT_EQ(matrix.split[row], end) << "central row " << row;
    }
  }
}

void expect_plans_agree(const std::vector<LocalGraphView>& graphs,
                        LocalMatrixView LocalGraphView::*direction) {
  for (const LocalGraphView& receiver : graphs) {
    const LocalMatrixView& halo = receiver.*direction;
    const std::set<GlobalId> distinct(halo.halo_ids.begin(), halo.halo_ids.end());
    ASSERT_EQ(distinct.size(), halo.halo_ids.size()) << "a halo node twice";
    for (const LocalGraphView& sender : graphs) {
      const HaloListsView& receive = halo.halo;
      const HaloListsView& send = (sender.*direction).halo;
      const std::int64_t count =
          receive.recv_offset[sender.part + 1] - receive.recv_offset[sender.part];
      ASSERT_EQ(send.send_offset[receiver.part + 1] - send.send_offset[receiver.part], count);
      for (std::int64_t k = 0; k < count; ++k) {
        const LocalId row = send.send_rows[send.send_offset[receiver.part] + k];
        ASSERT_EQ(sender.inner_ids[to_index(row)],
                  halo.halo_ids[receive.recv_offset[sender.part] + k]);
        ASSERT_GE(to_index(row), sender.central) << "a central node is sent";
      }
    }
  }
}

// A node is marginal exactly if an edge, in either direction, links it to another part.
void expect_marginal(const std::vector<LocalGraphView>& graphs, const CsrView& csr,
                     std::span<const std::int32_t> part_of) {
  std::set<std::int64_t> marginal;
  for (const auto& [row, column, value] : global_edges(csr, false)) {
    if (part_of[row] == part_of[column]) continue;
    marginal.insert(row);
    marginal.insert(column);
  }
  for (const LocalGraphView& graph : graphs) {
    for (std::int64_t i = 0; i < graph.inner(); ++i) {
      ASSERT_EQ(marginal.count(to_index(graph.inner_ids[i])) > 0, i >= graph.central);
    }
  }
}

void expect_degrees(const std::vector<LocalGraphView>& graphs, const CsrView& csr) {
  std::map<std::int64_t, double> in;
  std::map<std::int64_t, double> out;
  std::set<std::int64_t> loops;
  for (const auto& [row, column, value] : global_edges(csr, false)) {
    in[row] += value;
    out[column] += value;
    if (row == column) loops.insert(row);
  }
  for (const LocalGraphView& graph : graphs) {
    for (std::int64_t i = 0; i < graph.inner(); ++i) {
      const std::int64_t id = to_index(graph.inner_ids[i]);
      ASSERT_FLOAT_EQ(graph.in_degree[i], static_cast<float>(in[id]));
      ASSERT_FLOAT_EQ(graph.out_degree[i], static_cast<float>(out[id]));
      ASSERT_EQ(graph.has_self_loop[i], loops.count(id));
    }
  }
}

struct Case {
  int parts;
  bool directed;
  bool weighted;
};

class LocalGraphProperties : public testing::TestWithParam<Case> {};

TEST_P(LocalGraphProperties, HoldForEverySeed) {
  const auto [parts, directed, weighted] = GetParam();
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const Csr csr = random_graph(101, 4, directed, weighted, seed);
    const GraphView graph{csr.view(), !directed};
    const std::vector<std::int32_t> part_of = scattered_parts(101, parts);
    LocalGraphBuilder builder(graph, part_of, parts);
    std::vector<LocalGraph> built;
    for (int part = 0; part < parts; ++part) built.push_back(builder.build(part));
    std::vector<LocalGraphView> graphs;
    for (const LocalGraph& local : built) graphs.push_back(local.view());

    std::vector<std::int64_t> owned;
    std::vector<Edge> forward;
    std::vector<Edge> backward;
    for (const LocalGraphView& local : graphs) {
      for (const std::int64_t id : to_indices(local.inner_ids)) {
        ASSERT_EQ(part_of[id], local.part);
        owned.push_back(id);
      }
      append_edges(local, local.forward, forward);
      append_edges(local, local.backward, backward);
    }
    std::ranges::sort(owned);
    std::vector<std::int64_t> all(101);
    for (std::int64_t i = 0; i < 101; ++i) all[i] = i;
    ASSERT_EQ(owned, all);
    std::ranges::sort(forward);
    std::ranges::sort(backward);
    ASSERT_EQ(forward, global_edges(graph.in_edges, false));
    if (directed) {
      ASSERT_EQ(backward, global_edges(graph.in_edges, true));
    }
    expect_plans_agree(graphs, &LocalGraphView::forward);
    expect_plans_agree(graphs, &LocalGraphView::backward);
    expect_marginal(graphs, graph.in_edges, part_of);
    expect_degrees(graphs, graph.in_edges);
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return std::to_string(info.param.parts) + (info.param.directed ? "directed" : "undirected") +
         (info.param.weighted ? "weighted" : "plain");
}

INSTANTIATE_TEST_SUITE_P(Graphs, LocalGraphProperties,
                         testing::Values(Case{1, true, true}, Case{2, true, true},
                                         Case{3, true, false}, Case{4, true, true},
                                         Case{5, true, true}, Case{1, false, false},
                                         Case{2, false, true}, Case{3, false, false},
                                         Case{4, false, true}, Case{5, false, false}),
                         case_name);

}  // namespace
}  // namespace atl
