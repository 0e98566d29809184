#include "engine/placement/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/support/makespan_space.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using Choice = std::vector<int>;

// A space written out in the test; keeps what was asked.
class LiteralSpace : public SearchSpace {
 public:
  LiteralSpace(Choice options, Choice start, std::function<PlanCost(const Choice&)> cost)
      : options_(std::move(options)), start_(std::move(start)), cost_(std::move(cost)) {
    models.assign(options_.size(), -1);
  }
  int decisions() const override { return static_cast<int>(options_.size()); }
  int options(int d) const override { return options_[d]; }
  Choice start() const override { return start_; }
  int model_of(int d) const override { return models[d]; }
  PlanCost evaluate(std::span<const int> choice) override {
    asked.emplace_back(choice.begin(), choice.end());
    return cost_(asked.back());
  }

  Choice models;
  std::vector<Choice> asked;

 private:
  Choice options_, start_;
  std::function<PlanCost(const Choice&)> cost_;
};

// Three by four choices, the least at {2, 1}: 1 s. No single change leads there from {0, 3}, 5 s.
PlanCost table_cost(const Choice& choice) {
  static const double seconds[3][4] = {{9, 8, 7, 5}, {9, 9, 9, 6}, {8, 1, 3, 7}};
  return {.seconds = seconds[choice[0]][choice[1]]};
}
LiteralSpace table_space() { return {{3, 4}, {0, 3}, table_cost}; }

class EveryStrategy : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Search, EveryStrategy, ::testing::ValuesIn(search_strategies()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryStrategy, EvaluatesNoChoiceTwiceAndAsManyAsItSays) {
  for (const int budget : {1, 2, 5, 11, 12, 13, 100}) {
    LiteralSpace space = table_space();
    const SearchResult result = search(GetParam(), space, {.evaluations = budget});
    EXPECT_EQ(result.evaluations, static_cast<int>(space.asked.size()));
    EXPECT_LE(result.evaluations, budget);
    EXPECT_EQ(std::set<Choice>(space.asked.begin(), space.asked.end()).size(), space.asked.size());
    EXPECT_THAT(space.asked.front(), ElementsAre(0, 3));
    EXPECT_EQ(result.complete, result.evaluations == 12);
    EXPECT_EQ(result.start.seconds, 5);
    EXPECT_EQ(table_cost(result.choice).seconds, result.cost.seconds);
    if (result.complete) {
      EXPECT_THAT(result.choice, ElementsAre(2, 1));
    }
  }
}

TEST_P(EveryStrategy, UsesTheWholeBudgetWhereThereIsMoreToSee) {
  MakespanSpace space(2001);
  const int budget = GetParam() == "greedy" ? 20 : 777;  // greedy ends where nothing improves
  EXPECT_EQ(search(GetParam(), space, {.evaluations = budget}).evaluations, budget);
}

TEST_P(EveryStrategy, IsDeterministicForASeed) {
  for (unsigned instance = 2001; instance < 2004; ++instance) {
    MakespanSpace space(instance);
    const SearchOptions options{.evaluations = 300, .seed = 7};
    const SearchResult one = search(GetParam(), space, options);
    const SearchResult two = search(GetParam(), space, options);
    EXPECT_EQ(one.choice, two.choice);
    EXPECT_EQ(one.evaluations, two.evaluations);
    ASSERT_EQ(one.improvements.size(), two.improvements.size());
    for (std::size_t k = 0; k < one.improvements.size(); ++k) {
      EXPECT_EQ(one.improvements[k].evaluations, two.improvements[k].evaluations);
    }
  }
}

TEST_P(EveryStrategy, ImprovesStepByStepAndNeverReturnsWorseThanTheStart) {
  for (unsigned instance = 2001; instance < 2011; ++instance) {
    MakespanSpace space(instance);
    const SearchResult result = search(GetParam(), space, {.evaluations = 100});
    EXPECT_FALSE(is_better(result.start, result.cost));
    PlanCost last = result.start;
    int evaluations = 1;
    for (const SearchStep& step : result.improvements) {
      EXPECT_TRUE(is_better(step.cost, last));
      EXPECT_GT(step.evaluations, evaluations);
      last = step.cost;
      evaluations = step.evaluations;
    }
    EXPECT_EQ(last.seconds, result.cost.seconds);
    EXPECT_EQ(last.missing_bytes, result.cost.missing_bytes);
    EXPECT_EQ(space.evaluate(result.choice).seconds, result.cost.seconds);
  }
}

