// Markov chain Monte Carlo over plans of a schedule, as in search_mcmc.cpp: a move that makes the
// mean completion longer by the factor f is accepted with probability f^(-1/t), and the temperature
// t falls over a cycle. Each cycle begins at the best plan so far.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "engine/placement/job_policies.hpp"
#include "engine/placement/random_draws.hpp"
#include "engine/placement/schedule_run.hpp"

namespace atl {

namespace {

constexpr double kPlanHottest = 0.03;
constexpr double kPlanColdest = 0.001;
constexpr std::int64_t kStepsPerJob = 30;  // of a cycle
constexpr std::int64_t kPlanLeastSteps = 60;
constexpr int kIdlePlanCycles = 3;  // after which the walk has seen what it can reach

// A schedule as search decides it: an order of jobs with a few words about each, from which its
// placements follow whenever a job arrives or ends.
struct SchedulePlan {
  struct Job {
    int least = 1;  // it starts with that many ranks, or does not start
    int most = 1;
    bool holds = false;   // while it has no room, or has not arrived, none behind it starts
    bool yields = false;  // it gives way to jobs in front of it, once it runs
    bool grows = false;   // it takes slots that nobody else wants, once it runs
  };
  std::vector<int> order;  // of jobs that have not ended, first the one that gets slots first
  std::vector<Job> jobs;   // by number
};

// One decision after a plan.
class PlanFollower {
 public:
  PlanFollower(const SchedulePlan& plan, const ScheduleMoment& moment, JobSpeeds& speeds,
               bool elastic)
      : plan_(plan),
        moment_(moment),
        speeds_(speeds),
        elastic_(elastic),
        free_(moment),
        targets_(moment.jobs.size()) {}

  JobTargets targets() && {
    for (int job = 0; job < std::ssize(moment_.states); ++job) {
      const JobState& state = moment_.states[job];
      if (state.placement && !(elastic_ && plan_.jobs[job].yields)) stay(job);
    }
    bool is_held = false;
    for (const int job : plan_.order) {
      const JobState::Phase phase = moment_.states[job].phase;
      if (targets_[job] || phase == JobState::Phase::kEnded) continue;
      if (phase == JobState::Phase::kRunning) {
        place_running(job);
      } else if (!is_held) {
        const bool can_start = phase == JobState::Phase::kWaiting && place_waiting(job);
        is_held = !can_start && plan_.jobs[job].holds;
      }
    }
    if (elastic_ && free_.total() > 0) grow();
    return std::move(targets_);
  }

 private:
  void stay(int job) {
    targets_[job] = moment_.states[job].placement;
    free_.keep(*targets_[job]);
  }

  void give(int job, JobPlacement placement) {
    free_.take(placement);
    targets_[job] = std::move(placement);
  }

  bool place_waiting(int job) {
    const SchedulePlan::Job& planned = plan_.jobs[job];
    std::optional<JobPlacement> placement =
        fastest_placement(job, {planned.least, planned.most}, free_, speeds_);
    if (!placement) return false;
    give(job, *std::move(placement));
    return true;
  }

  // Where it is, on fewer ranks, or nowhere.
  void place_running(int job) {
    const JobPlacement& here = *moment_.states[job].placement;
    if (free_.has_room(here)) {
      stay(job);
    } else if (std::optional<JobPlacement> placement =
                   fastest_placement(job, {moment_.jobs[job].least_ranks, here.ranks()}, free_,
                                     speeds_, StartsIn::kSlotsToCome)) {
      give(job, *std::move(placement));
    }
  }

  // Free slots go to running jobs that end earlier with them, a start and all.
  void grow() {
    for (const int job : plan_.order) {
      const JobState& state = moment_.states[job];
      if (!plan_.jobs[job].grows || !state.placement || targets_[job] != state.placement) continue;
      if (free_.total() == 0) return;
      const RankRange ranks{moment_.jobs[job].least_ranks, moment_.jobs[job].most_ranks};
      free_.give_back(*state.placement);
      std::optional<JobPlacement> faster =
          fastest_placement(job, ranks, free_, speeds_, StartsIn::kSlotsToCome);
      if (faster && remaining_s(moment_, speeds_, job, *faster) <
                        remaining_s(moment_, speeds_, job, *state.placement)) {
        give(job, *std::move(faster));
      } else {
        stay(job);
      }
    }
  }

  const SchedulePlan& plan_;
  const ScheduleMoment& moment_;
  JobSpeeds& speeds_;
  bool elastic_;
  FreeSlots free_;
  JobTargets targets_;
};

// Follows a plan of all jobs that have arrived, or will.
class PlannedPolicy final : public JobPolicy {
 public:
  PlannedPolicy(SchedulePlan plan, bool elastic) : plan_(std::move(plan)), elastic_(elastic) {}
  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) override {
    return PlanFollower(plan_, moment, speeds, elastic_).targets();
  }

