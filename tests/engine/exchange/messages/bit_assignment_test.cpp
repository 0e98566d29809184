#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include "tests/engine/exchange/messages/bit_assignment_instances.hpp"

namespace atl {
namespace {

using ::testing::Each;

std::size_t bits_place(int bits) {
  return static_cast<std::size_t>(std::ranges::find(kWireBits, bits) - kWireBits.begin());
}

TEST(BitAssignment, GapOfManyMessagesIsSmall) {
  for (const double lambda : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    for (const double central_s : {0.0, 0.05, 0.3}) {
      Instance instance = large_instance(2500, {8e-8, 8e-8, 1e-7, 3e-8});
      instance.central_s = central_s;
      instance.quantize_s = 0.001;
      const AssignedBits found = assign(instance, lambda);
      EXPECT_LT(found.gap(), 1e-3) << lambda << " " << central_s;
      EXPECT_NEAR(evaluate(instance, found.chosen, lambda).objective, found.objective, 1e-9);
    }
  }
}

TEST(BitAssignment, LargerLambdaGivesLessVarianceAndMoreTime) {
  const Instance instance = large_instance(3000, {8e-8, 1e-7, 3e-8});
  double variance = std::numeric_limits<double>::infinity(), time_s = 0;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    const AssignedBits found = assign(instance, tenths / 10.0);
    EXPECT_LT(found.variance, variance) << tenths;
    EXPECT_GT(found.time_s, time_s) << tenths;
    variance = found.variance;
    time_s = found.time_s;
  }
  EXPECT_EQ(variance, 0);
}

TEST(BitAssignment, LargerBetaNeverGetsFewerBits) {
  const Instance instance = large_instance(3000, {8e-8, 1e-7, 3e-8});
  const AssignedBits found = assign(instance, 0.5);
  ASSERT_TRUE(mixes_widths(found.bits));
  for (std::size_t l = 0; l < instance.betas.size(); ++l) {
    const auto& beta = instance.betas[l];
    std::vector<std::size_t> order(beta.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](auto a, auto b) { return beta[a] < beta[b]; });
    for (std::size_t k = 1; k < order.size(); ++k) {
      ASSERT_GE(found.bits[l][order[k]], found.bits[l][order[k - 1]]);
    }
  }
}

TEST(BitAssignment, EqualBetasAreServedInRowOrder) {
  Instance instance = large_instance(1000, {8e-8});
  std::ranges::fill(instance.betas[0], 0.25f);
  // Room for some messages at 8 bits beside others at 4.
  instance.central_s = instance.links[0].seconds(700 * 132 + 300 * 260);
  const auto bits = assign(instance, 0).bits[0];
  std::vector<std::uint8_t> expected(1000, 4);
  std::fill_n(expected.begin(), 300, std::uint8_t{8});
  EXPECT_EQ(bits, expected);
}

TEST(BitAssignment, SlowLinkGetsFewerBitsAndFastLinkUsesItsTime) {
  Instance instance = large_instance(2000, {1e-7, 1e-8});
  instance.betas[1] = instance.betas[0];
  for (const double lambda : {0.0, 0.5, 0.9}) {
    const AssignedBits found = assign(instance, lambda);
    std::array<std::int64_t, 2> bytes{};
    for (std::size_t l = 0; l < 2; ++l) {
      for (const std::uint8_t bits : found.bits[l]) {
        bytes[l] += instance.costs[bits_place(bits)].bytes;
      }
    }
    EXPECT_LT(bytes[0], bytes[1]);
    EXPECT_NEAR(instance.links[1].seconds(bytes[1]), found.time_s, 0.001 * found.time_s);
    EXPECT_LE(instance.links[1].seconds(bytes[1]), found.time_s);
  }
}

TEST(BitAssignment, RoomBesideCentralWorkIsUsed) {
  Instance instance = large_instance(2000, {1e-7, 1e-7});
  instance.central_s = instance.links[0].seconds(2000 * 132);
  const AssignedBits found = assign(instance, 0);
  EXPECT_EQ(found.time_s, instance.central_s);
  instance.betas[0].assign(2000, 1.0f);
  EXPECT_THAT(assign(instance, 0).bits[0], Each(4));
  instance.central_s = 10;
  EXPECT_THAT(assign(instance, 0).bits, Each(Each(32)));
  EXPECT_EQ(assign(instance, 0).gap(), 0);
}

