#include "partition/partitioner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using Parts = std::vector<std::int32_t>;
using testing::HasSubstr;

PartitionProblem path_problem(const PathExample& example, int parts) {
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  return make_partition_problem(example.graph(), parts, options, {});
}

TEST(Validator, AcceptsAGoodPartition) {
  const PathExample example;
  EXPECT_NO_THROW(validate_partition(path_problem(example, 2), Parts{0, 0, 0, 1, 1, 1}));
}

TEST(Validator, CatchesBrokenPartitions) {
  const PathExample example;
  const PartitionProblem problem = path_problem(example, 3);
  const auto message = [&](const Parts& part_of) {
    const Error error = thrown_error([&] { validate_partition(problem, part_of); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  EXPECT_THAT(message({0, 0, 1, 1, 2}), HasSubstr("placed 5 of 6 nodes"));
  EXPECT_THAT(message({0, 0, 1, 1, 2, 3}), HasSubstr("node 5 into part 3; allowed are 0 to 2"));
  EXPECT_THAT(message({0, 0, 1, 1, 2, -1}), HasSubstr("node 5 into part -1"));
  EXPECT_THAT(message({0, 0, 0, 1, 1, 1}), HasSubstr("left part 2 of 3 empty"));
  // The share is 2; one node and 3 % more are allowed.
  EXPECT_THAT(message({0, 1, 1, 1, 1, 2}), HasSubstr("part 1 of 3 weighs 4 where at most 3"));
}

TEST(Validator, FollowsTargetShares) {
  const PathExample example;
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  options.weights = {1, 5};
  const PartitionProblem problem = make_partition_problem(example.graph(), 2, options, {});
  EXPECT_NO_THROW(validate_partition(problem, Parts{0, 1, 1, 1, 1, 1}));
  EXPECT_THROW(validate_partition(problem, Parts{0, 0, 0, 1, 1, 1}), Error);
}

TEST(PartitionGraph, OnePartNeedsNoPartitioner) {
  const PathExample example;
  for (const std::string& method : partition_methods()) {
    PartitionOptions options;
    if (method == "file") continue;  // is refused
    options.method = method;
    EXPECT_EQ(partition_graph(example.graph(), 1, options, {}), Parts(6, 0));
  }
}

TEST(PartitionGraph, UnknownMethodNamesTheValidOnes) {
  const PathExample example;
  PartitionOptions options;
  options.method = "meits";
  const Error error = thrown_error([&] { partition_graph(example.graph(), 1, options, {}); });
  EXPECT_STREQ(error.what(),
               "--method: 'meits' is unknown; allowed are auto, metis, communities, random, "
               "contiguous, file");
}

// Every method, objective and balance gives a valid partition, the same one every time, down to one
// node per part.
TEST(PartitionGraph, IsValidAndRepeatableOnSmallGraphs) {
  for (const bool directed : {false, true}) {
    for (const std::int32_t nodes : {1, 2, 5, 40, 257}) {
      const Csr csr = random_graph(nodes, 4, directed, false, 7);
      const GraphView graph{csr.view(), !directed};
      for (const int parts : {1, 2, 3, 4, 5, 40}) {
        if (parts > nodes) continue;
        for (const std::string& method : partition_methods()) {
          if (method == "file") continue;
          for (const char* balance : {"cost", "nodes", "edges"}) {
            for (const char* objective : {"volume", "cut"}) {
              PartitionOptions options;
              options.method = method;
              options.refine = method != "random" ? Refinement::kOn : Refinement::kOff;
              options.balance = parse_partition_balance(balance);
              options.objective = parse_partition_objective(objective);
              const Parts part_of = partition_graph(graph, parts, options, {});
              ASSERT_EQ(part_of, partition_graph(graph, parts, options, {}));
              std::vector<std::int64_t> sizes(parts, 0);
              for (const std::int32_t part : part_of) ++sizes.at(part);
              ASSERT_GT(*std::ranges::min_element(sizes), 0)
                  << method << " " << balance << ", " << parts << " parts of " << nodes;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace atl
