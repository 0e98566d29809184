// Tests of what is repaired after a partitioner.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "partition/partitioner.hpp"
#include "tests/partition/example_graphs.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;

TEST(RepairEmptyParts, TakesTheLastNodeOfTheLargest) {
  const PathExample example;
  PartitionProblem problem;
  problem.graph = example.graph();
  problem.parts = 3;
  Parts part_of{0, 0, 0, 0, 2, 2};
  repair_empty_parts(problem, part_of);
  EXPECT_EQ(part_of, (Parts{0, 0, 0, 1, 2, 2}));
  Parts all_in_one{1, 1, 1, 1, 1, 1};
  repair_empty_parts(problem, all_in_one);
  EXPECT_EQ(all_in_one, (Parts{1, 1, 1, 1, 2, 0}));
}

TEST(Rebalance, MovesTheNodesThatTouchTheReceiver) {
  const PathExample example;
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  options.imbalance = 0.1;
  const PartitionProblem problem = make_partition_problem(example.graph(), 2, options, {});
  Parts part_of{0, 0, 0, 0, 0, 1};
  rebalance(problem, part_of);
  // 4 touches part 1; then 3 and 4's other neighbours stay, as 3 + 3 is balanced.
  EXPECT_EQ(part_loads(problem, part_of), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(part_of[4], 1);
  EXPECT_NO_THROW(validate_partition(problem, part_of));
}

TEST(Rebalance, LeavesAPartitionWithinItsBoundsAlone) {
  const PathExample example;
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  const PartitionProblem problem = make_partition_problem(example.graph(), 2, options, {});
  const Parts before{0, 1, 0, 1, 1, 1};  // 4 is the bound: share 3, one node more
  Parts part_of = before;
  rebalance(problem, part_of);
  EXPECT_EQ(part_of, before);
}

// 100 nodes without edges, node weights (1, 0) and (0, 1): part 0 has all of the first kind.
TEST(Rebalance, BalancesTwoQuantities) {
  const std::vector<std::int64_t> row_ptr(101, 0);
  PartitionProblem problem;
  problem.graph = {{row_ptr, {}, {}}, true};
  problem.parts = 2;
  problem.shares = {0.5, 0.5};
  problem.constraints = 2;
  problem.imbalance = 0.1;
  Parts part_of;
  for (int node = 0; node < 100; ++node) {
    problem.node_weights.push_back(node % 2);
    problem.node_weights.push_back(1 - node % 2);
    part_of.push_back(node % 2);
  }
  EXPECT_THROW(validate_partition(problem, part_of), Error);
  rebalance(problem, part_of);
  EXPECT_NO_THROW(validate_partition(problem, part_of));
}

}  // namespace
}  // namespace atl
