// Tests of what a cut is said to take of memory. tests/launch/cutting_memory_test.py holds it
// against what it took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/partitioner.hpp"

namespace atl {
namespace {

constexpr GraphSize kSmall{100'000, 2'000'000, true};
constexpr GraphSize kLarge{2'449'029, 123'718'280, true};

PartitionOptions options_of(const char* method, bool refine) {
  PartitionOptions options;
  options.method = method;
  options.refine = refine;
  return options;
}

std::int64_t bytes(const GraphSize& graph, int parts, const char* method, bool refine) {
  return most_cutting_bytes(graph, parts, options_of(method, refine));
}

TEST(CuttingMemory, EveryMethodTakesSome) {
  for (const char* method : {"random", "contiguous", "file"}) {
    EXPECT_GE(bytes(kSmall, 4, method, false), 8 * kSmall.nodes) << method;
    EXPECT_GT(bytes(kSmall, 4, method, true), bytes(kSmall, 4, method, false)) << method;
    EXPECT_LT(bytes(kLarge, 4, method, false), bytes(kLarge, 4, "communities", false)) << method;
  }
}

// Rows are counted on every level, and to compare the two cuts of `auto`.
TEST(CuttingMemory, SmallGraphsCountRowsWithoutRefinement) {
  for (const char* method : {"auto", "communities"}) {
    EXPECT_EQ(bytes(kSmall, 512, method, false), bytes(kSmall, 512, method, true)) << method;
    EXPECT_LT(bytes(kLarge, 512, method, false), bytes(kLarge, 512, method, true)) << method;
    PartitionOptions cut = options_of(method, true);
    cut.objective = PartitionObjective::kCut;  // counts no rows at all
    EXPECT_LT(most_cutting_bytes(kSmall, 512, cut), bytes(kSmall, 512, method, false)) << method;
  }
}

TEST(CuttingMemory, GrowsWithWhatIsAskedFor) {
  const std::int64_t plain = bytes(kLarge, 8, "metis", true);
  EXPECT_GT(plain, bytes(kLarge, 8, "communities", true));
  PartitionOptions options = options_of("metis", true);
  options.islands = {4, 4};
  EXPECT_GT(most_cutting_bytes(kLarge, 8, options), plain);
  GraphSize directed = kLarge;
  directed.symmetric = false;
  EXPECT_GT(bytes(directed, 8, "communities", true), bytes(kLarge, 8, "communities", true));
}

TEST(CuttingMemory, AdviceFitsAndIsAnotherWay) {
  const auto advice = [](const GraphSize& graph, int parts, const PartitionOptions& options,
                         std::int64_t available) {
    return options_for_memory(graph, parts, options, available);
  };
  const PartitionOptions metis = options_of("metis", true);
  EXPECT_EQ(advice(kLarge, 8, metis, bytes(kLarge, 8, "communities", true)),
            "--method communities");
  const PartitionOptions plain = options_of("auto", true);
  EXPECT_EQ(advice(kLarge, 512, plain, bytes(kLarge, 512, "auto", false)), "--refine off");
  EXPECT_EQ(advice(kSmall, 8, plain, bytes(kSmall, 8, "contiguous", false)), "--method contiguous");
  EXPECT_EQ(advice(kSmall, 8, plain, 1000), "");
  PartitionOptions two = plain;  // which `contiguous` can't balance
  two.balance = PartitionBalance::kEdgesTrain;
  EXPECT_EQ(advice(kSmall, 8, two, most_cutting_bytes(kSmall, 8, two) / 4), "");
  EXPECT_EQ(advice(kSmall, 8, options_of("contiguous", false), 1000), "");
  PartitionOptions file = options_of("file", true);
  EXPECT_EQ(advice(kLarge, 512, file, bytes(kLarge, 512, "file", false)), "--refine off");
}

}  // namespace
}  // namespace atl
