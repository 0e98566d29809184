// Tests of the contiguous and the random partitioner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "partition/partitioner.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;

Parts run(const char* method, const std::vector<std::int32_t>& node_weights,
          const std::vector<double>& shares, std::uint64_t seed = 1) {
  const std::vector<std::int64_t> row_ptr(node_weights.size() + 1, 0);
  PartitionProblem problem;
  problem.graph = {{row_ptr, {}, {}}, true};
  problem.parts = static_cast<int>(shares.size());
  problem.node_weights = node_weights;
  problem.shares = shares;
  problem.seed = seed;
  PartitionOptions options;
  options.method = method;
  return make_partitioner(options)(problem);
}

TEST(ContiguousPartitioner, CutsByWeight) {
  EXPECT_EQ(run("contiguous", {1, 1, 1, 1, 1, 1}, {0.5, 0.5}), (Parts{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(run("contiguous", {5, 1, 1, 1, 1, 1}, {0.5, 0.5}), (Parts{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(run("contiguous", {1, 1, 1, 1, 1, 1, 1, 1}, {0.5, 0.25, 0.25}),
            (Parts{0, 0, 0, 0, 1, 1, 2, 2}));
}

TEST(ContiguousPartitioner, NoPartIsEmpty) {
  EXPECT_EQ(run("contiguous", {9, 1, 1}, {0.3, 0.3, 0.4}), (Parts{0, 1, 2}));
  EXPECT_EQ(run("contiguous", {1, 1, 9}, {0.8, 0.1, 0.1}), (Parts{0, 1, 2}));
  EXPECT_EQ(run("contiguous", {0, 0, 0, 7}, {0.5, 0.5}), (Parts{0, 0, 0, 1}));
}

TEST(RandomPartitioner, IsASeededBalancedShuffle) {
  const std::vector<std::int32_t> ones(1000, 1);
  const Parts first = run("random", ones, {0.25, 0.25, 0.5});
  EXPECT_EQ(std::ranges::count(first, 0), 250);
  EXPECT_EQ(std::ranges::count(first, 1), 250);
  EXPECT_EQ(std::ranges::count(first, 2), 500);
  EXPECT_EQ(first, run("random", ones, {0.25, 0.25, 0.5}));
  EXPECT_NE(first, run("random", ones, {0.25, 0.25, 0.5}, 2));
  // 37.5 % of 999 pairs of neighbours stay together on average (standard deviation 1.5 %).
  std::int64_t together = 0;
  for (std::size_t i = 1; i < first.size(); ++i) together += first[i] == first[i - 1];
  EXPECT_NEAR(static_cast<double>(together), 375, 6 * 15.3);
}

TEST(ContiguousPartitioner, RefusesTwoQuantities) {
  PathExample example;
  PartitionOptions options;
  options.balance = PartitionBalance::kEdgesTrain;
  const std::vector<std::uint8_t> split(6, 0);
  for (const char* method : {"random", "contiguous"}) {
    options.method = method;
    const Error error = thrown_error([&] { partition_graph(example.graph(), 2, options, split); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), testing::HasSubstr("use --method metis"));
  }
}

}  // namespace
}  // namespace atl