TEST_P(EveryStrategy, TakesTheStartWhereEverythingElseIsWorse) {
  LiteralSpace space({2, 2, 2}, {1, 0, 1}, [](const Choice& choice) -> PlanCost {
    return {.seconds = choice == Choice{1, 0, 1} ? 1.0 : 2.0};
  });
  const SearchResult result = search(GetParam(), space, {.evaluations = 50});
  EXPECT_THAT(result.choice, ElementsAre(1, 0, 1));
  EXPECT_TRUE(result.improvements.empty());
}

TEST_P(EveryStrategy, EndsWithoutDecisions) {
  LiteralSpace space({}, {}, [](const Choice&) -> PlanCost { return {.seconds = 2}; });
  const SearchResult result = search(GetParam(), space, {});
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.choice.empty());
}

TEST_P(EveryStrategy, EndsWhereNoDecisionHasASecondOption) {
  LiteralSpace space({1, 1}, {0, 0}, [](const Choice&) -> PlanCost { return {.seconds = 2}; });
  const SearchResult result = search(GetParam(), space, {});
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_TRUE(result.complete);
}

TEST_P(EveryStrategy, PrefersWhatFitsToWhatIsFast) {
  // Only the slowest choice fits; the less is missing, the slower.
  LiteralSpace space({2, 2, 2}, {0, 0, 0}, [](const Choice& choice) -> PlanCost {
    const int ones = choice[0] + choice[1] + choice[2];
    return {.seconds = 1.0 + ones, .missing_bytes = 3.0 - ones};
  });
  const SearchResult result = search(GetParam(), space, {.evaluations = 8});
  EXPECT_THAT(result.choice, ElementsAre(1, 1, 1));
  EXPECT_EQ(result.cost.missing_bytes, 0);
  EXPECT_EQ(result.start.missing_bytes, 3);
}

TEST_P(EveryStrategy, StopsWhenTimeIsUp) {
  LiteralSpace space(Choice(20, 4), Choice(20, 0),
                     [](const Choice& choice) -> PlanCost { return {.seconds = 1.0 + choice[3]}; });
  // Less than any clock can tell: the start is all there is time for.
  const SearchResult result =
      search(GetParam(), space, {.evaluations = 1000000, .seconds = 1e-300});
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_FALSE(result.complete);
}

TEST_P(EveryStrategy, RejectsABudgetOfNothing) {
  LiteralSpace space = table_space();
  const auto with = [&](const SearchOptions& options) {
    return thrown_error([&] { search(GetParam(), space, options); });
  };
  EXPECT_EQ(with({.evaluations = 0}).kind(), ErrorKind::kOption);
  EXPECT_THAT(with({.evaluations = -3}).what(), ::testing::HasSubstr("-3 evaluations"));
  EXPECT_THAT(with({.seconds = -0.5}).what(), ::testing::HasSubstr("-0.5 seconds"));
  EXPECT_TRUE(space.asked.empty());
}

TEST(Search, ExhaustiveGoesOnceThroughAllChoices) {
  LiteralSpace space = table_space();
  const SearchResult result = search("exhaustive", space, {});
  EXPECT_TRUE(result.complete);
  EXPECT_THAT(result.choice, ElementsAre(2, 1));
  EXPECT_EQ(result.cost.seconds, 1);
  const std::vector<Choice> first(space.asked.begin(), space.asked.begin() + 6);
  EXPECT_THAT(first, ElementsAre(Choice{0, 3}, Choice{0, 0}, Choice{0, 1}, Choice{0, 2},
                                 Choice{1, 0}, Choice{1, 1}));
}

TEST(Search, GreedyEndsWhereNoSingleChangeImproves) {
  LiteralSpace space = table_space();
  const SearchResult result = search("greedy", space, {});
  EXPECT_THAT(result.choice, ElementsAre(0, 3));
  EXPECT_THAT(space.asked, ElementsAre(Choice{0, 3}, Choice{1, 3}, Choice{2, 3}, Choice{0, 0},
                                       Choice{0, 1}, Choice{0, 2}));
  EXPECT_FALSE(result.complete);
}

