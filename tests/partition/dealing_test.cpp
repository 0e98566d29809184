// Cuts made by dealing clusters: what every cut has, what many have together, and how much of a
// neighbourhood a cut leaves against the mean of all.
#include "partition/dealing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// By entry of the graph's columns: whether both ends are in one part.
std::vector<bool> edges_inside(const GraphView& graph, std::span<const std::int32_t> part_of) {
  std::vector<bool> inside;
  for (std::int64_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) inside.push_back(part_of[u] == part_of[v]);
  }
  return inside;
}

TEST(Dealing, GivesEveryPartAsManyClusters) {
  const Csr edges = random_graph(600, 6, false, false, 3);
  const GraphView graph{edges.view(), true};
  const Clusters clusters = make_clusters(graph, 3, {});
  ASSERT_GT(clusters.per_part, 1);
  // The sequence has clusters one after another, and every node once.
  EXPECT_TRUE(std::ranges::is_sorted(clusters.sequence, {},
                                     [&](std::int32_t v) { return clusters.cluster_of[v]; }));
  EXPECT_EQ(std::set(clusters.sequence.begin(), clusters.sequence.end()).size(), 600U);
  std::set<std::vector<std::int32_t>> cuts;
  for (int cut = 1; cut <= 20; ++cut) {
    const std::vector<std::int32_t> part_of = deal(clusters, 7, cut);
    std::set<std::pair<std::int32_t, std::int32_t>> dealt;
    for (std::size_t v = 0; v < part_of.size(); ++v) {
      dealt.emplace(part_of[v], clusters.cluster_of[v]);
    }
    EXPECT_EQ(std::ssize(dealt), clusters.count()) << "a cluster lies in one part";
    for (int part = 0; part < 3; ++part) {
      EXPECT_EQ(std::ranges::count(dealt, part, [](const auto& pair) { return pair.first; }),
                clusters.per_part);
    }
    EXPECT_EQ(deal(clusters, 7, cut), part_of);
    EXPECT_NE(deal(clusters, 8, cut), part_of);
    cuts.insert(part_of);
  }
  EXPECT_EQ(cuts.size(), 20U);
}

TEST(Dealing, KeepsTheSequenceInEveryPart) {
  const Csr edges = random_graph(600, 6, false, false, 3);
  const GraphView graph{edges.view(), true};
  const Clusters clusters = make_clusters(graph, 3, {});
  std::vector<std::int64_t> place(600);
  for (std::size_t i = 0; i < 600; ++i) place[clusters.sequence[i]] = static_cast<std::int64_t>(i);
  const std::vector<std::int32_t> part_of = deal(clusters, 1, 1);
  LocalGraphBuilder builder(graph, part_of, 3, clusters.sequence);
  for (int part = 0; part < 3; ++part) {
    const LocalGraph local = builder.build(part);
    const auto by_place = [&](GlobalId id) { return place[to_index(id)]; };
    const std::span<const GlobalId> ids = local.inner_ids;
    EXPECT_TRUE(std::ranges::is_sorted(ids.first(local.central), {}, by_place));
    EXPECT_TRUE(std::ranges::is_sorted(ids.subspan(local.central), {}, by_place));
    EXPECT_GT(local.central, 0);
  }
}

TEST(Dealing, BringsEveryEdgeInsideInTime) {
  const Csr edges = random_graph(600, 6, false, false, 5);
  const GraphView graph{edges.view(), true};
  const Clusters clusters = make_clusters(graph, 4, {});
  std::vector<bool> ever(edges.col_idx.size(), false);
  for (int cut = 1; cut <= 80; ++cut) {
    const std::vector<bool> now = edges_inside(graph, deal(clusters, 1, cut));
    EXPECT_LT(std::ranges::count(now, true), std::ssize(now)) << "cut " << cut;
    for (std::size_t e = 0; e < now.size(); ++e) ever[e] = ever[e] || now[e];
  }
  // Two clusters meet in a fifth of the cuts: one pair in 10^8 never does.
  EXPECT_EQ(std::ranges::count(ever, true), std::ssize(ever));
}

TEST(Dealing, TellsWhatACutLeavesAgainstTheMeanOfAll) {
  for (const bool directed : {false, true}) {
    const Csr edges = random_graph(300, 5, directed, false, 11);
    const GraphView graph{edges.view(), !directed};
    const Clusters clusters = make_clusters(graph, 3, {});
    constexpr int kCuts = 400;
    std::vector<double> sum(300, 0);
    std::vector<double> squares(300, 0);
    for (int cut = 1; cut <= kCuts; ++cut) {
      const std::vector<std::int32_t> part_of = deal(clusters, 1, cut);
      LocalGraphBuilder builder(graph, part_of, 3);
      for (int part = 0; part < 3; ++part) {
        const LocalGraph local = builder.build(part);
        const std::vector<float> coverage = relative_coverage(local.view(), graph, clusters);
        for (std::size_t i = 0; i < coverage.size(); ++i) {
          const auto weight = static_cast<double>(coverage[i]);
          sum[to_index(local.inner_ids[i])] += weight;
          squares[to_index(local.inner_ids[i])] += weight * weight;
        }
      }
    }
    double spread = 0;
    for (std::size_t v = 0; v < sum.size(); ++v) {
      const double mean = sum[v] / kCuts;
      const double deviation = std::sqrt(std::max(squares[v] / kCuts - mean * mean, 0.0));
      EXPECT_NEAR(mean, 1, 5 * deviation / std::sqrt(kCuts) + 1e-6) << "node " << v;
      spread += deviation / 300;
    }
    EXPECT_GT(spread, 0.1) << "cuts differ";
  }
}

