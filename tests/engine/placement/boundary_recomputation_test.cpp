#include "engine/placement/boundary_recomputation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace atl {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Marks = std::vector<std::vector<std::uint8_t>>;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds when exactly `recompute` is recomputed and what is needed besides is fetched.
double seconds_of(const RecomputationProblem& problem, const Marks& recompute) {
  double seconds = 0;
  std::vector<std::uint8_t> wanted;  // by the layer above
  for (std::size_t l = problem.layers.size(); l-- > 0;) {
    const auto& layer = problem.layers[l];
    wanted.resize(layer.size(), 0);
    std::vector<std::uint8_t> wanted_below(l > 0 ? problem.layers[l - 1].size() : 0, 0);
    for (std::size_t i = 0; i < layer.size(); ++i) {
      if (recompute[l][i] != 0) {
        seconds += layer[i].recompute_s;
        for (const std::int32_t input : layer[i].inputs) wanted_below[input] = 1;
      } else if (layer[i].needed || wanted[i] != 0) {
        seconds += layer[i].fetch_s;
      }
    }
    wanted = wanted_below;
  }
  return seconds;
}

double least_seconds(const RecomputationProblem& problem) {
  std::size_t rows = 0;
  for (const auto& layer : problem.layers) rows += layer.size();
  double least = kNever;
  for (unsigned bits = 0; bits < 1U << rows; ++bits) {
    Marks recompute;
    unsigned left = bits;
    for (const auto& layer : problem.layers) {
      auto& marks = recompute.emplace_back();
      for (std::size_t i = 0; i < layer.size(); ++i, left >>= 1U) {
        marks.push_back(static_cast<std::uint8_t>(left & 1U));
      }
    }
    least = std::min(least, seconds_of(problem, recompute));
  }
  return least;
}

TEST(BoundaryRecomputation, PaysWhereTheInputsAreHere) {
  // The first aggregate is cached: rows of the first layer need no inputs, a product is all.
  const RecomputationPlan plan = plan_recomputation(
      {.layers = {{{.fetch_s = 8, .recompute_s = 1, .needed = true, .inputs = {}},
                   {.fetch_s = 8, .recompute_s = 9, .needed = true, .inputs = {}},
                   {.fetch_s = 8, .recompute_s = 1, .needed = false, .inputs = {}}}}});
  EXPECT_THAT(plan.recompute, ElementsAre(ElementsAre(1, 0, 0)));
  EXPECT_THAT(plan.fetch, ElementsAre(ElementsAre(0, 1, 0)));
  EXPECT_EQ(plan.fetch_all_s, 16);
  EXPECT_EQ(plan.seconds, 9);
  EXPECT_EQ(plan.bound_s, 9);
  EXPECT_EQ(plan.saved_s(), 7);
}

// Two rows of the upper layer read the same three rows below, which nobody needs otherwise: neither
// pays alone (1 + 6 > 5), both together do (2 + 6 < 10).
TEST(BoundaryRecomputation, SharesInputs) {
  const RemoteRow input{.fetch_s = 2, .recompute_s = kNever, .needed = false, .inputs = {}};
  const RemoteRow reader{.fetch_s = 5, .recompute_s = 1, .needed = true, .inputs = {0, 1, 2}};
  const RecomputationPlan both =
      plan_recomputation({.layers = {{input, input, input}, {reader, reader}}});
  EXPECT_THAT(both.recompute, ElementsAre(Each(0), Each(1)));
  EXPECT_THAT(both.fetch, ElementsAre(Each(1), Each(0)));
  EXPECT_EQ(both.seconds, 8);
  EXPECT_EQ(both.saved_s(), 2);
  const RecomputationPlan one = plan_recomputation({.layers = {{input, input, input}, {reader}}});
  EXPECT_THAT(one.recompute, ElementsAre(Each(0), Each(0)));
  EXPECT_THAT(one.fetch, ElementsAre(Each(0), Each(1)));
  EXPECT_EQ(one.saved_s(), 0);
}

TEST(BoundaryRecomputation, GoesDownThroughSeveralLayers) {
  // Constant features below; each row reads its own row and the next.
  RecomputationProblem problem;
  problem.layers.resize(3);
  for (std::int32_t i = 0; i < 4; ++i) {
    const auto next = std::min(i + 1, 3);
    problem.layers[0].push_back(
        {.fetch_s = 0, .recompute_s = kNever, .needed = true, .inputs = {}});
    problem.layers[1].push_back(
        {.fetch_s = 9, .recompute_s = 1, .needed = false, .inputs = {i, next}});
    problem.layers[2].push_back(
        {.fetch_s = 9, .recompute_s = 2, .needed = i == 0, .inputs = {i, next}});
  }
  const RecomputationPlan plan = plan_recomputation(problem);
  EXPECT_THAT(plan.recompute,
              ElementsAre(Each(0), ElementsAre(1, 1, 0, 0), ElementsAre(1, 0, 0, 0)));
  EXPECT_THAT(plan.fetch, ElementsAre(Each(1), Each(0), Each(0)));
  EXPECT_EQ(plan.seconds, 4);
  EXPECT_EQ(plan.fetch_all_s, 9);
}

