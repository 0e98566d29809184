// Tests of communities and of cuts by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "partition/multilevel.hpp"
#include "partition/transpose.hpp"
#include "tests/partition/cut_support.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

TEST(Communities, StayWithinBoundsAndParts) {
  const Csr csr = random_graph(3000, 6, false, false, 2);
  std::vector<std::int32_t> weights;
  for (std::uint64_t v = 0; v < 3000; ++v) weights.push_back(1 + static_cast<int>(draw(3, v, 9)));
  const GraphLevel graph{csr.view(), {}, {}, weights, 1};
  const Parts part_of = random_parts(3000, 3, 7);
  for (const bool restricted : {false, true}) {
    const std::vector<std::int64_t> bounds{40};
    const Communities found = find_communities(
        graph, bounds,
        restricted ? std::span<const std::int32_t>(part_of) : std::span<const std::int32_t>{}, 3,
        1);
    EXPECT_LT(found.count, 1500);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(found.count), 0);
    std::vector<std::set<std::int32_t>> parts(static_cast<std::size_t>(found.count));
    std::int32_t next = 0;
    for (std::size_t v = 0; v < 3000; ++v) {
      ASSERT_LE(found.of[v], next);  // numbered in the order of first nodes
      if (found.of[v] == next) ++next;
      sums[found.of[v]] += weights[v];
      parts[found.of[v]].insert(part_of[v]);
    }
    EXPECT_EQ(next, found.count);
    EXPECT_LE(*std::ranges::max_element(sums), 40);
    if (restricted) {
      EXPECT_TRUE(std::ranges::all_of(parts, [](const auto& set) { return set.size() == 1; }));
    }
  }
}

TEST(Communities, ContractionKeepsWeights) {
  for (const bool directed : {false, true}) {
    const Csr csr = random_graph(200, 6, directed, /*weighted=*/false, 3);
    const Csr reversed = transpose(csr.view());
    const std::vector<std::int32_t> weights(400, 3);
    const GraphLevel graph{csr.view(), directed ? reversed.view() : CsrView{}, {}, weights, 2};
    Communities communities;
    communities.count = 17;
    for (std::uint64_t v = 0; v < 200; ++v) {
      communities.of.push_back(static_cast<std::int32_t>(v < 17 ? v : draw(2, v, 17)));
    }
    std::vector<std::int64_t> expected(17 * 17, 0);
    for (std::int32_t v = 0; v < 200; ++v) {
      for (const std::int32_t u : csr.view().row(v)) {
        const std::int32_t a = communities.of[v];
        const std::int32_t b = communities.of[u];
        if (a == b) continue;
        ++expected[a * 17 + b];
        if (directed) ++expected[b * 17 + a];
      }
    }
    const ContractedGraph contracted = contract(graph, communities);
    std::vector<std::int64_t> found(17 * 17, 0);
    for (std::int32_t c = 0; c < 17; ++c) {
      contracted.level().for_each_neighbour(
          c, [&](std::int32_t d, std::int64_t weight) { found[c * 17 + d] += weight; });
    }
    EXPECT_EQ(found, expected);
    std::int64_t sum = 0;
    for (const std::int32_t w : contracted.node_weights) sum += w;
    EXPECT_EQ(sum, 400 * 3);
  }
}

// A hub among the first nodes says nothing of the rows behind it.
TEST(Communities, ContractionHoldsNoMoreThanTheFinerGraph) {
  constexpr std::int32_t kNodes = 50'000;
  for (const std::int32_t hub : {0, 1, kNodes / 2, kNodes - 1}) {
    Csr star;
    for (std::int32_t v = 0; v < kNodes; ++v) {
      if (v != hub) {
        star.col_idx.push_back(hub);
      } else {
        for (std::int32_t u = 0; u < kNodes; ++u) {
          if (u != hub) star.col_idx.push_back(u);
        }
      }
      star.row_ptr.push_back(std::ssize(star.col_idx));
    }
    // Pairs of leaves, so that most rows of the contracted graph are short.
    Communities communities{{}, kNodes / 2};
    for (std::int32_t v = 0; v < kNodes; ++v) communities.of.push_back(v / 2);
    const std::vector<std::int32_t> weights(kNodes, 1);
    const GraphLevel level{star.view(), {}, {}, weights, 1};
    const ContractedGraph contracted = contract(level, communities);
    EXPECT_LE(contracted.col_idx.capacity(), star.col_idx.size()) << hub;
    EXPECT_LE(contracted.edge_weights.capacity(), star.col_idx.size()) << hub;
    EXPECT_EQ(std::ssize(contracted.col_idx), kNodes - 2) << hub;
  }
}

