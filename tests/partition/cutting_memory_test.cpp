// Tests of what a cut is said to take of memory. tests/launch/cutting_memory_test.py holds it
// against what it took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/partitioner.hpp"

namespace atl {
namespace {

constexpr GraphSize kSmall{100'000, 2'000'000, true};
constexpr GraphSize kLarge{2'449'029, 123'718'280, true};

using enum Refinement;

PartitionOptions options_of(const char* method, Refinement refine) {
  PartitionOptions options;
  options.method = method;
  options.refine = refine;
  return options;
}

std::int64_t bytes(const GraphSize& graph, int parts, const char* method, Refinement refine) {
  return most_cutting_bytes(graph, parts, options_of(method, refine));
}

TEST(CuttingMemory, EveryMethodTakesSome) {
  for (const char* method : {"random", "contiguous", "file"}) {
    EXPECT_GE(bytes(kSmall, 4, method, kOff), 8 * kSmall.nodes) << method;
    EXPECT_GT(bytes(kSmall, 4, method, kOn), bytes(kSmall, 4, method, kOff)) << method;
    EXPECT_LT(bytes(kLarge, 4, method, kOff), bytes(kLarge, 4, "communities", kOff)) << method;
  }
}

// Rows are counted on every level, and to compare the two cuts of `auto`.
TEST(CuttingMemory, SmallGraphsCountRowsWithoutRefinement) {
  for (const char* method : {"auto", "communities"}) {
    EXPECT_EQ(bytes(kSmall, 512, method, kOff), bytes(kSmall, 512, method, kOn)) << method;
    EXPECT_LT(bytes(kLarge, 512, method, kOff), bytes(kLarge, 512, method, kOn)) << method;
    PartitionOptions cut = options_of(method, kOn);
    cut.objective = PartitionObjective::kCut;  // counts no rows at all
    EXPECT_LT(most_cutting_bytes(kSmall, 512, cut), bytes(kSmall, 512, method, kOff)) << method;
  }
}

// Further cuts are made beside the first, of graphs that are searched in detail.
TEST(CuttingMemory, StrongRefinementTakesMore) {
  for (const char* method : {"auto", "metis", "communities", "random"}) {
    EXPECT_GT(bytes(kSmall, 8, method, kStrong), bytes(kSmall, 8, method, kOn)) << method;
    EXPECT_EQ(bytes(kLarge, 8, method, kStrong), bytes(kLarge, 8, method, kOn)) << method;
  }
  const PartitionOptions strong = options_of("metis", kStrong);
  EXPECT_EQ(options_for_memory(kSmall, 8, strong, bytes(kSmall, 8, "metis", kOn)), "--refine on");
}

TEST(CuttingMemory, GrowsWithWhatIsAskedFor) {
  const std::int64_t plain = bytes(kLarge, 8, "metis", kOn);
  EXPECT_GT(plain, bytes(kLarge, 8, "communities", kOn));
  PartitionOptions options = options_of("metis", kOn);
  options.islands = {4, 4};
  EXPECT_GT(most_cutting_bytes(kLarge, 8, options), plain);
  GraphSize directed = kLarge;
  directed.symmetric = false;
  EXPECT_GT(bytes(directed, 8, "communities", kOn), bytes(kLarge, 8, "communities", kOn));
}

TEST(CuttingMemory, AdviceFitsAndIsAnotherWay) {
  const auto advice = [](const GraphSize& graph, int parts, const PartitionOptions& options,
                         std::int64_t available) {
    return options_for_memory(graph, parts, options, available);
  };
  const PartitionOptions metis = options_of("metis", kOn);
  EXPECT_EQ(advice(kLarge, 8, metis, bytes(kLarge, 8, "communities", kOn)), "--method communities");
  const PartitionOptions plain = options_of("auto", kOn);
  EXPECT_EQ(advice(kLarge, 512, plain, bytes(kLarge, 512, "auto", kOff)), "--refine off");
  EXPECT_EQ(advice(kSmall, 8, plain, bytes(kSmall, 8, "contiguous", kOff)), "--method contiguous");
  EXPECT_EQ(advice(kSmall, 8, plain, 1000), "");
  PartitionOptions two = plain;  // which `contiguous` can't balance
  two.balance = PartitionBalance::kEdgesTrain;
  EXPECT_EQ(advice(kSmall, 8, two, most_cutting_bytes(kSmall, 8, two) / 4), "");
  EXPECT_EQ(advice(kSmall, 8, options_of("contiguous", kOff), 1000), "");
  PartitionOptions file = options_of("file", kOn);
  EXPECT_EQ(advice(kLarge, 512, file, bytes(kLarge, 512, "file", kOff)), "--refine off");
}

}  // namespace
}  // namespace atl
