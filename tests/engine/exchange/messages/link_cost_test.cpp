#include "engine/exchange/messages/link_cost.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace atl {
namespace {

std::vector<LinkSample> samples_of(const LinkCost& cost) {
  std::vector<LinkSample> samples;
  for (std::int64_t bytes = 1024; bytes <= 4 << 20; bytes *= 4) {
    samples.push_back({bytes, cost.seconds(bytes)});
  }
  return samples;
}

constexpr LinkCost kCost{.theta_s_per_byte = 8e-8, .gamma_s = 2e-4};

void expect_near(const LinkCost& found, const LinkCost& expected, double tolerance) {
  EXPECT_NEAR(found.theta_s_per_byte, expected.theta_s_per_byte,
              tolerance * expected.theta_s_per_byte);
  EXPECT_NEAR(found.gamma_s, expected.gamma_s, tolerance * expected.gamma_s);
}

TEST(LinkCost, FindsExactLines) {
  for (const LinkCost& cost :
       {kCost, LinkCost{8e-8, 0}, LinkCost{0, 2e-4}, LinkCost{1e-10, 1e-6}}) {
    const LinkCostFit fit = fit_link_cost(samples_of(cost));
    EXPECT_NEAR(fit.cost.theta_s_per_byte, cost.theta_s_per_byte, 1e-16);
    EXPECT_NEAR(fit.cost.gamma_s, cost.gamma_s, 1e-12);
    EXPECT_LT(fit.worst_relative_residual, 1e-9);
    EXPECT_EQ(fit.outliers, 0);
  }
}

TEST(LinkCost, NoiseOfFivePercentMovesItLittle) {
  std::mt19937 random(5);
  for (int repetition = 0; repetition < 200; ++repetition) {
    auto samples = samples_of(kCost);
    for (LinkSample& sample : samples) {
      sample.seconds *= 0.95 + 0.1 * static_cast<double>(random()) / 4294967296.0;
    }
    const LinkCostFit fit = fit_link_cost(samples);
    for (const LinkSample& sample : samples) {
      EXPECT_NEAR(fit.cost.seconds(sample.bytes) / kCost.seconds(sample.bytes), 1, 0.08);
    }
    EXPECT_LT(fit.worst_relative_residual, 0.15);
    EXPECT_GT(fit.worst_relative_residual, 0);
  }
}

TEST(LinkCost, OneOutlierIsLeftOutButReported) {
  for (std::size_t outlier = 0; outlier < samples_of(kCost).size(); ++outlier) {
    for (const double factor : {0.2, 7.0}) {
      auto samples = samples_of(kCost);
      samples[outlier].seconds *= factor;
      const LinkCostFit fit = fit_link_cost(samples);
      expect_near(fit.cost, kCost, 1e-6);
      EXPECT_EQ(fit.outliers, 1);
      EXPECT_NEAR(fit.worst_relative_residual, std::abs(1 / factor - 1), 1e-6);
    }
  }
}

TEST(LinkCost, IsNeverNegative) {
  const std::vector<LinkSample> falling = {{1000, 4e-3}, {2000, 3e-3}, {4000, 2e-3}};
  EXPECT_EQ(fit_link_cost(falling).cost.theta_s_per_byte, 0);
  EXPECT_GT(fit_link_cost(falling).cost.gamma_s, 2e-3);
  // Steeper than proportional: a line would cross zero time above zero bytes.
  const std::vector<LinkSample> steep = {{1000, 1e-3}, {2000, 4e-3}, {4000, 12e-3}};
  EXPECT_EQ(fit_link_cost(steep).cost.gamma_s, 0);
  EXPECT_GT(fit_link_cost(steep).cost.theta_s_per_byte, 1e-6);
}

TEST(LinkCost, EqualSizesCountAsProportional) {
  const std::vector<LinkSample> equal = {{4000, 2e-3}, {4000, 2e-3}, {4000, 2e-3}};
  expect_near(fit_link_cost(equal).cost, {5e-7, 0}, 1e-9);
  for (std::int64_t bytes = 4000; bytes < 4100; ++bytes) {
    const std::vector<LinkSample> noisy = {{bytes, 2e-3}, {bytes, 2.1e-3}, {bytes, 1.93e-3}};
    EXPECT_EQ(fit_link_cost(noisy).cost.gamma_s, 0);
  }
  expect_near(fit_link_cost(std::vector<LinkSample>{{4000, 2e-3}}).cost, {5e-7, 0}, 1e-9);
}

TEST(LinkCost, NoSamplesNoBytesNoTime) {
  const LinkCostFit none = fit_link_cost({});
  EXPECT_EQ(none.cost.seconds(1 << 20), 0);
  EXPECT_EQ(none.worst_relative_residual, 0);
  const std::vector<LinkSample> empty_packets = {{0, 1e-4}, {0, 1e-4}};
  expect_near(fit_link_cost(empty_packets).cost, {0, 1e-4}, 1e-9);
  const std::vector<LinkSample> no_time = {{100, 0}, {1000, 0}};
  EXPECT_LE(fit_link_cost(no_time).cost.seconds(1000), 1e-8);
}

}  // namespace
}  // namespace atl
