#include "engine/placement/policy/policy_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/placement/policy/policy_prior.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(SearchTarget, SharesFallByTheGapToTheBest) {
  EXPECT_THAT(
      search_target({PlanCost{2}, PlanCost{2.02}, std::nullopt, PlanCost{4}}),
      ElementsAre(DoubleNear(1 / (1 + std::exp(-1)), 1e-9),
                  DoubleNear(std::exp(-1) / (1 + std::exp(-1)), 1e-9), 0, DoubleNear(0, 1e-9)));
  EXPECT_THAT(search_target({PlanCost{3}, PlanCost{3}}), ElementsAre(0.5, 0.5));
  // A choice that does not fit counts for nothing beside one that does.
  EXPECT_THAT(search_target({PlanCost{1, 100}, PlanCost{9, 0}}), ElementsAre(0, 1));
  EXPECT_THAT(search_target({PlanCost{5, 100}, PlanCost{5, 100}}), ElementsAre(0.5, 0.5));
}

TEST(SelfPlay, AsksForEveryDecisionThatHasOptions) {
  const auto instance = random_instance(InstanceRanges{}, 7);
  const PolicyTrainingOptions options{.evaluations = 60};
  const std::vector<PolicySample> samples = play(*instance->space, nullptr, options, 3);
  int open = 0;
  for (int d = 0; d < instance->space->decisions(); ++d) {
    open += instance->space->options(d) > 1 ? 1 : 0;
  }
  ASSERT_EQ(std::ssize(samples), open);
  for (const PolicySample& sample : samples) {
    EXPECT_EQ(std::ssize(sample.target), sample.graph.options);
    EXPECT_NEAR(std::reduce(sample.target.begin(), sample.target.end()), 1, 1e-12);
  }
}

// In a space that the search looks at in full, its target is what looking at all choices says.
TEST(SelfPlay, TargetsOfASmallSpaceAreExact) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto instance = random_instance(InstanceRanges{}, seed);
    PlanSpace space(instance->topology, instance->model, instance->cuts, {32});
    double choices = 1;
    for (int d = 0; d < space.decisions(); ++d) choices *= space.options(d);
    if (choices > 200) continue;
    const std::vector<PolicySample> samples = play(space, nullptr, {.evaluations = 300}, seed);
    std::vector<std::optional<PlanCost>> best(static_cast<std::size_t>(space.options(0)));
    std::vector<int> choice(static_cast<std::size_t>(space.decisions()), 0);
    for (int d = 0; d >= 0;) {
      const PlanCost cost = space.evaluate(choice);
      std::optional<PlanCost>& least = best[static_cast<std::size_t>(choice[0])];
      if (!least || is_better(cost, *least)) least = cost;
      d = space.decisions() - 1;
      while (d >= 0 && ++choice[static_cast<std::size_t>(d)] == space.options(d)) {
        choice[static_cast<std::size_t>(d--)] = 0;
      }
    }
    EXPECT_EQ(samples.front().target, search_target(best)) << "seed " << seed;
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

// To be learned: the cut whose busiest rank computes least, with the start's algebra.
struct ToySample : PolicySample {
  std::vector<double> slowest_s;  // by option
  double least_s() const { return *std::ranges::min_element(slowest_s); }
};

std::vector<ToySample> toy_samples(std::uint64_t first, int instances) {
  std::vector<ToySample> samples;
  for (int k = 0; k < instances; ++k) {
    const auto instance = random_instance(InstanceRanges{}, first + static_cast<std::uint64_t>(k));
    PlanSpace& space = *instance->space;
    space.evaluate(space.start());
    ToySample sample;
    sample.graph = PolicyGraphMaker(space).make({}, 0);
    std::vector<int> choice = space.start();
    for (choice[0] = 0; choice[0] < space.options(0); ++choice[0]) {
      const TaskGraph tasks = space.tasks(choice, TaskDetail::kPhases);
      const Workload load = count_workload(space.topology(), tasks, layers_of(tasks));
      sample.slowest_s.push_back(*std::ranges::max_element(load.computing));
    }
    const auto least = std::ranges::min_element(sample.slowest_s) - sample.slowest_s.begin();
    sample.target.assign(sample.slowest_s.size(), 0.0);
    sample.target[static_cast<std::size_t>(least)] = 1;
    samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(PolicyTraining, LearnsAPreferenceThatHoldsForOthers) {
  const std::vector<ToySample> toys = toy_samples(1, 300), others = toy_samples(1001, 60);
  const std::vector<PolicySample> samples(toys.begin(), toys.end());
  const PolicyTrainingOptions options{.batch = 4, .learning_rate = 0.003};
  PolicyNetwork network({.hidden = 16, .layers = 2}, 5);
  int step = 0;
  const PolicyProgress before = train_epoch(network, samples, options, 1, step);
  EXPECT_EQ(step, 75);
  PolicyProgress after;
  for (std::uint64_t epoch = 2; epoch <= 15; ++epoch) {
    after = train_epoch(network, samples, options, epoch, step);
  }
  EXPECT_LT(after.loss, 0.6 * before.loss);
  // Cuts that differ by a percent are as good.
  int right = 0, first_is_right = 0;
  for (const ToySample& sample : others) {
    const std::vector<double> found = network.probabilities(sample.graph);
    const auto likeliest = std::ranges::max_element(found) - found.begin();
    const double enough = 1.01 * sample.least_s();
    right += sample.slowest_s[static_cast<std::size_t>(likeliest)] <= enough ? 1 : 0;
    first_is_right += sample.slowest_s[0] <= enough ? 1 : 0;
  }
  EXPECT_GE(right, 48);
  EXPECT_LT(first_is_right, 30);
}

std::string trained(std::uint64_t seed, int rounds) {
  PolicyNetwork network({.hidden = 8, .layers = 1}, seed);
  int epochs = 0;
  const int samples = train_policy(
      network, {.instances = 4, .rounds = rounds, .epochs = 2, .evaluations = 20, .seed = seed},
      [&](const PolicyProgress& progress) {
        ++epochs;
        EXPECT_GT(progress.samples, 0);
      });
  EXPECT_GT(samples, 8);
  EXPECT_EQ(epochs, 2 * rounds);
  return policy_weights(network);
}

TEST(PolicyTraining, IsDeterministicForASeed) {
  const std::string first = trained(1, 2);
  EXPECT_EQ(trained(1, 2), first);
  EXPECT_NE(trained(2, 2), first);
}

TEST(PolicyPrior, GuidesASearchWithinItsBudget) {
  PolicyNetwork network = shipped_policy();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto instance = random_instance(InstanceRanges{}, seed);
    const auto prior = policy_prior(*instance->space, network);
    const auto search = [&] {
      return atl::search("mcts", *instance->space,
                         {.evaluations = 30, .seed = seed, .prior = prior});
    };
    const SearchResult found = search();
    EXPECT_LE(found.evaluations, 30);
    EXPECT_FALSE(is_better(found.start, found.cost));
    EXPECT_EQ(search().choice, found.choice);
    const std::vector<double> shares = prior(*instance->space, {}, 0);
    EXPECT_EQ(std::ssize(shares), instance->space->options(0));
    EXPECT_NEAR(std::reduce(shares.begin(), shares.end()), 1, 1e-12);
  }
}

}  // namespace
}  // namespace atl
