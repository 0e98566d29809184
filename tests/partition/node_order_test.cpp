#include "partition/node_order.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Nodes = std::vector<std::int32_t>;

constexpr NodeOrder kAll[] = {NodeOrder::kNatural, NodeOrder::kDegree, NodeOrder::kBreadthFirst,
                              NodeOrder::kRcm,     NodeOrder::kMetis,  NodeOrder::kCommunities};

Csr undirected(std::int32_t nodes,
               const std::vector<std::pair<std::int32_t, std::int32_t>>& edges) {
  std::vector<Nodes> neighbours(static_cast<std::size_t>(nodes));
  for (const auto& [a, b] : edges) {
    neighbours[static_cast<std::size_t>(a)].push_back(b);
    if (a != b) neighbours[static_cast<std::size_t>(b)].push_back(a);
  }
  Csr csr;
  for (const Nodes& row : neighbours) {
    csr.col_idx.insert(csr.col_idx.end(), row.begin(), row.end());
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
  }
  return csr;
}

// Sum over edges of how far apart their ends lie.
std::int64_t spread(const Csr& graph, const Nodes& order) {
  Nodes place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  }
  std::int64_t sum = 0;
  for (std::int32_t v = 0; v < graph.view().rows(); ++v) {
    for (const std::int32_t u : graph.view().row(v)) {
      sum += std::abs(place[static_cast<std::size_t>(u)] - place[static_cast<std::size_t>(v)]);
    }
  }
  return sum;
}

TEST(NodeOrder, NamesAreThereAndBack) {
  for (const NodeOrder order : kAll) EXPECT_EQ(parse_node_order(to_string(order)), order);
  EXPECT_EQ(node_order_names().size(), std::size(kAll));
  EXPECT_THAT(thrown_error([] { parse_node_order("rabbit"); }).what(), HasSubstr("communities"));
}

TEST(NodeOrder, IsAPermutationOfAnyGraph) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const auto nodes = static_cast<std::int32_t>(round < 3 ? round : 1 + random() % 3000);
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;
    // Self-loops, duplicates and nodes without edges among them.
    for (std::int32_t e = 0; nodes > 0 && e < 2 * nodes; ++e) {
      const auto end = [&] {
        return static_cast<std::int32_t>(random() % static_cast<unsigned>(nodes)) / 2;
      };
      edges.emplace_back(end(), end());
    }
    const Csr graph = undirected(nodes, edges);
    Nodes all(static_cast<std::size_t>(nodes));
    std::iota(all.begin(), all.end(), 0);
    for (const NodeOrder order : kAll) {
      Nodes found = node_order(order, graph.view());
      EXPECT_EQ(node_order(order, graph.view()), found) << to_string(order);
      std::ranges::sort(found);
      ASSERT_EQ(found, all) << to_string(order) << " round " << round;
    }
  }
}

TEST(NodeOrder, OfAPath) {
  // 3 - 1 - 4 - 0 - 2
  const Csr path = undirected(5, {{3, 1}, {1, 4}, {4, 0}, {0, 2}});
  EXPECT_THAT(node_order(NodeOrder::kNatural, path.view()), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(node_order(NodeOrder::kDegree, path.view()), ElementsAre(0, 1, 4, 2, 3));
  EXPECT_THAT(node_order(NodeOrder::kBreadthFirst, path.view()), ElementsAre(2, 0, 4, 1, 3));
  EXPECT_THAT(node_order(NodeOrder::kRcm, path.view()), ElementsAre(3, 1, 4, 0, 2));
}

TEST(NodeOrder, RcmVisitsNeighboursOfLowDegreeFirst) {
  // 0 - 5, 5 - {1, 2, 3}, 2 - 4: node 2 has more neighbours than 1 and 3.
  const Csr graph = undirected(6, {{0, 5}, {5, 2}, {5, 1}, {5, 3}, {2, 4}});
  EXPECT_THAT(node_order(NodeOrder::kBreadthFirst, graph.view()), ElementsAre(0, 5, 2, 1, 3, 4));
  EXPECT_THAT(node_order(NodeOrder::kRcm, graph.view()), ElementsAre(4, 2, 3, 1, 5, 0));
}

TEST(NodeOrder, CommunitiesLieTogether) {
  // Cliques of 8 whose nodes are mixed, in a ring of single edges.
  constexpr std::int32_t kCliques = 20, kSize = 8;
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  const auto node = [](std::int32_t clique, std::int32_t k) { return k * kCliques + clique; };
  for (std::int32_t c = 0; c < kCliques; ++c) {
    for (std::int32_t a = 0; a < kSize; ++a) {
      for (std::int32_t b = 0; b < a; ++b) edges.emplace_back(node(c, a), node(c, b));
    }
    edges.emplace_back(node(c, 0), node((c + 1) % kCliques, 1));
  }
  const Csr graph = undirected(kCliques * kSize, edges);
  const Nodes order = node_order(NodeOrder::kCommunities, graph.view());
  for (std::size_t first = 0; first < order.size(); first += kSize) {
    for (std::size_t k = 0; k < kSize; ++k) {
      EXPECT_EQ(order[first + k] % kCliques, order[first] % kCliques) << first + k;
    }
  }
}

TEST(NodeOrder, BringsNeighboursOfAGridTogether) {
  // A grid of 60 x 60 with shuffled ids.
  constexpr std::int32_t kSide = 60;
  Nodes id(kSide * kSide);
  std::iota(id.begin(), id.end(), 0);
  std::shuffle(id.begin(), id.end(), std::mt19937(1));
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t j = 0; j < kSide; ++j) {
      if (i + 1 < kSide) edges.emplace_back(id[i * kSide + j], id[(i + 1) * kSide + j]);
      if (j + 1 < kSide) edges.emplace_back(id[i * kSide + j], id[i * kSide + j + 1]);
    }
  }
  const Csr graph = undirected(kSide * kSide, edges);
  const std::int64_t natural = spread(graph, node_order(NodeOrder::kNatural, graph.view()));
  for (const NodeOrder order :
       {NodeOrder::kBreadthFirst, NodeOrder::kRcm, NodeOrder::kMetis, NodeOrder::kCommunities}) {
    EXPECT_LT(4 * spread(graph, node_order(order, graph.view())), natural) << to_string(order);
  }
}

}  // namespace
}  // namespace atl
