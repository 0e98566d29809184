#include "engine/training/metrics.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

double auc(const std::vector<float>& scores, const std::vector<std::uint8_t>& positive) {
  return roc_auc(scores, positive);
}

TEST(RocAuc, CountsOrderedPairs) {
  EXPECT_DOUBLE_EQ(auc({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}), 0.75);
  EXPECT_DOUBLE_EQ(auc({1, 2, 3, 4}, {0, 0, 1, 1}), 1.0);
  EXPECT_DOUBLE_EQ(auc({4, 3, 2, 1}, {0, 0, 1, 1}), 0.0);
}

TEST(RocAuc, CountsTiesHalf) {
  EXPECT_DOUBLE_EQ(auc({5, 5, 5, 5}, {0, 1, 0, 1}), 0.5);
  EXPECT_DOUBLE_EQ(auc({1, 2, 2, 3}, {0, 0, 1, 1}), (1 + 0.5 + 1 + 1) / 4.0);
}

TEST(RocAuc, IsUndefinedWithoutBothClassesOrWithNaN) {
  EXPECT_TRUE(std::isnan(auc({1, 2}, {1, 1})));
  EXPECT_TRUE(std::isnan(auc({1, 2}, {0, 0})));
  EXPECT_TRUE(std::isnan(auc({}, {})));
  EXPECT_TRUE(std::isnan(auc({1, std::nanf("")}, {0, 1})));
  // Enough of them for a sort that NaN misleads to leave the array (seen by the sanitizers).
  std::vector<float> scores(1000);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = i % 3 == 0 ? std::nanf("") : static_cast<float>(i * 7919 % 1000);
  }
  EXPECT_TRUE(std::isnan(auc(scores, std::vector<std::uint8_t>(scores.size(), 1))));
}

}  // namespace
}  // namespace atl
