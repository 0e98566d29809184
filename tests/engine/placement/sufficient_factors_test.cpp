#include "engine/placement/sufficient_factors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine/comm/transport.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Every rank on a host of its own; 1 byte/s, so that seconds are bytes.
Topology equal_ranks(int ranks, double latency_s = 0) {
  Topology topology;
  for (int r = 0; r < ranks; ++r) {
    Device& device = topology.devices.emplace_back();
    device.host = device.island = r;
    topology.hosts.push_back(
        {.name = "", .send_bytes_per_s = kNoLimit, .receive_bytes_per_s = kNoLimit});
  }
  topology.links.assign(static_cast<std::size_t>(ranks * ranks), {latency_s, 1.0});
  return topology;
}

FactorProblem one_weight(std::int64_t inputs, std::int64_t outputs, int ranks, std::int64_t rows) {
  return {.factors = {inputs, outputs},
          .weights = {{.name = "layer 0",
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_factor = 0,
                       .output_factor = 1}},
          .rows = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rows)};
}

bool pays(const FactorProblem& problem, const Topology& topology) {
  return plan_sufficient_factors(problem, topology).weights.front().send_factors;
}

TEST(SufficientFactors, PayBelowTheThreshold) {
  // 2FF' / (M(F + F')) = 105.6 for F = 602, F' = 128, M = 2.
  EXPECT_TRUE(pays(one_weight(602, 128, 2, 105), equal_ranks(2)));
  EXPECT_FALSE(pays(one_weight(602, 128, 2, 106), equal_ranks(2)));
  // 16 for F = F' = 64, M = 4; where both take equally long, all-reduce stays.
  EXPECT_TRUE(pays(one_weight(64, 64, 4, 15), equal_ranks(4)));
  EXPECT_FALSE(pays(one_weight(64, 64, 4, 16), equal_ranks(4)));
  EXPECT_FALSE(pays(one_weight(64, 64, 4, 17), equal_ranks(4)));
}

TEST(SufficientFactors, SecondsAndBytesAreThoseOfTheTransport) {
  const FactorPlan plan = plan_sufficient_factors(one_weight(64, 64, 4, 15), equal_ranks(4));
  EXPECT_EQ(plan.weights[0].all_reduce_bytes, all_reduce_bytes(64 * 64, 4, 0, 4));
  EXPECT_EQ(plan.weights[0].all_reduce_bytes, 2 * 3 * 64 * 16 * 4);
  EXPECT_EQ(plan.weights[0].factor_bytes, 3 * 15 * 128 * 4);
  EXPECT_EQ(plan.all_reduce_s, 2 * 64 * 16 * 4);  // of a link, not of a rank
  EXPECT_EQ(plan.seconds, 15 * 128 * 4);
  EXPECT_EQ(plan.weights[0].sentence,
            "all-reduce would send 0.025 MB, factors send 0.023 MB: worth it");
  EXPECT_EQ(
      plan.summary,
      "SFB pays for 1 of 1 weights: synchronisation takes 7.68e+06 ms instead of 8.19e+06 ms");
}

TEST(SufficientFactors, SaysWhyTheyDontPay) {
  FactorProblem problem = one_weight(256, 128, 2, 111328);
  const FactorPlan plan = plan_sufficient_factors(problem, equal_ranks(2));
  EXPECT_EQ(plan.weights[0].sentence,
            "all-reduce sends 0.13 MB, factors would send 171 MB: not worth it");
  EXPECT_EQ(
      plan.summary,
      "SFB pays for 0 of 1 weights because even for layer 0 all-reduce sends 0.13 MB, factors "
      "would send 171 MB: not worth it");
  EXPECT_EQ(plan.seconds, 131072);
  EXPECT_EQ(plan.all_reduce_s, 131072);
}

TEST(SufficientFactors, SharedFactorsTravelOnce) {
  // Alone, an [8, 8] weight pays below 4 rows; two that share both factors below 8.
  FactorProblem problem = one_weight(8, 8, 2, 5);
  EXPECT_FALSE(pays(problem, equal_ranks(2)));
  problem.weights.push_back(problem.weights.front());
  const FactorPlan plan = plan_sufficient_factors(problem, equal_ranks(2));
  EXPECT_TRUE(plan.weights[0].send_factors);
  EXPECT_TRUE(plan.weights[1].send_factors);
  EXPECT_EQ(plan.seconds, 5 * 16 * 4);
  EXPECT_THAT(plan.weights[0].sentence, HasSubstr("but bytes are not all: worth it"));
}

TEST(SufficientFactors, LatencyAndProductsCount) {
  // Two factors take a step each, as many as an all-reduce has.
  EXPECT_TRUE(pays(one_weight(64, 64, 4, 15), equal_ranks(4, 1e6)));
  FactorProblem problem = one_weight(64, 64, 4, 15);
  problem.weights[0].extra_compute_s = 600;  // of 512 that are saved
  const FactorPlan plan = plan_sufficient_factors(problem, equal_ranks(4));
  EXPECT_FALSE(plan.weights[0].send_factors);
  EXPECT_THAT(plan.weights[0].sentence, HasSubstr("but bytes are not all: not worth it"));
  problem.weights[0].extra_compute_s = 500;
  EXPECT_TRUE(pays(problem, equal_ranks(4)));
}