 private:
  SchedulePlan plan_;
  bool elastic_;
};

// Policies and plans on the way from a moment to the end of all jobs that are known.
class Futures {
 public:
  Futures(JobOutlook& outlook, const JobPolicyOptions& options)
      : outlook_(outlook),
        options_(options),
        states_(states_ahead(outlook, options.knows_arrivals)) {}

  double mean_s(JobPolicy& policy) {
    ++evaluations_;
    return simulated_mean_s(setting(), policy);
  }
  double mean_s(const SchedulePlan& plan) {
    PlannedPolicy policy(plan, options_.elastic);
    return mean_s(policy);
  }
  bool has_budget() const { return evaluations_ < options_.evaluations; }
  std::int64_t evaluations() const { return evaluations_; }
  const JobPolicyOptions& options() const { return options_; }
  JobOutlook& outlook() { return outlook_; }
  bool is_open(int job) const { return states_[job].phase != JobState::Phase::kEnded; }
  ScheduleSetting setting() {
    const ScheduleMoment& moment = outlook_.moment();
    return {moment.jobs, moment.hosts, outlook_.speeds(), states_, moment.now_s};
  }

 private:
  JobOutlook& outlook_;
  const JobPolicyOptions& options_;
  std::vector<JobState> states_;
  std::int64_t evaluations_ = 0;
};

struct JudgedPlan {
  SchedulePlan plan;
  double mean_s = std::numeric_limits<double>::infinity();
};

// Plans to begin with: orders by remaining time, all jobs alike.
class FirstPlans {
 public:
  explicit FirstPlans(Futures& futures) : futures_(futures) {
    const ScheduleMoment& moment = futures.outlook().moment();
    const FreeSlots empty(moment.hosts);
    keys_.resize(moment.jobs.size());
    for (int job = 0; job < std::ssize(moment.jobs); ++job) {
      ranks_.push_back(useful_ranks(job, empty));
      if (!futures.is_open(job)) continue;
      order_.push_back(job);
      keys_[job] = moment.states[job].epochs_left * seconds_ / moment.jobs[job].priority;
    }
    std::ranges::stable_sort(order_, {}, [&](int job) { return keys_[job]; });
  }

  // Numbers of ranks with which a job is faster than with fewer.
  const std::vector<std::vector<int>>& ranks() const { return ranks_; }

  JudgedPlan best() {
    JudgedPlan best;
    int most = 1;
    for (const std::vector<int>& ranks : ranks_) {
      if (!ranks.empty()) most = std::max(most, ranks.back());
    }
    for (int cap = 1;; cap = std::min(2 * cap, most)) {
      for (const bool changes : {false, true}) {
        if (changes && !futures_.options().elastic) continue;
        JudgedPlan judged{plan(cap, changes)};
        judged.mean_s = futures_.mean_s(judged.plan);
        if (best.plan.order.empty() || judged.mean_s < best.mean_s) best = std::move(judged);
      }
      if (cap == most) return best;
    }
  }

 private:
  std::vector<int> useful_ranks(int job, const FreeSlots& empty) {
    if (!futures_.is_open(job)) return {};
    const RankRange range = futures_.outlook().ranks(job);
    const std::vector<double> seconds =
        fastest_by_ranks(job, range.most, empty, futures_.outlook().speeds());
    std::vector<int> useful;
    seconds_ = std::numeric_limits<double>::infinity();
    for (int r = range.least; r <= range.most; ++r) {
      if (!(seconds[r] < seconds_)) continue;
      seconds_ = seconds[r];
      useful.push_back(r);
    }
    return useful;
  }

  SchedulePlan plan(int cap, bool changes) const {
    SchedulePlan plan{order_, std::vector<SchedulePlan::Job>(ranks_.size())};
    for (const int job : order_) {
      plan.jobs[job] = {ranks_[job].front(),
                        std::clamp(cap, ranks_[job].front(), ranks_[job].back()), false, changes,
                        changes};
    }
    return plan;
  }

  Futures& futures_;
  std::vector<int> order_;
  std::vector<double> keys_;
  std::vector<std::vector<int>> ranks_;  // by job
  double seconds_ = 0;                   // of the fastest epoch of the job looked at last
};

class PlanWalk {
 public:
  PlanWalk(Futures& futures, const std::vector<std::vector<int>>& ranks)
      : futures_(futures), ranks_(ranks), draws_(futures.options().seed) {
    for (int job = 0; job < std::ssize(ranks); ++job) {
      const bool runs = futures.outlook().state(job).placement.has_value();
      if (futures.is_open(job) && (futures.options().elastic || !runs)) movable_.push_back(job);
    }
  }

  JudgedPlan search(JudgedPlan best) {
    if (movable_.empty()) return best;
    best_ = std::move(best);
    for (int idle = 0; idle < kIdlePlanCycles && futures_.has_budget(); ++idle) {
      const double before = best_.mean_s;
      cycle();
      if (best_.mean_s < before) idle = -1;
    }
    return std::move(best_);
  }

