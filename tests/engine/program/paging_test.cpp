// Plans of what is in memory when: a judge runs each of them and knows nothing of how it was made.
#include "engine/program/paging.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace atl {
namespace {

constexpr std::int64_t kUnit = 16;

PagingStep touching(std::initializer_list<ByteRange> read, ByteRange written) {
  PagingStep step;
  for (const ByteRange& bytes : read) step.touched.push_back({bytes, false, false});
  step.touched.push_back({written, true, false});
  return step;
}

// Memory as the plan lets it be: which units are there, and which of those that are not have been
// written.
class Judge {
 public:
  Judge(const PagingProblem& problem, std::int64_t budget)
      : problem_(problem), budget_(budget), plan_(plan_paging(problem, budget)) {
    for (const LiveBytes& live : problem.live) {
      if (live.first < 0) each_unit(live.bytes, [&](std::int64_t unit) { away_.insert(unit); });
    }
  }

  void run() {
    const auto steps = static_cast<int>(problem_.steps.size());
    for (int s = 0; s < steps; ++s) {
      begin(s);
      std::set<std::int64_t> passing;
      for (const auto& part : plan_.passing[at(s)]) {
        each_unit(part.bytes, [&](std::int64_t unit) { passing.insert(unit); });
      }
      for (const auto& touched : problem_.steps[at(s)].touched) {
        each_unit(touched.bytes, [&](std::int64_t unit) {
          EXPECT_TRUE(touched.in_order || !passing.contains(unit));
          if (passing.contains(unit)) {
            EXPECT_FALSE(here_.contains(unit));
            if (touched.written) written_ += kUnit;
            return;
          }
          here_.insert(unit);
          away_.erase(unit);
        });
      }
      for (const auto& part : plan_.passing[at(s)]) {
        each_unit(part.bytes, [&](std::int64_t unit) {
          if (away_.contains(unit)) read_ += kUnit;
          EXPECT_TRUE(part.kept || !is_needed(unit, s)) << "unit " << unit << " behind step " << s;
          if (part.kept) {
            away_.insert(unit);
          } else {
            away_.erase(unit);
          }
        });
      }
      // There is room for what comes for the next step.
      for (const PagingPlan::Leaving& part : waiting_) {
        if (part.by <= s + 1) leave(part, s);
      }
      std::erase_if(waiting_, [&](const auto& part) { return part.by <= s + 1; });
      for (const ByteRange& bytes : plan_.coming[at(s)]) {
        read_ += bytes.size();
        each_unit(bytes, [&](std::int64_t unit) {
          EXPECT_TRUE(away_.erase(unit) > 0 || here_.contains(unit)) << "step " << s;
          here_.insert(unit);
        });
      }
      EXPECT_LE(bytes_here(), budget_) << "step " << s;
      for (const PagingPlan::Leaving& part : plan_.leaving[at(s)]) {
        EXPECT_GT(part.by, s);
        waiting_.push_back(part);
      }
    }
    EXPECT_EQ(read_, plan_.read_bytes);
    EXPECT_LE(plan_.written_bytes, written_);
    for (const PagingPlan::Leaving& part : waiting_) {
      EXPECT_LT(part.by, steps);
    }
  }

  const PagingPlan& plan() const { return plan_; }

 private:
  static std::size_t at(int step) { return static_cast<std::size_t>(step); }
  template <typename Visit>
  void each_unit(ByteRange bytes, const Visit& visit) {
    for (std::int64_t u = bytes.begin / kUnit; u * kUnit < bytes.end; ++u) visit(u);
  }
  std::int64_t bytes_here() const { return static_cast<std::int64_t>(here_.size()) * kUnit; }

  bool is_needed(std::int64_t unit, int behind) const {
    return std::ranges::any_of(problem_.live, [&](const LiveBytes& live) {
      return live.bytes.begin < (unit + 1) * kUnit && live.bytes.end > unit * kUnit &&
             live.first <= behind && behind < live.last;
    });
  }

  // All that the step needs the room of has left.
  void begin(int step) {
    for (const PagingPlan::Leaving& part : waiting_) {
      if (part.by <= step) leave(part, step - 1);
    }
    std::erase_if(waiting_, [&](const auto& part) { return part.by <= step; });
  }

  void leave(const PagingPlan::Leaving& part, int behind) {
    if (part.kept) written_ += part.bytes.size();
    each_unit(part.bytes, [&](std::int64_t unit) {
      EXPECT_EQ(here_.erase(unit), 1) << "unit " << unit;
      EXPECT_TRUE(part.kept || !is_needed(unit, behind)) << "unit " << unit << ", step " << behind;
      if (part.kept) away_.insert(unit);
    });
  }