TEST(Search, GreedyFollowsChainsOfImprovements) {
  // Decision 0 pays only once decision 2 is changed.
  LiteralSpace space({2, 2, 2}, {0, 0, 0}, [](const Choice& choice) -> PlanCost {
    return {.seconds = 10.0 - choice[2] + (choice[2] == 1 ? -3.0 : 1.0) * choice[0]};
  });
  const SearchResult result = search("greedy", space, {});
  EXPECT_THAT(result.choice, ElementsAre(1, 0, 1));
  EXPECT_EQ(result.cost.seconds, 6);
}

TEST(Search, MctsEndsSmallSpacesAsComplete) {
  LiteralSpace space = table_space();
  const SearchResult result = search("mcts", space, {});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.evaluations, 12);
  EXPECT_THAT(result.choice, ElementsAre(2, 1));
}

TEST(Search, UndecidedDecisionsInheritFromTheirModel) {
  // Decision 2 has no option 2 and keeps its start then; decision 3 follows decision 2.
  LiteralSpace space({3, 3, 2, 2}, {2, 0, 1, 0},
                     [](const Choice&) -> PlanCost { return {.seconds = 1}; });
  space.models = {-1, 0, 0, 2};
  // After the start comes the root of the tree, in which nothing is decided.
  search("mcts", space, {.evaluations = 2});
  EXPECT_THAT(space.asked, ElementsAre(Choice{2, 0, 1, 0}, Choice{2, 2, 1, 1}));
}

// Says which options come first, and keeps what it was asked for.
struct LiteralPrior {
  std::vector<double> operator()(SearchSpace& space, std::span<const int> chosen, int decision) {
    EXPECT_EQ(static_cast<int>(chosen.size()), decision);
    Choice key(chosen.begin(), chosen.end());
    EXPECT_TRUE(asked.insert(key).second) << "asked twice";
    std::vector<double> result(static_cast<std::size_t>(space.options(decision)), 0.0);
    result[decision % 2] = 1;
    return result;
  }
  std::set<Choice> asked;
};

TEST(Search, MctsGoesWhereThePriorPoints) {
  // A needle that uniform search can't smell: 4^12 choices.
  Choice needle;
  for (int d = 0; d < 12; ++d) needle.push_back(d % 2);
  const auto cost = [&](const Choice& choice) -> PlanCost {
    return {.seconds = choice == needle ? 1.0 : 2.0};
  };
  LiteralPrior prior;
  LiteralSpace space(Choice(12, 4), Choice(12, 3), cost);
  const SearchResult guided = search("mcts", space, {.evaluations = 400, .prior = std::ref(prior)});
  EXPECT_EQ(guided.choice, needle);
  const SearchResult blind = search("mcts", space, {.evaluations = 400});
  EXPECT_EQ(blind.cost.seconds, 2);
}

TEST(Search, MctsLooksFirstAtWhatThePriorWouldChoose) {
  LiteralSpace space({3, 3, 3}, {2, 2, 2},
                     [](const Choice&) -> PlanCost { return {.seconds = 1}; });
  LiteralPrior prior;
  search("mcts", space, {.evaluations = 2, .prior = std::ref(prior)});
  EXPECT_THAT(space.asked, ElementsAre(Choice{2, 2, 2}, Choice{0, 1, 0}));
}

TEST(Search, UniformPriorSharesEvenly) {
  LiteralSpace space = table_space();
  const Choice chosen = {2};
  EXPECT_THAT(uniform_prior(space, chosen, 1), ElementsAre(0.25, 0.25, 0.25, 0.25));
}

TEST(Search, BetterIsFittingThenLessMissingThenFaster) {
  EXPECT_TRUE(is_better({2, 0}, {1, 5}));
  EXPECT_FALSE(is_better({1, 5}, {2, 0}));
  EXPECT_TRUE(is_better({9, 4}, {1, 5}));
  EXPECT_TRUE(is_better({1, 5}, {2, 5}));
  EXPECT_FALSE(is_better({2, 0}, {2, 0}));
}

TEST(Search, UnknownStrategyNamesTheKnown) {
  const Error error = thrown_error([] {
    LiteralSpace space = table_space();
    search("anneal", space, {});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_STREQ(error.what(),
               "--search anneal: unknown search strategy; allowed are: exhaustive, random, greedy, "
               "mcmc, mcts");
}

}  // namespace
}  // namespace atl
