#include "engine/placement/min_cut.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace atl {
namespace {

using ::testing::ElementsAre;
constexpr double kForbidden = std::numeric_limits<double>::infinity();

// By the formulas of the header and nothing else.
double cost_of(const CutProblem& problem, const std::vector<std::uint8_t>& x) {
  double cost = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    cost += x[i] != 0 ? problem.if_one[i] : problem.if_zero[i];
  }
  for (const CutPair& pair : problem.pairs) {
    if (x[pair.high] > x[pair.low]) cost += pair.weight;
  }
  return cost;
}

struct Least {
  double cost = kForbidden;
  std::vector<std::uint8_t> x;  // the fewest ones
};
Least least_of_all(const CutProblem& problem) {
  const std::size_t variables = problem.if_one.size();
  Least least;
  std::size_t least_ones = variables + 1;
  for (unsigned bits = 0; bits < 1U << variables; ++bits) {
    std::vector<std::uint8_t> x;
    std::size_t ones = 0;
    for (std::size_t i = 0; i < variables; ++i) {
      x.push_back(static_cast<std::uint8_t>(bits >> i & 1U));
      ones += x.back();
    }
    const double cost = cost_of(problem, x);
    if (cost < least.cost || (cost == least.cost && ones < least_ones)) {
      least = {cost, x};
      least_ones = ones;
    }
  }
  return least;
}

TEST(MinCut, EachVariableTakesTheCheaperSide) {
  const CutSolution solution =
      minimise_cut({.if_zero = {3, 1, 2}, .if_one = {1, 3, 2}, .pairs = {}});
  EXPECT_THAT(solution.x, ElementsAre(1, 0, 0));  // of a tie, 0
  EXPECT_EQ(solution.cost, 4);
  EXPECT_EQ(solution.max_flow, 4);
}

TEST(MinCut, PairHoldsTwoVariablesTogether) {
  // x1 would be 1 by itself, and x0 be 0; one of them gives in where 5 is too much.
  CutProblem problem{
      .if_zero = {0, 4}, .if_one = {3, 0}, .pairs = {{.low = 0, .high = 1, .weight = 5}}};
  EXPECT_THAT(minimise_cut(problem).x, ElementsAre(1, 1));
  EXPECT_EQ(minimise_cut(problem).cost, 3);
  problem.pairs[0].weight = 2;
  EXPECT_THAT(minimise_cut(problem).x, ElementsAre(0, 1));
  EXPECT_EQ(minimise_cut(problem).max_flow, 2);
  // The other way round nothing is to be paid.
  problem.pairs[0] = {.low = 1, .high = 0, .weight = 5};
  EXPECT_EQ(minimise_cut(problem).cost, 0);
}

TEST(MinCut, InfinityForbids) {
  const CutSolution solution =
      minimise_cut({.if_zero = {0, kForbidden, 0},
                    .if_one = {7, 0, kForbidden},
                    .pairs = {{.low = 0, .high = 1, .weight = kForbidden}}});
  EXPECT_THAT(solution.x, ElementsAre(1, 1, 0));
  EXPECT_EQ(solution.cost, 7);
  EXPECT_EQ(solution.max_flow, 7);
}

TEST(MinCut, NothingToDecideAndNothingToPay) {
  EXPECT_EQ(minimise_cut({}).max_flow, 0);
  EXPECT_THAT(minimise_cut({.if_zero = {0, 0}, .if_one = {0, 0}, .pairs = {{0, 1, 0}}}).x,
              ElementsAre(0, 0));
}

TEST(MinCut, BruteForceAgreesOnIntegers) {
  std::mt19937 random(11);
  int mixed = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int variables = 1 + static_cast<int>(random() % 10);
    CutProblem problem;
    for (int i = 0; i < variables; ++i) {
      problem.if_zero.push_back(static_cast<double>(random() % 8));
      problem.if_one.push_back(static_cast<double>(random() % 8));
    }
    for (int k = 0; variables > 1 && k < 2 * variables; ++k) {
      const int low = static_cast<int>(random() % static_cast<unsigned>(variables));
      const int high =
          (low + 1 + static_cast<int>(random() % static_cast<unsigned>(variables - 1))) % variables;
      problem.pairs.push_back(
          {low, high, random() % 8 == 0 ? kForbidden : static_cast<double>(random() % 5)});
    }
    const Least least = least_of_all(problem);
    const CutSolution solution = minimise_cut(problem);
    EXPECT_EQ(solution.x, least.x);
    EXPECT_EQ(solution.cost, least.cost);
    EXPECT_EQ(solution.max_flow, least.cost);
    const auto ones = std::ranges::count(solution.x, 1);
    mixed += ones > 0 && ones < variables ? 1 : 0;
  }
  EXPECT_GT(mixed, 100);  // most cases are no matter of all or nothing
}

TEST(MinCut, BruteForceAgreesOnWeightsOfManyMagnitudes) {
  std::mt19937 random(12);
  std::uniform_real_distribution<double> power(-14, 2);
  const auto weight = [&] { return std::pow(10.0, power(random)); };
  for (int trial = 0; trial < 200; ++trial) {
    CutProblem problem;
    double sum = 0;
    for (int i = 0; i < 9; ++i) {
      problem.if_zero.push_back(weight());
      problem.if_one.push_back(weight());
      sum += problem.if_zero.back() + problem.if_one.back();
    }
    for (int i = 0; i < 9; ++i) {
      for (int j = 0; j < 9; ++j) {
        if (i == j || random() % 3 > 0) continue;
        problem.pairs.push_back({i, j, weight()});
        sum += problem.pairs.back().weight;
      }
    }
    const CutSolution solution = minimise_cut(problem);
    EXPECT_DOUBLE_EQ(solution.cost, cost_of(problem, solution.x));
    EXPECT_NEAR(solution.cost, least_of_all(problem).cost, 1e-13 * sum);
    EXPECT_NEAR(solution.max_flow, solution.cost, 1e-13 * sum);
  }
}

// A row of 100,000 variables that hold together, pulled to 1 at one end and to 0 at the other: cut
// where the pairs are weakest.
TEST(MinCut, LongChainsAreCutAtTheirWeakestPair) {
  constexpr int kVariables = 100000;
  CutProblem problem;
  problem.if_zero.assign(kVariables, 0);
  problem.if_one.assign(kVariables, 0);
  problem.if_zero[0] = problem.if_one[kVariables - 1] = 10;
  for (int i = 0; i + 1 < kVariables; ++i) {
    problem.pairs.push_back({.low = i + 1, .high = i, .weight = i == 777 ? 3.0 : 4.0});
  }
  const CutSolution solution = minimise_cut(problem);
  EXPECT_EQ(solution.max_flow, 3);
  EXPECT_EQ(solution.cost, 3);
  EXPECT_EQ(solution.x[777], 1);
  EXPECT_EQ(solution.x[778], 0);
}

TEST(MinCutDeathTest, ImpossibleProblemsAreBugs) {
  EXPECT_DEATH(minimise_cut({.if_zero = {kForbidden}, .if_one = {kForbidden}, .pairs = {}}),
               "every assignment is forbidden");
  EXPECT_DEATH(minimise_cut({.if_zero = {-1}, .if_one = {0}, .pairs = {}}), "is_weight");
  EXPECT_DEATH(minimise_cut({.if_zero = {0}, .if_one = {0}, .pairs = {{0, 0, 1}}}), "pair");
}

}  // namespace
}  // namespace atl
