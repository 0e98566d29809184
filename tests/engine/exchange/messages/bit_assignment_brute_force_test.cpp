#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/exchange/messages/bit_assignment_instances.hpp"

namespace atl {
namespace {

// The least objective over all widths of all messages.
class BruteForce {
 public:
  BruteForce(const Instance& instance, double lambda) : instance_(instance), lambda_(lambda) {
    for (std::size_t l = 0; l < instance.betas.size(); ++l) {
      for (const float beta : instance.betas[l]) {
        messages_.push_back({l, beta});
        v1_ += beta * instance.costs[0].variance;
        bytes_[l] += instance.costs[instance.unit_time.value_or(instance.costs.size() - 1)].bytes;
      }
    }
    v1_ = instance.unit_variance.value_or(v1_);
    t1_ = wire_s();
    bytes_ = {};
  }

  double least() {
    try_widths(0, 0.0, true);
    return least_;
  }

 private:
  double wire_s() const {
    double seconds = instance_.central_s;
    for (std::size_t l = 0; l < instance_.links.size(); ++l) {
      if (bytes_[l] > 0) seconds = std::max(seconds, instance_.links[l].seconds(bytes_[l]));
    }
    return seconds;
  }

  void try_widths(std::size_t message, double variance, bool exact) {
    if (message == messages_.size()) {
      const double seconds = wire_s() + (exact ? 0.0 : instance_.quantize_s);
      least_ = std::min(least_, (v1_ > 0 ? lambda_ * variance / v1_ : 0.0) +
                                    (t1_ > 0 ? (1 - lambda_) * seconds / t1_ : 0.0));
      return;
    }
    const auto [link, beta] = messages_[message];
    const std::size_t choices = instance_.costs.size();
    for (std::size_t place = 0; place < choices; ++place) {
      bytes_[link] += instance_.costs[place].bytes;
      try_widths(message + 1, variance + beta * instance_.costs[place].variance,
                 exact && place + 1 == choices);
      bytes_[link] -= instance_.costs[place].bytes;
    }
  }

  struct Message {
    std::size_t link;
    float beta;
  };
  const Instance& instance_;
  double lambda_;
  std::vector<Message> messages_;
  std::array<std::int64_t, 3> bytes_{};
  double v1_ = 0, t1_ = 0;  // what the objective divides by
  double least_ = std::numeric_limits<double>::infinity();
};

class BruteForceTest : public ::testing::TestWithParam<Mixture> {};

TEST_P(BruteForceTest, IsHardlyBetterAndTheBoundHolds) {
  constexpr int kInstances = 10000;
  Random random(1);
  double worst = 0, sum = 0;
  int optimal = 0, mixed = 0;
  for (int k = 0; k < kInstances; ++k) {
    const Instance instance = random_instance(random, GetParam(), 1 + random() % 6);
    const double lambda = one_of(random, GetParam().lambdas);
    const double least = BruteForce(instance, lambda).least();
    const AssignedBits found = assign(instance, lambda);
    const AssignmentOutcome outcome = evaluate(instance, found.chosen, lambda);
    const double rounding = 1e-12 * least;
    ASSERT_NEAR(outcome.objective, found.objective, rounding) << "instance " << k;
    ASSERT_NEAR(outcome.variance, found.variance, 1e-12 * outcome.variance) << "instance " << k;
    ASSERT_NEAR(outcome.time_s, found.time_s, 1e-12 * outcome.time_s) << "instance " << k;
    ASSERT_LE(found.bound, least + rounding) << "instance " << k;
    ASSERT_LE(least, outcome.objective + rounding) << "instance " << k;
    const double gap = least > 0 ? (outcome.objective - least) / least : outcome.objective;
    worst = std::max(worst, gap);
    sum += gap;
    optimal += gap < 1e-9;
    mixed += mixes_widths(found.bits);
  }
  fmt::print(
      "{}, {} instances of 1 to 6 messages ({} mix widths): gap to brute force worst {:.4f}, "
      "mean {:.2e}; {} are optimal\n",
      GetParam().name, kInstances, mixed, worst, sum / kInstances, optimal);
  EXPECT_LT(worst, 0.2);
  EXPECT_LT(sum / kInstances, 2e-4);
  EXPECT_GT(mixed, kInstances / 10);
}

// Widths times periods, with other units: as `unified` asks.
Instance with_periods(Random& random, Instance instance) {
  const std::vector<TravelCost> widths = instance.costs;
  instance.costs.clear();
  for (const int period : {8, 4, 2, 1}) {
    const double lag = period == 1 ? 0 : uniform(random, 0, 0.3) * period;
    for (const TravelCost& width : widths) {
      instance.costs.push_back({width.variance * period + lag, width.bytes * 8 / period});
    }
  }
  for (LinkTime& link : instance.links) {
    link.wire.theta_s_per_byte /= 8;
    link.cover.theta_s_per_byte /= 8;
  }
  instance.unit_time = 18;  // 1 bit in every epoch
  instance.unit_variance = uniform(random, 0.5, 2);
  return instance;
}

TEST_P(BruteForceTest, IsHardlyBetterWithPeriods) {
  constexpr int kInstances = 1000;
  Random random(2);
  double worst = 0, sum = 0;
  int rare = 0;
  for (int k = 0; k < kInstances; ++k) {
    const Instance instance =
        with_periods(random, random_instance(random, GetParam(), 1 + random() % 3));
    const double lambda = one_of(random, GetParam().lambdas);
    const double least = BruteForce(instance, lambda).least();
    const ChannelProblem problem = instance.problem();
    const ChannelAssignment found = assign_bits({&problem, 1}, lambda).front();
    const AssignmentOutcome outcome = evaluate(instance, found.chosen, lambda);
    const double rounding = 1e-12 * least;
    ASSERT_NEAR(outcome.objective, found.objective, rounding) << "instance " << k;
    ASSERT_LE(found.bound, least + rounding) << "instance " << k;
    ASSERT_LE(least, outcome.objective + rounding) << "instance " << k;
    const double gap = least > 0 ? (outcome.objective - least) / least : outcome.objective;
    worst = std::max(worst, gap);
    sum += gap;
    for (const auto& link : found.chosen) {
      rare += std::ranges::any_of(link, [](std::uint8_t choice) { return choice < 18; }) ? 1 : 0;
    }
  }
  fmt::print("{}, {} instances with periods ({} use them): gap worst {:.4f}, mean {:.2e}\n",
             GetParam().name, kInstances, rare, worst, sum / kInstances);
  EXPECT_LT(worst, 0.2);
  EXPECT_LT(sum / kInstances, 1e-3);
  EXPECT_GT(rare, kInstances / 20);
}

INSTANTIATE_TEST_SUITE_P(BitAssignment, BruteForceTest, ::testing::ValuesIn(kMixtures),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace atl