// Nodes without edges, and components that have become one node, have nobody to join.
TEST(Communities, MergeNodesWithoutEdges) {
  const Csr csr = cliques(4000, 3, /*ring=*/false);
  Csr isolated;
  isolated.row_ptr.assign(12001, 0);
  const std::vector<std::int32_t> weights(12000, 1);
  const std::vector<std::int64_t> bounds{24};
  const Parts halves = [] {
    Parts part_of;
    for (std::int32_t v = 0; v < 12000; ++v) part_of.push_back(v / 3 % 2);
    return part_of;
  }();
  for (const bool has_parts : {false, true}) {
    const std::span<const std::int32_t> part_of =
        has_parts ? std::span<const std::int32_t>(halves) : std::span<const std::int32_t>{};
    const GraphLevel alone{isolated.view(), {}, {}, weights, 1};
    EXPECT_LE(find_communities(alone, bounds, part_of, 3, 1).count, 502);
    const GraphLevel graph{csr.view(), {}, {}, weights, 1};
    const Communities first = find_communities(graph, bounds, part_of, 3, 1);
    EXPECT_EQ(first.count, 4000);
    Parts above(4000);
    for (std::size_t v = 0; v < 12000; ++v) above[first.of[v]] = halves[v];
    const ContractedGraph contracted = contract(graph, first);
    const Communities second =
        find_communities(contracted.level(), bounds,
                         has_parts ? std::span<const std::int32_t>(above) : part_of, 3, 1);
    EXPECT_LE(second.count, 502);
    std::vector<std::int32_t> sizes(static_cast<std::size_t>(second.count), 0);
    std::vector<std::set<std::int32_t>> parts(sizes.size());
    for (std::size_t c = 0; c < 4000; ++c) {
      sizes[second.of[c]] += contracted.node_weights[c];
      parts[second.of[c]].insert(above[c]);
    }
    EXPECT_LE(*std::ranges::max_element(sizes), 24);
    if (has_parts) {
      EXPECT_TRUE(std::ranges::all_of(parts, [](const auto& set) { return set.size() == 1; }));
    }
  }
}

// Whose neighbours are all in other parts is no node without edges: it may have to move there.
TEST(Communities, LeaveNodesAloneWhoseNeighboursAreElsewhere) {
  const std::vector<std::int64_t> row_ptr{0, 1, 2, 3, 4};
  const std::vector<std::int32_t> col_idx{2, 3, 0, 1};
  const std::vector<std::int32_t> weights(4, 1);
  const GraphLevel graph{{row_ptr, col_idx, {}}, {}, {}, weights, 1};
  const std::vector<std::int64_t> bounds{10};
  EXPECT_EQ(find_communities(graph, bounds, Parts{0, 0, 1, 1}, 3, 1).count, 4);
}

TEST(CommunityCuts, KeepComponentsWhole) {
  const Csr csr = cliques(10000, 3, /*ring=*/false);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.method = "communities";
  const Parts part_of = partition_graph(graph, 4, options, {});
  EXPECT_EQ(count_rows(graph, part_of), 0);
}

// Islands of cliques that few edges link: communities find them, and rows are as few as can be.
TEST(CommunityCuts, FindCliques) {
  const Csr csr = cliques(1200, 10, /*ring=*/true);
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.method = "communities";
  const Parts part_of = partition_graph(graph, 4, options, {});
  // A ring of cliques in four arcs: two rows at each of four places.
  EXPECT_EQ(count_rows(graph, part_of), 8);
}

TEST(CommunityCuts, ObjectiveCutHasFewerEdgesBetweenParts) {
  const Csr csr = random_graph(8000, 6, false, false, 9);
  const GraphView graph{csr.view(), true};
  const auto edges = [&](const char* method, PartitionObjective objective) {
    PartitionOptions options;
    options.method = method;
    options.objective = objective;
    return count_cut_edges(graph, partition_graph(graph, 4, options, {}));
  };
  const std::int64_t cut = edges("communities", PartitionObjective::kCut);
  EXPECT_LT(cut, edges("communities", PartitionObjective::kVolume));
  EXPECT_LT(100 * cut, 110 * edges("metis", PartitionObjective::kCut));
}

}  // namespace
}  // namespace atl