// The path 0 - 1 - 2 - 3 - 4 - 5 in three clusters of two neighbours each, all in a part of their
// own: nodes meet their neighbour in the cluster, and no other.
TEST(Dealing, WeighsByHand) {
  const PathExample path;
  const Clusters alone{3, 1, {0, 0, 1, 1, 2, 2}, {}};
  const Clusters pairs{1, 3, {0, 0, 1, 1, 2, 2}, {}};
  const Clusters mixed{2, 2, {0, 0, 1, 1, 2, 3}, {}};
  const auto weights = [&](const Clusters& clusters, std::vector<std::int32_t> part_of, int part) {
    LocalGraphBuilder builder(path.graph(), part_of, clusters.parts, NodeOrder::kNatural);
    const LocalGraph local = builder.build(part);
    std::vector<float> by_id(6, 0);
    const std::vector<float> found = relative_coverage(local.view(), path.graph(), clusters);
    for (std::size_t i = 0; i < found.size(); ++i) by_id[to_index(local.inner_ids[i])] = found[i];
    return by_id;
  };
  EXPECT_EQ(weights(alone, {0, 0, 1, 1, 2, 2}, 1), (std::vector<float>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(weights(pairs, {0, 0, 0, 0, 0, 0}, 0), std::vector<float>(6, 1));
  // Two of four clusters meet in a third of the cuts. Node 1 always has 0, and 2 in a third: 2 +
  // 1/3 of 3 in the mean. Here it has both.
  const std::vector<float> both = weights(mixed, {0, 0, 0, 0, 1, 1}, 0);
  EXPECT_FLOAT_EQ(both[0], 1);
  EXPECT_FLOAT_EQ(both[1], 3 / (2 + 1.0F / 3));
  EXPECT_FLOAT_EQ(both[3], 2 / (2 + 1.0F / 3));
  // Node 5 has 4 in a third of the cuts.
  EXPECT_FLOAT_EQ(weights(mixed, {0, 0, 0, 0, 1, 1}, 1)[5], 2 / (1 + 1.0F / 3));
}

TEST(Dealing, TakesAnyGraphAndNoSharesOfParts) {
  for (const int nodes : {4, 5, 40, 70}) {
    const Csr edges = random_graph(nodes, 3, true, true, 2);
    const Clusters clusters = make_clusters({edges.view(), false}, 4, {});
    const std::vector<std::int32_t> part_of = deal(clusters, 1, 1);
    for (int part = 0; part < 4; ++part) EXPECT_NE(std::ranges::count(part_of, part), 0) << nodes;
  }
  const Csr edges = random_graph(100, 3, true, true, 2);
  PartitionOptions options;
  options.balance = PartitionBalance::kEdgesTrain;
  options.islands = {2, 2};
  options.method = "random";
  EXPECT_EQ(make_clusters({edges.view(), false}, 4, options).parts, 4);
  options.weights = {2, 1, 1, 1};
  const Error error = thrown_error([&] { make_clusters({edges.view(), false}, 4, options); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("--weights"));
}

TEST(Dealing, GivesEveryBlockAsManyClusters) {
  std::set<std::vector<std::int32_t>> dealt;
  for (int epoch = 1; epoch <= 20; ++epoch) {
    const std::vector<std::int32_t> block_of = deal_clusters(5, 4, 7, DealtTo::kBlocks, epoch);
    ASSERT_EQ(block_of.size(), 20U);
    for (int block = 0; block < 5; ++block) EXPECT_EQ(std::ranges::count(block_of, block), 4);
    EXPECT_EQ(deal_clusters(5, 4, 7, DealtTo::kBlocks, epoch), block_of);
    EXPECT_NE(deal_clusters(5, 4, 8, DealtTo::kBlocks, epoch), block_of);
    EXPECT_NE(deal_clusters(5, 4, 7, DealtTo::kParts, epoch), block_of);
    dealt.insert(block_of);
  }
  EXPECT_EQ(dealt.size(), 20U);
  // Four of each run of 12, and the two that are left of the last six.
  const std::vector<std::int32_t> block_of = deal_clusters(3, 10, 7, DealtTo::kBlocks, 1);
  for (const auto& [first, last, each] :
       {std::array{0, 12, 4}, std::array{12, 24, 4}, std::array{24, 30, 2}}) {
    for (int block = 0; block < 3; ++block) {
      EXPECT_EQ(std::count(block_of.begin() + first, block_of.begin() + last, block), each);
    }
  }
  EXPECT_EQ(clusters_per_part(1'000'000, 8, 32), 32);
  EXPECT_EQ(clusters_per_part(640, 8, 32), 10) << "clusters of 8 nodes";
  EXPECT_EQ(clusters_per_part(10, 8, 32), 1);
  EXPECT_EQ(clusters_per_part(1'000'000, 1000, 32), kMaxParts / 1000);
}

}  // namespace
}  // namespace atl
