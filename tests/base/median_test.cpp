#include "base/median.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace atl {
namespace {

TEST(Median, OfKnownValues) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({9, 1, 5, 2}), 3.5);
  EXPECT_EQ(median({kUnknown, 4, kUnknown, 1, 3}), 3);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(median({kUnknown})));
}

}  // namespace
}  // namespace atl