TEST(SufficientFactors, ABiasComesWithTheOutputGradient) {
  FactorProblem problem = one_weight(64, 64, 4, 15);
  problem.weights.push_back({.name = "bias", .inputs = 1, .outputs = 64, .output_factor = 1});
  const FactorPlan both = plan_sufficient_factors(problem, equal_ranks(4));
  EXPECT_TRUE(both.weights[1].send_factors);
  EXPECT_EQ(both.weights[1].factor_bytes, 3 * 15 * 64 * 4);
  problem.rows.assign(4, 1000);
  const FactorPlan none = plan_sufficient_factors(problem, equal_ranks(4));
  EXPECT_FALSE(none.weights[1].send_factors);
  EXPECT_THAT(none.summary, HasSubstr("0 of 2 weights because even for layer 0"));
}

TEST(SufficientFactors, TheSlowestRankAndTheSharedCardDecide) {
  // One rank of many rows is enough to say no.
  FactorProblem problem = one_weight(64, 64, 4, 1);
  EXPECT_TRUE(pays(problem, equal_ranks(4)));
  problem.rows[2] = 17;
  EXPECT_FALSE(pays(problem, equal_ranks(4)));
  // Two hosts of two ranks, whose cards carry four links of 15 rows at half a byte per second.
  Topology topology = equal_ranks(4);
  topology.hosts.resize(2);
  for (int r = 0; r < 4; ++r) topology.devices[r].host = r / 2;
  topology.hosts[0].send_bytes_per_s = 0.5;
  problem.rows.assign(4, 15);
  EXPECT_EQ(plan_sufficient_factors(problem, topology).seconds, 8 * 15 * 128 * 4);
}

TEST(SufficientFactors, OneRankHasNothingToSend) {
  const FactorPlan plan = plan_sufficient_factors(one_weight(64, 64, 1, 15), equal_ranks(1));
  EXPECT_FALSE(plan.weights[0].send_factors);
  EXPECT_EQ(plan.weights[0].all_reduce_bytes, 0);
  EXPECT_EQ(plan.seconds, 0);
  EXPECT_EQ(plan.summary, "SFB pays for 0 of 1 weights because one rank has nothing to send");
}

TEST(SufficientFactors, NoWeights) {
  const FactorPlan plan =
      plan_sufficient_factors({.factors = {}, .weights = {}, .rows = {3, 4}}, equal_ranks(2, 5));
  EXPECT_EQ(plan.seconds, 0);
  EXPECT_EQ(plan.summary, "SFB pays for 0 of 0 weights");
}

// All ways to choose, priced by the header's formulas: equal ranks at 1 byte/s.
double least_factor_seconds(const FactorProblem& problem, int ranks, double latency) {
  double least = kNoLimit;
  const std::size_t weights = problem.weights.size();
  const double rows = static_cast<double>(*std::ranges::max_element(problem.rows));
  for (unsigned chosen = 0; chosen < 1U << weights; ++chosen) {
    double seconds = 0;
    std::vector<bool> sent(problem.factors.size(), false);
    for (std::size_t w = 0; w < weights; ++w) {
      const WeightMatrix& weight = problem.weights[w];
      if ((chosen >> w & 1U) != 0) {
        seconds += weight.extra_compute_s;
        if (weight.input_factor >= 0) sent[weight.input_factor] = true;
        if (weight.output_factor >= 0) sent[weight.output_factor] = true;
      } else {
        const std::int64_t count = weight.inputs * weight.outputs;
        seconds += 2 * 4 * static_cast<double>((count + ranks - 1) / ranks);
      }
    }
    if (chosen != (1U << weights) - 1) seconds += 2 * latency;
    for (std::size_t f = 0; f < sent.size(); ++f) {
      if (!sent[f]) continue;
      seconds += 4 * rows * static_cast<double>(problem.factors[f]) + latency;
    }
    least = std::min(least, seconds);
  }
  return least;
}

TEST(SufficientFactors, BruteForceAgrees) {
  std::mt19937 random(31);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int mixed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 2 + below(3);
    FactorProblem problem;
    for (int f = 0; f < 4; ++f) problem.factors.push_back(1 + below(40));
    for (int w = 0; w < 1 + trial % 7; ++w) {
      const int in = below(5) - 1, out = below(4);
      problem.weights.push_back({.name = "",
                                 .inputs = in < 0 ? 1 : problem.factors[in],
                                 .outputs = problem.factors[out],
                                 .input_factor = in,
                                 .output_factor = out,
                                 .extra_compute_s = static_cast<double>(below(100))});
    }
    for (int r = 0; r < ranks; ++r) problem.rows.push_back(1 + below(12));
    const double latency = below(200);
    const FactorPlan plan = plan_sufficient_factors(problem, equal_ranks(ranks, latency));
    EXPECT_EQ(plan.seconds, least_factor_seconds(problem, ranks, latency));
    EXPECT_LE(plan.seconds, plan.all_reduce_s);
    const auto chosen = std::ranges::count_if(
        plan.weights, [](const WeightChoice& choice) { return choice.send_factors; });
    mixed += chosen > 0 && chosen < std::ssize(plan.weights) ? 1 : 0;
  }
  EXPECT_GT(mixed, 50);
}

}  // namespace
}  // namespace atl
