// How far from the optimum the strategies end, on plans small enough to look at all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/placement/search.hpp"
#include "tests/support/makespan_space.hpp"

namespace atl {
namespace {

constexpr unsigned kFirstInstance = 1001;  // the search was tuned on others: 1 to 120
constexpr int kInstances = 24;
constexpr int kBudget = 500;

TEST(SearchQuality, MctsIsWithinOnePercentOfTheOptimum) {
  std::vector<double> gaps;
  for (unsigned instance = kFirstInstance; instance < kFirstInstance + kInstances; ++instance) {
    MakespanSpace space(instance);
    ASSERT_GE(space.choices(), 10000);
    const SearchResult optimum = atl::search("exhaustive", space, {.evaluations = 1000000});
    ASSERT_TRUE(optimum.complete);
    ASSERT_EQ(optimum.evaluations, space.choices());
    ASSERT_EQ(optimum.cost.missing_bytes, 0);
    const SearchResult found = atl::search("mcts", space, {.evaluations = kBudget});
    EXPECT_LE(found.evaluations, kBudget);
    EXPECT_EQ(found.cost.missing_bytes, 0) << "instance " << instance;
    gaps.push_back(found.cost.seconds / optimum.cost.seconds - 1);
    EXPECT_GE(gaps.back(), 0) << "better than the optimum";
  }
  std::ranges::sort(gaps);
  const double median = (gaps[kInstances / 2 - 1] + gaps[kInstances / 2]) / 2;
  RecordProperty("median_gap", fmt::format("{:.5f}", median));
  RecordProperty("worst_gap", fmt::format("{:.5f}", gaps.back()));
  fmt::print("{} instances, {} evaluations: median gap {:.3f} %, worst {:.3f} %\n", kInstances,
             kBudget, 100 * median, 100 * gaps.back());
  EXPECT_LE(median, 0.01);
}

}  // namespace
}  // namespace atl