 private:
  void cycle() {
    const std::int64_t steps =
        std::max(kPlanLeastSteps, kStepsPerJob * static_cast<std::int64_t>(movable_.size()));
    JudgedPlan here = best_;
    for (std::int64_t step = 0; step < steps && futures_.has_budget(); ++step) {
      const double t =
          kPlanHottest * std::pow(kPlanColdest / kPlanHottest,
                                  static_cast<double>(step) / static_cast<double>(steps));
      JudgedPlan next{here.plan};
      move(next.plan);
      next.mean_s = futures_.mean_s(next.plan);
      if (next.mean_s < best_.mean_s) best_ = next;
      if (next.mean_s <= here.mean_s ||
          draws_.unit() < std::pow(here.mean_s / next.mean_s, 1 / t)) {
        here = std::move(next);
      }
    }
  }

  void move(SchedulePlan& plan) {
    const int job = movable_[draws_.below(static_cast<int>(movable_.size()))];
    const double which = draws_.unit();
    SchedulePlan::Job& planned = plan.jobs[job];
    if (which < 0.4 && plan.order.size() > 1) {
      move_in_order(plan.order, job);
    } else if (which < 0.75) {
      draw_ranks(planned, ranks_[job]);
    } else if (!futures_.options().elastic || draws_.chance(0.34)) {
      planned.holds = !planned.holds;
    } else if (draws_.chance(0.5)) {
      planned.yields = !planned.yields;
    } else {
      planned.grows = !planned.grows;
    }
  }

  void move_in_order(std::vector<int>& order, int job) {
    order.erase(std::ranges::find(order, job));
    const int place = draws_.below(static_cast<int>(order.size()) + 1);
    order.insert(order.begin() + place, job);
  }

  // As many as one of those that are useful, or anything up to it.
  void draw_ranks(SchedulePlan::Job& planned, const std::vector<int>& useful) {
    planned.most = useful[draws_.below(static_cast<int>(useful.size()))];
    planned.least = draws_.chance(0.5) ? useful.front() : planned.most;
  }

  Futures& futures_;
  const std::vector<std::vector<int>>& ranks_;
  RandomDraws draws_;
  std::vector<int> movable_;
  JudgedPlan best_;
};

class SearchPolicy final : public JobPolicy {
 public:
  explicit SearchPolicy(const JobPolicyOptions& options) : options_(options) {}

  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) override {
    if (!decided_ || brings_news(moment)) {
      KnownSpeeds known(speeds, moment.hosts);
      JobOutlook outlook(moment, known);
      plan(outlook);
      note(moment);
    }
    return decided_->decide(moment, speeds);
  }

 private:
  // Whether there is anything that the plan did not know.
  bool brings_news(const ScheduleMoment& moment) const {
    for (int job = 0; job < std::ssize(moment.states); ++job) {
      const bool is_there = moment.states[job].phase != JobState::Phase::kNotArrived;
      const bool was_known = job < std::ssize(known_) && known_[job] != 0;
      if ((is_there || options_.knows_arrivals) && !was_known) return true;
    }
    for (int h = 0; h < std::ssize(moment.hosts); ++h) {
      if ((lost_[h] != 0) != moment.hosts[h].is_lost) return true;
    }
    return false;
  }

  void note(const ScheduleMoment& moment) {
    known_.clear();
    lost_.clear();
    for (const JobState& state : moment.states) {
      known_.push_back(state.phase != JobState::Phase::kNotArrived || options_.knows_arrivals);
    }
    for (const ScheduledHost& host : moment.hosts) lost_.push_back(host.is_lost);
  }

  void plan(JobOutlook& outlook) {
    Futures futures(outlook, options_);
    std::unique_ptr<JobPolicy> best;
    double best_s = std::numeric_limits<double>::infinity();
    for (const std::string& name : rank_policies()) {
      for (const bool elastic : {false, true}) {
        if (elastic && (!options_.elastic || name == "fifo")) continue;
        std::unique_ptr<JobPolicy> policy = make_rank_policy(name, elastic);
        const double mean_s = futures.mean_s(*policy);
        if (mean_s < best_s || !best) best = std::move(policy);
        best_s = std::min(best_s, mean_s);
      }
    }
    FirstPlans first(futures);
    const JudgedPlan found = PlanWalk(futures, first.ranks()).search(first.best());
    if (found.mean_s < best_s) {
      best = std::make_unique<PlannedPolicy>(found.plan, options_.elastic);
    }
    decided_ = std::move(best);
  }

  JobPolicyOptions options_;
  std::unique_ptr<JobPolicy> decided_;
  std::vector<char> known_;  // by job: the plan knew it
  std::vector<char> lost_;   // by host, when it was planned
};

}  // namespace

std::unique_ptr<JobPolicy> make_search_policy(const JobPolicyOptions& options) {
  return std::make_unique<SearchPolicy>(options);
}

}  // namespace atl
