#include "datasets/graph_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EdgeStream stream_of(std::vector<Edge> edges) {
  return [edges](const EdgeSink& sink) { sink(edges); };
}

GraphBuildOptions options(std::int64_t nodes, bool directed) {
  GraphBuildOptions result;
  result.place = "test";
  result.nodes = nodes;
  result.directed = directed;
  return result;
}

const std::vector<Edge> kEdges = {{0, 1}, {1, 2}, {2, 0}, {0, 1}, {2, 1}, {3, 3}};

TEST(GraphBuilder, RowsOfADirectedGraphHoldSources) {
  const BuiltGraph built = build_graph(stream_of(kEdges), options(5, true));
  EXPECT_THAT(built.csr.row_ptr, ElementsAre(0, 1, 3, 4, 4, 4));
  EXPECT_THAT(built.csr.col_idx, ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(built.csr.values, IsEmpty());
  EXPECT_EQ(built.edges_source, 6);
  EXPECT_EQ(built.self_loops, 1);
  EXPECT_EQ(built.duplicates, 1);
}

TEST(GraphBuilder, UndirectedEdgesStandInBothRows) {
  const BuiltGraph built = build_graph(stream_of(kEdges), options(-1, false));
  EXPECT_THAT(built.csr.row_ptr, ElementsAre(0, 2, 4, 6, 6));
  EXPECT_THAT(built.csr.col_idx, ElementsAre(1, 2, 0, 2, 0, 1));
  EXPECT_EQ(built.duplicates, 1);  // 2 -> 1 is the reverse of 1 -> 2, not a repeat
  EXPECT_EQ(built.one_way, 2);
  EXPECT_EQ(built.first_one_way.source, 0);
  EXPECT_EQ(built.first_one_way.target, 1);
}

TEST(GraphBuilder, KeepsSelfLoopsOnceOnRequest) {
  GraphBuildOptions keep = options(4, false);
  keep.keep_self_loops = true;
  const BuiltGraph built = build_graph(stream_of({{3, 3}, {2, 3}, {3, 3}, {0, 3}}), keep);
  EXPECT_THAT(built.csr.row_ptr, ElementsAre(0, 1, 1, 2, 5));
  EXPECT_THAT(built.csr.col_idx, ElementsAre(3, 3, 0, 2, 3));
  EXPECT_EQ(built.self_loops, 2);
  EXPECT_EQ(built.duplicates, 1);
}

TEST(GraphBuilder, SumsWeightsPerDirectionAndTakesTheLarger) {
  GraphBuildOptions weighted = options(3, false);
  weighted.weighted = true;
  const EdgeStream stream = stream_of({{0, 1, 1}, {0, 1, 0.5}, {1, 2, 2}, {2, 1, 3}, {2, 0, -4}});
  const BuiltGraph both = build_graph(stream, weighted);
  EXPECT_THAT(both.csr.col_idx, ElementsAre(1, 2, 0, 2, 0, 1));
  EXPECT_THAT(both.csr.values, ElementsAre(1.5F, -4, 1.5F, 3, -4, 3));
  weighted.directed = true;
  const BuiltGraph directed = build_graph(stream, weighted);
  EXPECT_THAT(directed.csr.col_idx, ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(directed.csr.values, ElementsAre(-4, 1.5F, 3, 2));
}

TEST(GraphBuilder, MatchesAMapOnRandomEdges) {
  constexpr std::int64_t kNodes = 60;
  std::vector<Edge> edges;
  const RandomKey key{7, RandomStream::kGenerator};
  for (std::uint64_t i = 0; i < 700; ++i) {
    const PhiloxBlock bits = random_block(key, i, 0);
    edges.push_back({static_cast<std::int32_t>(bits[0] % kNodes),
                     static_cast<std::int32_t>(bits[1] % (bits[2] % kNodes + 1))});
  }
  for (const bool directed : {true, false}) {
    std::map<std::int32_t, std::map<std::int32_t, int>> rows;
    for (const Edge& edge : edges) {
      if (edge.source == edge.target) continue;
      rows[edge.target][edge.source] = 1;
      if (!directed) rows[edge.source][edge.target] = 1;
    }
    const BuiltGraph built = build_graph(stream_of(edges), options(kNodes, directed));
    for (std::int32_t i = 0; i < kNodes; ++i) {
      std::vector<std::int32_t> expected;
      for (const auto& [column, one] : rows[i]) expected.push_back(column);
      const auto row = built.csr.view().row(i);
      EXPECT_EQ(std::vector<std::int32_t>(row.begin(), row.end()), expected) << i;
    }
  }
}

TEST(GraphBuilder, TrimsToAnExactNumberOfEdges) {
  std::vector<Edge> edges;
  for (std::int32_t i = 0; i < 100; ++i) {
    for (std::int32_t j = 0; j < i; ++j) edges.push_back({i, j});
  }
  GraphBuildOptions trim = options(100, false);
  for (const std::int64_t keep : {0, 1, 1000, 4949, 4950, 9000}) {
    trim.keep_edges = keep;
    const BuiltGraph built = build_graph(stream_of(edges), trim);
    EXPECT_EQ(built.csr.view().nnz(), 2 * std::min<std::int64_t>(keep, 4950));
  }
}

TEST(GraphBuilder, OneNodeWithoutEdges) {
  const BuiltGraph built = build_graph(stream_of({}), options(1, false));
  EXPECT_THAT(built.csr.row_ptr, ElementsAre(0, 0));
}

TEST(GraphBuilder, RefusesBadGraphs) {
  EXPECT_THAT(thrown_error([] { build_graph(stream_of({}), options(-1, false)); }).what(),
              HasSubstr("0 nodes"));
  EXPECT_THAT(thrown_error([] {
                build_graph(stream_of({{0, 2147483646}}), options(-1, false));
              }).what(),
              HasSubstr("2147483647 nodes, but only 1 edges"));
  GraphBuildOptions weighted = options(2, true);
  weighted.weighted = true;
  EXPECT_THAT(thrown_error([&] {
                build_graph(stream_of({{0, 1, 3e38F}, {0, 1, 3e38F}}), weighted);
              }).what(),
              HasSubstr("finite"));
  int calls = 0;
  const EdgeStream changing = [&](const EdgeSink& sink) {
    sink(std::vector<Edge>(calls++ == 0 ? 1 : 2, Edge{0, 1}));
  };
  EXPECT_THAT(thrown_error([&] { build_graph(changing, options(2, true)); }).what(),
              HasSubstr("changed while it was being read"));
}

}  // namespace
}  // namespace atl
