#include "launch/jobs/student_t.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace atl {
namespace {

// Two-sided quantiles of tables (Abramowitz and Stegun, table 26.10, and the normal distribution).
TEST(StudentT, HasTheQuantilesOfTables) {
  const std::map<int, double> at_95_percent = {{1, 12.7062},  {2, 4.30265},  {3, 3.18245},
                                               {4, 2.77645},  {5, 2.57058},  {10, 2.22814},
                                               {29, 2.04523}, {99, 1.98422}, {1000, 1.96234}};
  for (const auto& [nu, t] : at_95_percent) EXPECT_NEAR(student_t(nu, 0.95), t, 1e-5 * t) << nu;
  const std::map<int, double> at_99_percent = {{1, 63.6567}, {2, 9.92484},  {4, 4.60409},
                                               {9, 3.24984}, {30, 2.75000}, {120, 2.61742}};
  for (const auto& [nu, t] : at_99_percent) EXPECT_NEAR(student_t(nu, 0.99), t, 1e-5 * t) << nu;
  EXPECT_NEAR(student_t(100000, 0.95), 1.959964, 1e-4);
}

// With one and two degrees of freedom the quantiles are known in closed form.
TEST(StudentT, FollowsTheFormulasOfFewDegreesOfFreedom) {
  for (const double p : {0.1, 0.5, 0.8, 0.9, 0.95, 0.999}) {
    EXPECT_NEAR(student_t(1, p) / std::tan(p * std::acos(-1) / 2), 1, 1e-9) << p;
    EXPECT_NEAR(student_t(2, p) / (p * std::sqrt(2 / (1 - p * p))), 1, 1e-9) << p;
  }
}

TEST(MeanInterval, NeedsTwoNumbers) {
  EXPECT_FALSE(mean_interval({}).mean);
  const std::vector<double> one = {2};
  EXPECT_EQ(mean_interval(one).mean, 2);
  EXPECT_FALSE(mean_interval(one).half_width);
  const std::vector<double> three = {1, 0, 2};
  EXPECT_EQ(mean_interval(three).mean, 1);
  EXPECT_NEAR(mean_interval(three).half_width.value(), 4.3026527 / std::sqrt(3), 1e-6);
}

}  // namespace
}  // namespace atl
