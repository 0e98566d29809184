#include "engine/exchange/bit_assignment.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "engine/exchange/link_budget.hpp"

namespace atl {
namespace {

using ::testing::Each;
using Assigned = std::vector<std::vector<std::uint8_t>>;

// The wire format of docs: 4 bytes of metadata and codes padded to 4 bytes; at 32 bits as stored.
WidthCosts costs_of(std::int64_t cols, std::int64_t stored_bytes,
                    const std::array<double, 5>& ratio = {1, 1, 1, 1, 1}) {
  WidthCosts costs;
  for (int k = 0; k < 5; ++k) {
    const double levels = std::ldexp(1.0, kWireBits[k]) - 1;
    costs.variance[k] = ratio[k] / (levels * levels);
    costs.bytes[k] = 4 + (cols * kWireBits[k] + 31) / 32 * 4;
  }
  costs.bytes[5] = cols * stored_bytes;
  return costs;
}

// The betas of all links of all ranks, with what the spans of a ChannelProblem point to.
struct Instance {
  WidthCosts costs;
  std::vector<std::vector<float>> betas;
  std::vector<LinkTime> links;
  double central_s = 0;
  double quantize_s = 0;

  ChannelProblem problem() const { return problem(0, links.size()); }
  ChannelProblem problem(std::size_t first, std::size_t end) const {
    ChannelProblem problem{
        .costs = costs, .links = {}, .central_s = central_s, .quantize_s = quantize_s};
    for (std::size_t l = first; l < end; ++l) problem.links.push_back({betas[l], links[l]});
    return problem;
  }
};

struct Outcome {
  double variance = 0, time_s = 0, objective = 0;
};

// By the formulas of the header and nothing else.
Outcome evaluate(const Instance& instance, const Assigned& bits, double lambda) {
  const auto measure = [&](auto width_of, bool& exact) {
    Outcome outcome{.time_s = instance.central_s};
    exact = true;
    for (std::size_t l = 0; l < instance.links.size(); ++l) {
      std::int64_t bytes = 0;
      for (std::size_t k = 0; k < instance.betas[l].size(); ++k) {
        const int place = width_of(l, k);
        bytes += instance.costs.bytes[place];
        outcome.variance += instance.betas[l][k] * instance.costs.variance[place];
        exact = exact && place == 5;
      }
      if (!instance.betas[l].empty()) {
        outcome.time_s = std::max(outcome.time_s, instance.links[l].seconds(bytes));
      }
    }
    if (!exact) outcome.time_s += instance.quantize_s;
    return outcome;
  };
  bool exact = false;
  Outcome outcome = measure(
      [&](std::size_t l, std::size_t k) {
        return static_cast<int>(std::ranges::find(kWireBits, bits[l][k]) - kWireBits.begin());
      },
      exact);
  const double v1 = measure([](std::size_t, std::size_t) { return 0; }, exact).variance;
  const double t32 = measure([](std::size_t, std::size_t) { return 5; }, exact).time_s;
  outcome.objective = (v1 > 0 ? lambda * outcome.variance / v1 : 0.0) +
                      (t32 > 0 ? (1 - lambda) * outcome.time_s / t32 : 0.0);
  return outcome;
}

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

using Random = std::mt19937;

double uniform(Random& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
}

double one_of(Random& random, const std::vector<double>& values) {
  return values[random() % values.size()];
}

std::vector<float> random_betas(Random& random, std::size_t count) {
  std::vector<float> betas(count);
  const auto kind = random() % 5;
  for (float& beta : betas) {
    switch (kind) {
      case 0:
        beta = 0.75f;
        break;
      case 1:
        beta = static_cast<float>(std::exp(uniform(random, -40, 40)));
        break;
      case 2:
        beta = random() % 2 == 0 ? 0.0f : static_cast<float>(uniform(random, 0, 1));
        break;
      default:
        beta = static_cast<float>(std::exp(uniform(random, -2, 2)));
    }
  }
  return betas;
}

std::array<double, 5> random_ratios(Random& random) {
  std::array<double, 5> ratios;
  for (double& ratio : ratios) ratio = uniform(random, 0.2, 1.4);
  return ratios;
}

// What an instance is drawn from. The first has every kind of corner; the second only links of
// similar speed and times that compete, where nearly all solutions mix widths.
struct Mixture {
  const char* name;
  std::vector<double> thetas, gammas, lambdas;
  std::vector<double> central, quantize;  // shares of the slowest link's time at 32 bits
};
void PrintTo(const Mixture& mixture, std::ostream* stream) { *stream << mixture.name; }

const std::array<Mixture, 2> kMixtures = {Mixture{.name = "Corners",
                                                  .thetas = {0, 1e-9, 1e-8, 1.7e-8, 1e-7},
                                                  .gammas = {0, 0, 1e-5},
                                                  .lambdas = {0, 0.1, 0.5, 0.9, 1},
                                                  .central = {0, 0, 0.05, 0.5, 2},
                                                  .quantize = {0, 0, 0.1, 2}},
                                          Mixture{.name = "CloseCalls",
                                                  .thetas = {1e-8, 1.3e-8, 1.7e-8},
                                                  .gammas = {0, 0, 1e-6},
                                                  .lambdas = {0, 0.5, 0.9, 0.99, 0.999},
                                                  .central = {0, 0.03, 0.1, 0.2, 0.3},
                                                  .quantize = {0}}};

// `messages` over 1 to 3 links at random.
Instance random_instance(Random& random, const Mixture& mixture, std::size_t messages) {
  Instance instance;
  instance.costs = costs_of(1 + random() % 300, random() % 2 == 0 ? 2 : 4, random_ratios(random));
  const std::size_t links = 1 + random() % 3;
  std::vector<std::size_t> counts(links, 0);
  for (std::size_t k = 0; k < messages; ++k) ++counts[random() % links];
  double slowest = 0;
  for (const std::size_t count : counts) {
    LinkTime cost{.wire = {.theta_s_per_byte = one_of(random, mixture.thetas),
                           .gamma_s = one_of(random, mixture.gammas)},
                  .cover = {}};
    // Work that hides the wire and grows with its bytes, for half of the links.
    if (random() % 2 == 0) {
      cost.cover = {.theta_s_per_byte = 0.3 * one_of(random, mixture.thetas),
                    .gamma_s = 4 * one_of(random, mixture.gammas)};
    }
    instance.betas.push_back(random_betas(random, count));
    instance.links.push_back(cost);
    slowest = std::max(
        slowest, cost.seconds(static_cast<std::int64_t>(count) * instance.costs.bytes.back()));
  }
  instance.central_s = one_of(random, mixture.central) * slowest;
  instance.quantize_s = one_of(random, mixture.quantize) * slowest;
  return instance;
}

ChannelAssignment assign(const Instance& instance, double lambda) {
  const ChannelProblem problem = instance.problem();
  return assign_bits({&problem, 1}, lambda).front();
}

// `messages` per link; the spread of the betas is what rows of one layer show.
Instance large_instance(std::size_t messages, std::vector<double> thetas) {
  Random random(7);
  Instance instance;
  instance.costs = costs_of(256, 4);
  for (const double theta : thetas) {
    std::vector<float> betas(messages);
    for (float& beta : betas) beta = static_cast<float>(std::exp(uniform(random, -4, 4)));
    instance.betas.push_back(betas);
    instance.links.push_back({.wire = {.theta_s_per_byte = theta, .gamma_s = 1e-4}, .cover = {}});
  }
  return instance;
}

bool mixes_widths(const Assigned& bits) {
  std::set<std::uint8_t> widths;
  for (const auto& link : bits) widths.insert(link.begin(), link.end());
  return widths.size() > 1;
}

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

TEST(BitAssignment, GapOfManyMessagesIsSmall) {
  for (const double lambda : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    for (const double central_s : {0.0, 0.05, 0.3}) {
      Instance instance = large_instance(2500, {8e-8, 8e-8, 1e-7, 3e-8});
      instance.central_s = central_s;
      instance.quantize_s = 0.001;
      const ChannelAssignment found = assign(instance, lambda);
      EXPECT_LT(found.gap(), 1e-3) << lambda << " " << central_s;
      EXPECT_NEAR(evaluate(instance, found.bits, lambda).objective, found.objective, 1e-9);
    }
  }
}

TEST(BitAssignment, LargerLambdaGivesLessVarianceAndMoreTime) {
  const Instance instance = large_instance(3000, {8e-8, 1e-7, 3e-8});
  double variance = std::numeric_limits<double>::infinity(), time_s = 0;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    const ChannelAssignment found = assign(instance, tenths / 10.0);
    EXPECT_LT(found.variance, variance) << tenths;
    EXPECT_GT(found.time_s, time_s) << tenths;
    variance = found.variance;
    time_s = found.time_s;
  }
  EXPECT_EQ(variance, 0);
}

TEST(BitAssignment, LargerBetaNeverGetsFewerBits) {
  const Instance instance = large_instance(3000, {8e-8, 1e-7, 3e-8});
  const ChannelAssignment found = assign(instance, 0.5);
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
    const ChannelAssignment found = assign(instance, lambda);
    std::array<std::int64_t, 2> bytes{};
    for (std::size_t l = 0; l < 2; ++l) {
      for (const std::uint8_t bits : found.bits[l]) {
        bytes[l] += instance.costs.bytes[std::ranges::find(kWireBits, bits) - kWireBits.begin()];
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
  const ChannelAssignment found = assign(instance, 0);
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
  const auto bits_of = [](const WidthCosts& costs) {
    const WidthHull hull = make_width_hull(costs);
    std::vector<int> bits = {hull.narrowest_bits};
    for (const WidthStep& step : hull.steps) bits.push_back(step.wider_bits);
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
  const WidthHull hull = make_width_hull(costs_of(256, 4));
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
  EXPECT_EQ(link.bits(rounded[0].taken), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(link.bits(rounded[1].taken), (std::vector<std::uint8_t>{2, 2}));
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
  const ChannelAssignment found = assign(instance, 0.5);
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
    EXPECT_EQ(mixes_widths(alone[c].bits), c < 2) << c;
    for (int r = 0; r < 4; ++r) {
      const ChannelAssignment& one = found[r][c];
      EXPECT_EQ(one.bits,
                Assigned(alone[c].bits.begin() + first[r], alone[c].bits.begin() + first[r + 1]))
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
