#include <gtest/gtest.h>

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
        v1_ += beta * instance.costs.variance[0];
        bytes_[l] += instance.costs.bytes[5];
      }
    }
    t32_ = wire_s();
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
                                    (t32_ > 0 ? (1 - lambda_) * seconds / t32_ : 0.0));
      return;
    }
    const auto [link, beta] = messages_[message];
    for (std::size_t place = 0; place < kWireBits.size(); ++place) {
      bytes_[link] += instance_.costs.bytes[place];
      try_widths(message + 1, variance + beta * instance_.costs.variance[place],
                 exact && place == 5);
      bytes_[link] -= instance_.costs.bytes[place];
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
  double v1_ = 0, t32_ = 0;
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
    const ChannelAssignment found = assign(instance, lambda);
    const Outcome outcome = evaluate(instance, found.bits, lambda);
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

INSTANTIATE_TEST_SUITE_P(BitAssignment, BruteForceTest, ::testing::ValuesIn(kMixtures),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace atl
