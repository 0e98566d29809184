// Tests of the second cut, in which marginal nodes cost more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "partition/partitioner.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;
using Flags = std::vector<std::uint8_t>;

TEST(FindMarginal, SeesBothDirections) {
  const DirectedExample example;
  EXPECT_EQ(find_marginal(example.graph(), example.part_of), (Flags{0, 1, 1, 1, 1, 0}));
  const PathExample path;
  EXPECT_EQ(find_marginal(path.graph(), path.part_of), (Flags{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(find_marginal(path.graph(), Parts(6, 3)), Flags(6, 0));
}

TEST(WeighMarginal, ScalesTheFirstQuantityOnly) {
  const PathExample path;
  PartitionProblem problem;
  problem.graph = path.graph();
  problem.constraints = 2;
  problem.node_weights = {10, 1, 20, 0, 30, 1, 40, 0, 50, 1, 60, 1};
  EXPECT_EQ(weigh_marginal(problem, Flags{0, 0, 1, 1, 0, 0}, 0.5),
            (Parts{1000, 1, 2000, 0, 4500, 1, 6000, 0, 5000, 1, 6000, 1}));
}

TEST(WeighMarginal, StaysWithin32Bits) {
  constexpr int kNodes = 1000;
  PartitionProblem problem;
  const std::vector<std::int64_t> row_ptr(kNodes + 1, 0);
  problem.graph = {{row_ptr, {}, {}}, true};
  problem.node_weights.assign(kNodes, 1'499'000);
  problem.node_weights[0] = 1;
  problem.node_weights[1] = 0;
  Flags marginal(kNodes, 1);
  marginal[0] = marginal[2] = 0;
  const auto weights = weigh_marginal(problem, marginal, 3);
  EXPECT_LE(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}), kMostWeight);
  EXPECT_EQ(weights[0], 1);
  EXPECT_EQ(weights[1], 0);
  EXPECT_NEAR(static_cast<double>(weights[3]) / weights[2], 4, 1e-4);
  EXPECT_GT(weights[2], 370'000);  // no more is lost than must be
}

TEST(MarginalBalance, WeighsTheNodesAtTheBorder) {
  const PathExample path;
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  options.weights = {1, 2};
  const PartitionProblem problem = make_partition_problem(path.graph(), 2, options, {});
  // Nodes 1 and 2 are marginal: loads 1 + 2 and 2 + 1 + 1 + 1 of 8, against 8/3 and 16/3.
  EXPECT_DOUBLE_EQ(marginal_balance(problem, Parts{0, 0, 1, 1, 1, 1}, 1), 3 / (8 / 3.0));
  EXPECT_DOUBLE_EQ(marginal_balance(problem, Parts{0, 0, 1, 1, 1, 1}, 0), 1);
}

// 0 - 1 - ... - 59 with every edge among the first 20 too: parts at the dense end are all border.
Csr dense_and_thin() {
  Csr csr;
  for (std::int32_t v = 0; v < 60; ++v) {
    for (std::int32_t u = 0; u < 60; ++u) {
      if (u != v && (std::abs(u - v) == 1 || (u < 20 && v < 20))) csr.col_idx.push_back(u);
    }
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

// Contiguous ranges show what the second cut does: it is the same method with other weights.
TEST(MarginalCost, EvensOutTheBorder) {
  const Csr csr = dense_and_thin();
  const GraphView graph{csr.view(), true};
  PartitionOptions options;
  options.method = "contiguous";
  options.refine = Refinement::kOff;
  options.balance = PartitionBalance::kNodes;
  options.imbalance = 0.2;
  const PartitionProblem problem = make_partition_problem(graph, 4, options, {});
  const Parts plain = partition_graph(graph, 4, options, {});
  options.marginal_cost = 1;
  const Parts recut = partition_graph(graph, 4, options, {});
  const double before = marginal_balance(problem, plain, 1);
  // 15, 15, 15 and 15 nodes of which 15, 6, 2 and 1 are marginal: 30 of 84, share 21.
  EXPECT_DOUBLE_EQ(before, 30 / 21.0);
  EXPECT_LT(marginal_balance(problem, recut, 1), before);
  EXPECT_LT(std::ranges::count(recut, 0), 15);
}

TEST(MarginalCost, NeverMakesTheMeasureWorse) {
  for (const bool directed : {false, true}) {
    for (const int parts : {2, 3, 5}) {
      const Csr csr = random_graph(400, 3, directed, false, 5);
      const GraphView graph{csr.view(), !directed};
      for (const char* balance : {"cost", "nodes", "edges", "edges,train"}) {
        PartitionOptions options;
        options.balance = parse_partition_balance(balance);
        std::vector<std::uint8_t> split(400, 1);
        for (int v = 0; v < 400; v += 3) split[v] = 0;
        const PartitionProblem problem = make_partition_problem(graph, parts, options, split);
        const Parts plain = partition_graph(graph, parts, options, split);
        options.marginal_cost = 0.7;
        const Parts recut = partition_graph(graph, parts, options, split);
        EXPECT_LE(marginal_balance(problem, recut, 0.7), marginal_balance(problem, plain, 0.7));
        EXPECT_EQ(recut, partition_graph(graph, parts, options, split));
      }
    }
  }
}

TEST(MarginalCost, ZeroIsTheFirstCut) {
  const Csr csr = random_graph(200, 4, false, false, 9);
  PartitionOptions options;
  const Parts plain = partition_graph({csr.view(), true}, 4, options, {});
  options.marginal_cost = 0;
  EXPECT_EQ(partition_graph({csr.view(), true}, 4, options, {}), plain);
}

}  // namespace
}  // namespace atl