TEST(BitAssignment, QuantizingMustPay) {
  Instance instance = large_instance(2000, {1e-7, 1e-7});
  const double saved = assign(instance, 0).time_s;
  const double exact = instance.links[0].seconds(2000 * 1024);
  instance.quantize_s = 0.99 * (exact - saved);
  EXPECT_THAT(assign(instance, 0).bits, Each(Each(1)));
  EXPECT_NEAR(assign(instance, 0).time_s, saved + instance.quantize_s, 1e-12);
  instance.quantize_s = 1.01 * (exact - saved);
  EXPECT_THAT(assign(instance, 0).bits, Each(Each(32)));
  EXPECT_EQ(assign(instance, 0).time_s, exact);
}

TEST(BitAssignment, LeavesOutWidthsThatAreNotWorthTheirBytes) {
  const auto bits_of = [](const std::vector<TravelCost>& costs) {
    const ChoiceHull hull = make_hull(costs);
    std::vector<int> bits = {kWireBits[hull.least]};
    for (const ChoiceStep& step : hull.steps) bits.push_back(kWireBits[step.choice]);
    return bits;
  };
  EXPECT_EQ(bits_of(costs_of(256, 4)), (std::vector{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(bits_of(costs_of(256, 2)), (std::vector{1, 2, 4, 8, 32}));
  EXPECT_EQ(bits_of(costs_of(1, 4)), (std::vector{32}));
  // 8 bytes up to 8 bits, 12 at 16 bits, 16 at 32.
  EXPECT_EQ(bits_of(costs_of(4, 4)), (std::vector{8, 16, 32}));
  // Worse than a mixture of 1 and 4 bits.
  EXPECT_EQ(bits_of(costs_of(256, 4, {1, 8, 1, 1, 1})), (std::vector{1, 4, 8, 16, 32}));
}

TEST(BitAssignment, ALinkSpendsItsBytesOnTheLargestGains) {
  const ChoiceHull hull = make_hull(costs_of(256, 4));
  const std::vector<float> beta = {0.01f, 1.0f};
  const LinkBudget link({beta, {.wire = {.theta_s_per_byte = 1, .gamma_s = 5}, .cover = {}}}, hull);
  EXPECT_EQ(link.least_seconds(), 5 + 72);
  EXPECT_EQ(link.most_seconds(), 5 + 2048);

  // The first 32 bytes make the larger message 2 bits wide, the next 64 make it 4 bits wide.
  const double small = beta[0];
  const std::vector<double> times = {5 + 72, 5 + 88, 5 + 104, 5 + 2048};
  const auto relaxed = link.relax(times);
  EXPECT_DOUBLE_EQ(relaxed[0].variance, 1 + small);
  EXPECT_DOUBLE_EQ(relaxed[0].slope, -(1 - 1 / 9.0) / 32);
  EXPECT_DOUBLE_EQ(relaxed[1].variance, (1 + 1 / 9.0) / 2 + small);
  EXPECT_DOUBLE_EQ(relaxed[1].slope, -(1 - 1 / 9.0) / 32);
  EXPECT_DOUBLE_EQ(relaxed[2].variance, 1 / 9.0 + small);
  EXPECT_DOUBLE_EQ(relaxed[2].slope, -(1 / 9.0 - 1 / 225.0) / 64);
  EXPECT_EQ(relaxed[3].variance, 0);
  EXPECT_EQ(relaxed[3].slope, 0);

  // 40 bytes are too few for the next step in order; the smaller message's fits.
  const std::vector<double> budgets = {5 + 72 + 31, 5 + 72 + 32 + 40};
  const auto rounded = link.round(budgets);
  EXPECT_EQ(link.chosen(rounded[0].taken), (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(link.chosen(rounded[1].taken), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(rounded[1].seconds, 5 + 136);
  EXPECT_DOUBLE_EQ(rounded[1].variance, (1 + small) / 9);
}

TEST(BitAssignment, WithoutVarianceOrTimeOneOfThemDecides) {
  Instance instance = large_instance(50, {1e-7, 2e-7});
  for (auto& beta : instance.betas) beta.assign(50, 0.0f);
  EXPECT_THAT(assign(instance, 0.5).bits, Each(Each(1)));
  EXPECT_THAT(assign(instance, 1).bits, Each(Each(32)));
  instance = large_instance(50, {0, 0});
  for (LinkTime& link : instance.links) link = {};
  EXPECT_THAT(assign(instance, 0).bits, Each(Each(32)));
}

TEST(BitAssignment, NothingToSend) {
  Instance instance = large_instance(0, {1e-7, 2e-7});
  instance.central_s = 0.5;
  const AssignedBits found = assign(instance, 0.5);
  EXPECT_EQ(found.bits, Assigned(2));
  EXPECT_EQ(found.time_s, 0.5);
  EXPECT_EQ(found.gap(), 0);
  EXPECT_TRUE(assign_bits({}, 0.5).empty());
  EXPECT_TRUE(assign(large_instance(0, {}), 0.5).bits.empty());
}

// Reductions of ranks that are threads, added in rank order.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : values_(size), barrier_(size) {}

  RankReductions of(int rank) {
    return {.sum = [this, rank](std::span<double> values) { reduce(rank, values, std::plus<>()); },
            .max =
                [this, rank](std::span<double> values) {
                  reduce(rank, values, [](double a, double b) { return std::max(a, b); });
                }};
  }

 private:
  template <typename Operation>
  void reduce(int rank, std::span<double> values, Operation operation) {
    values_[rank].assign(values.begin(), values.end());
    barrier_.arrive_and_wait();
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = values_[0][k];
      for (std::size_t r = 1; r < values_.size(); ++r) {
        values[k] = operation(values[k], values_[r][k]);
      }
    }
    barrier_.arrive_and_wait();
  }

  std::vector<std::vector<double>> values_;
  std::barrier<> barrier_;
};

TEST(BitAssignment, RanksThatHoldTheLinksFindTheSameBits) {
  std::vector<Instance> instances = {large_instance(700, {8e-8, 1e-7, 3e-8, 9e-8}),
                                     large_instance(400, {1e-7, 3e-8, 3e-8, 0}),
                                     large_instance(100, {1e-7, 1e-7, 1e-7, 1e-7})};
  instances[0].quantize_s = 0.001;
  instances[1].central_s = 0.01;
  instances[2].central_s = 1;  // all at 32 bits
  std::vector<ChannelProblem> whole;
  for (const Instance& instance : instances) whole.push_back(instance.problem());
  const auto alone = assign_bits(whole, 0.5);

  // Ranks of 2, 0, 1 and 1 links; central work and quantizing take longest on the last.
  const std::array<std::size_t, 5> first = {0, 2, 2, 3, 4};
  ThreadRanks ranks(4);
  std::vector<std::vector<ChannelAssignment>> found(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      std::vector<ChannelProblem> own;
      for (const Instance& instance : instances) {
        own.push_back(instance.problem(first[r], first[r + 1]));
        own.back().central_s *= (r + 1) / 4.0;
        own.back().quantize_s *= (r + 1) / 4.0;
      }
      found[r] = assign_bits(own, 0.5, ranks.of(r));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t c = 0; c < instances.size(); ++c) {
    EXPECT_EQ(mixes_widths(alone[c].chosen), c < 2) << c;
    for (int r = 0; r < 4; ++r) {
      const ChannelAssignment& one = found[r][c];
      EXPECT_EQ(one.chosen, Assigned(alone[c].chosen.begin() + first[r],
                                     alone[c].chosen.begin() + first[r + 1]))
          << c << " " << r;
      EXPECT_DOUBLE_EQ(one.objective, alone[c].objective);
      EXPECT_DOUBLE_EQ(one.variance, alone[c].variance);
      EXPECT_EQ(one.time_s, alone[c].time_s);
      EXPECT_EQ(one.bound, found[0][c].bound);
    }
  }
}

TEST(BitAssignmentDeath, RefusesBetasThatAreNoNumbersOrNegative) {
  for (const float bad : {std::nanf(""), -1.0f, std::numeric_limits<float>::infinity()}) {
    Instance instance = large_instance(3, {1e-7});
    instance.betas[0][1] = bad;
    EXPECT_DEATH(assign(instance, 0.5), "of message 1");
  }
}

}  // namespace
}  // namespace atl