  const PagingProblem& problem_;
  std::int64_t budget_;
  PagingPlan plan_;
  std::set<std::int64_t> here_, away_;
  std::vector<PagingPlan::Leaving> waiting_;
  std::int64_t read_ = 0;
  std::int64_t written_ = 0;
};

// Values that are written once and read by later steps, in places that none other has meanwhile.
PagingProblem random_problem(std::mt19937& random) {
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  PagingProblem problem;
  problem.unit = kUnit;
  const int steps = draw(1, 12);
  problem.steps.resize(static_cast<std::size_t>(steps));
  std::int64_t end = 0;
  for (int s = 0; s < steps; ++s) {
    const ByteRange place{end, end + draw(1, 90)};
    end = place.end;
    const int last = draw(0, 3) == 0 ? steps : draw(s, steps - 1);
    problem.live.push_back({place, draw(0, 9) == 0 ? -1 : s, last});
    problem.steps[static_cast<std::size_t>(s)].touched.push_back({place, true, draw(0, 1) == 0});
    for (int reader = s + 1; reader <= std::min(last, steps - 1); ++reader) {
      if (reader == last || draw(0, 2) == 0) {
        problem.steps[static_cast<std::size_t>(reader)].touched.push_back(
            {place, false, draw(0, 1) == 0});
      }
    }
  }
  problem.bytes = (end + kUnit - 1) / kUnit * kUnit;
  return problem;
}

TEST(Paging, NeverHasMoreThanItsBudgetNorLosesWhatIsNeeded) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const PagingProblem problem = random_problem(random);
    const std::int64_t least = least_paged_bytes(problem);
    for (const std::int64_t budget : {least, least + kUnit, (least + problem.bytes) / 2}) {
      Judge(problem, budget).run();
      if (HasFailure()) FAIL() << "problem " << i << ", budget " << budget;
    }
  }
}

TEST(Paging, DoesNothingWhereAllFits) {
  std::mt19937 random(8);
  for (int i = 0; i < 100; ++i) {
    PagingProblem problem = random_problem(random);
    for (LiveBytes& live : problem.live) live.first = std::max(live.first, 0);
    const PagingPlan plan = plan_paging(problem, problem.bytes);
    EXPECT_EQ(plan.written_bytes + plan.read_bytes, 0);
    for (const auto& leaving : plan.leaving) EXPECT_TRUE(leaving.empty());
  }
}

// Features behind the values: read anywhere by the first and the last step, in order by another.
TEST(Paging, LetsFeaturesLeaveUnwritten) {
  const ByteRange first{0, 3 * kUnit};
  const ByteRange second{3 * kUnit, 7 * kUnit};
  const ByteRange features{8 * kUnit, 13 * kUnit};
  PagingProblem problem;
  problem.unit = kUnit;
  problem.bytes = features.end;
  problem.steps.push_back(touching({features}, first));
  problem.steps.push_back(touching({first}, second));
  problem.steps.push_back(touching({}, second));
  problem.steps.back().touched.push_back({features, false, /*in_order=*/true});
  problem.steps.push_back(touching({second, features}, first));
  problem.live = {{first, 0, 1}, {second, 1, 3}, {first, 3, 4}, {features, -1, 4}};
  // The last step needs all that it touches, the others less.
  const std::int64_t window = features.size();
  EXPECT_EQ(least_paged_bytes(problem), 12 * kUnit + window);

  Judge judge(problem, 12 * kUnit + window);
  judge.run();
  EXPECT_EQ(judge.plan().written_bytes, 0);
  // Twice at most: behind the first step there may be no room for them.
  EXPECT_GE(judge.plan().read_bytes, features.size());
  EXPECT_LE(judge.plan().read_bytes, 2 * features.size());
  // The first value and the features are there at the end, and needed then.
  std::int64_t needed = 0;
  for (const PagingPlan::Part& part : judge.plan().left) {
    if (part.kept) needed += part.bytes.size();
  }
  EXPECT_EQ(needed, first.size() + features.size());
}

// A forward pass that leaves a value per layer, and backward, which takes them in turn.
TEST(Paging, SendsAwayWhatIsNeededLastAndBringsItInTime) {
  constexpr std::int64_t kValue = 4 * kUnit;
  const auto value = [](int v) { return ByteRange{v * kValue, (v + 1) * kValue}; };
  PagingProblem problem;
  problem.unit = kUnit;
  constexpr int kLayers = 6;
  for (int v = 0; v < kLayers; ++v) {
    problem.steps.push_back(v == 0 ? touching({}, value(0)) : touching({value(v - 1)}, value(v)));
    problem.live.push_back({value(v), v, 2 * kLayers - 1 - v});
  }
  const ByteRange gradient = value(kLayers);
  for (int v = kLayers - 1; v >= 0; --v) {
    problem.steps.push_back(touching({value(v)}, gradient));
  }
  problem.live.push_back({gradient, kLayers, 2 * kLayers});
  problem.bytes = gradient.end;
  EXPECT_EQ(least_paged_bytes(problem), 2 * kValue);

  Judge judge(problem, 4 * kValue);
  judge.run();
  const PagingPlan& plan = judge.plan();
  // Room for four: the gradient, what is read, what comes, and one more; so three of six stay until
  // backward reads them, and three are written once and read once.
  EXPECT_EQ(plan.written_bytes, 3 * kValue);
  EXPECT_EQ(plan.read_bytes, 3 * kValue);
  // The first value leaves as soon as it was read last, long before its room is needed.
  ASSERT_FALSE(plan.leaving[1].empty());
  EXPECT_EQ(plan.leaving[1][0].bytes.begin, 0);
  // It begins to come one step before the step that needs it.
  for (int s = 0; s + 1 < 2 * kLayers; ++s) {
    for (const ByteRange& bytes : plan.coming[static_cast<std::size_t>(s)]) {
      EXPECT_EQ(bytes.begin / kValue, 2 * kLayers - 2 - s);
    }
  }
}

}  // namespace
}  // namespace atl