// Ten neighbours each, all of them elsewhere and none shared: what full-graph training looks like
// beyond the first layer.
TEST(BoundaryRecomputation, DoesNotPayWhereEachRowHasItsOwnNeighbours) {
  RecomputationProblem problem;
  problem.layers.resize(2);
  for (std::int32_t i = 0; i < 50; ++i) {
    RemoteRow row{.fetch_s = 1, .recompute_s = 0.01, .needed = true, .inputs = {}};
    for (std::int32_t k = 0; k < 10; ++k) {
      row.inputs.push_back(10 * i + k);
      problem.layers[0].push_back(
          {.fetch_s = 1, .recompute_s = kNever, .needed = false, .inputs = {}});
    }
    problem.layers[1].push_back(row);
  }
  const RecomputationPlan plan = plan_recomputation(problem);
  EXPECT_THAT(plan.recompute, Each(Each(0)));
  EXPECT_EQ(plan.saved_s(), 0);
  EXPECT_EQ(plan.bound_s, 50);
}

TEST(BoundaryRecomputation, EmptyProblems) {
  EXPECT_EQ(plan_recomputation({}).seconds, 0);
  EXPECT_THAT(plan_recomputation({.layers = {{}, {}}}).fetch, ElementsAre(Each(0), Each(0)));
}

RecomputationProblem random_problem(std::mt19937& random, int layers, int most_rows) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  RecomputationProblem problem;
  for (int l = 0; l < layers; ++l) {
    auto& layer = problem.layers.emplace_back();
    for (int rows = 1 + below(most_rows); rows > 0; --rows) {
      RemoteRow row{.fetch_s = static_cast<double>(below(12)),
                    .recompute_s = below(6) == 0 ? kNever : static_cast<double>(below(6)),
                    .needed = below(3) > 0,
                    .inputs = {}};
      const int rows_below = l > 0 ? static_cast<int>(problem.layers[l - 1].size()) : 0;
      for (std::int32_t k = 0; k < rows_below; ++k) {
        if (below(3) == 0) row.inputs.push_back(k);
      }
      layer.push_back(row);
    }
  }
  return problem;
}

TEST(BoundaryRecomputation, BruteForceAgrees) {
  std::mt19937 random(21);
  int partly = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 1 + trial % 3;
    const RecomputationProblem problem = random_problem(random, layers, 12 / layers);
    const RecomputationPlan plan = plan_recomputation(problem);
    EXPECT_EQ(plan.seconds, least_seconds(problem));
    EXPECT_EQ(plan.bound_s, plan.seconds);
    EXPECT_EQ(plan.seconds, seconds_of(problem, plan.recompute));
    EXPECT_EQ(plan.fetch_all_s, seconds_of(problem, [&] {
                Marks none;
                for (const auto& layer : problem.layers) none.emplace_back(layer.size(), 0);
                return none;
              }()));
    int recomputed = 0, fetched = 0;
    for (std::size_t l = 0; l < plan.fetch.size(); ++l) {
      recomputed += static_cast<int>(std::ranges::count(plan.recompute[l], 1));
      fetched += static_cast<int>(std::ranges::count(plan.fetch[l], 1));
      for (std::size_t i = 0; i < plan.fetch[l].size(); ++i) {
        EXPECT_EQ(plan.fetch[l][i] & plan.recompute[l][i], 0);
        if (problem.layers[l][i].needed) {
          EXPECT_EQ(plan.fetch[l][i] | plan.recompute[l][i], 1);
        }
      }
    }
    partly += recomputed > 0 && fetched > 0 ? 1 : 0;
  }
  EXPECT_GT(partly, 100);
}

TEST(BoundaryRecomputation, BruteForceAgreesOnMoreRowsInTwoLayers) {
  std::mt19937 random(22);
  for (int trial = 0; trial < 6; ++trial) {
    RecomputationProblem problem;
    do {
      problem = random_problem(random, 2, 12);
    } while (problem.layers[0].size() < 4 || problem.layers[1].size() < 4 ||
             problem.layers[0].size() + problem.layers[1].size() > 17);
    EXPECT_EQ(plan_recomputation(problem).seconds, least_seconds(problem));
  }
}

}  // namespace
}  // namespace atl
