// Branch and bound over the targets that a policy could decide.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "engine/placement/job_policies.hpp"
#include "engine/placement/schedule_bound.hpp"
#include "engine/placement/schedule_run.hpp"

namespace atl {

namespace {

constexpr int kWaits = 0;   // a choice of a job: no ranks
constexpr int kStays = -1;  // the placement in which it runs

// Takes decisions that were made, one after another.
class Replay final : public JobPolicy {
 public:
  explicit Replay(std::vector<JobTargets> decisions) : decisions_(std::move(decisions)) {}
  JobTargets decide(const ScheduleMoment& /*moment*/, JobSpeeds& /*speeds*/) override {
    return decisions_[next_++];
  }

 private:
  std::vector<JobTargets> decisions_;
  std::size_t next_ = 0;
};

// All that can be decided at a moment.
class Decisions {
 public:
  Decisions(const ScheduleMoment& moment, JobSpeeds& speeds, bool elastic)
      : moment_(moment), outlook_(moment, speeds), elastic_(elastic) {
    for (const int job : outlook_.active()) options_.push_back(options_of(job));
  }

  std::vector<JobTargets> all() {
    for (const int job : outlook_.active()) {
      const std::optional<JobPlacement>& here = outlook_.state(job).placement;
      if (here) taken_ += here->ranks();
    }
    std::vector<int> choice;
    extend(choice, FreeSlots(moment_.hosts).total(), 0);
    return std::move(all_);
  }

 private:
  // More ranks that make it no faster help nobody.
  std::vector<int> options_of(int job) {
    const std::optional<JobPlacement>& here = outlook_.state(job).placement;
    std::vector<int> options;
    if (here) options.push_back(kStays);
    if (here && !elastic_) return options;
    const RankRange range = outlook_.ranks(job);
    const std::vector<double> seconds =
        fastest_by_ranks(job, range.most, FreeSlots(moment_.hosts), outlook_.speeds());
    double least = std::numeric_limits<double>::infinity();
    for (int r = range.least; r <= range.most; ++r) {
      if (!(seconds[r] < least)) continue;
      least = seconds[r];
      if (!here || here->ranks() != r) options.push_back(r);
    }
    options.push_back(kWaits);
    return options;
  }

  void extend(std::vector<int>& choice, int left, int given) {
    const std::size_t k = choice.size();
    if (k == options_.size()) {
      if (given >= taken_) place(choice);
      return;
    }
    const std::optional<JobPlacement>& here = outlook_.state(outlook_.active()[k]).placement;
    for (const int option : options_[k]) {
      const int ranks = option == kStays ? here->ranks() : option;
      if (ranks > left) continue;
      choice.push_back(option);
      extend(choice, left - ranks, given + ranks);
      choice.pop_back();
    }
  }

  void place(const std::vector<int>& choice) {
    FreeSlots free(moment_);
    JobTargets targets = outlook_.no_targets();
    for (std::size_t k = 0; k < choice.size(); ++k) {
      if (choice[k] != kStays) continue;
      const int job = outlook_.active()[k];
      targets[job] = outlook_.state(job).placement;
      free.keep(*targets[job]);
    }
    // Those that wait come before those that run: they can start in empty slots.
    for (const bool runs : {false, true}) {
      for (std::size_t k = 0; k < choice.size(); ++k) {
        const int job = outlook_.active()[k];
        if (choice[k] == kStays || choice[k] == kWaits) continue;
        if (outlook_.state(job).placement.has_value() != runs) continue;
        targets[job] = fastest_placement(job, {choice[k], choice[k]}, free, outlook_.speeds(),
                                         runs ? StartsIn::kSlotsToCome : StartsIn::kEmptySlots);
        if (!targets[job]) return;
        free.take(*targets[job]);
      }
    }
    all_.push_back(std::move(targets));
  }

  const ScheduleMoment& moment_;
  JobOutlook outlook_;
  bool elastic_;
  std::vector<std::vector<int>> options_;  // by active job
  int taken_ = 0;                          // slots, by jobs that run
  std::vector<JobTargets> all_;
};

class BranchAndBound {
 public:
  BranchAndBound(const ScheduleSetting& setting, bool elastic)
      : setting_(setting), bound_(setting), elastic_(elastic) {}

  // The decisions of the best schedule; `sum_s` of another, of priority times completion.
  std::vector<JobTargets> best(double sum_s) {
    best_s_ = sum_s * (1 + 1e-9);
    ScheduleRun run(setting_, ScheduleRun::Record::kNothing);
    if (run.advance()) visit(run);
    return std::move(best_);
  }

 private:
  struct Child {
    JobTargets targets;
    ScheduleRun run;
    double bound_s = 0;
  };

  // run: a decision is to be made.
  void visit(const ScheduleRun& run) {
    std::vector<Child> children;
    for (JobTargets& targets : Decisions(run.moment(), setting_.speeds, elastic_).all()) {
      Child child{std::move(targets), run};
      child.run.follow(child.targets);
      const bool goes_on = child.run.advance();
      if (!goes_on && !child.run.is_over()) continue;  // all wait for ever
      child.bound_s =
          child.run.weighted_sum_s() +
          (goes_on ? bound_.weighted_sum_s(child.run.moment().states, child.run.now_s()) : 0);
      if (child.bound_s < best_s_) children.push_back(std::move(child));
    }
    std::vector<std::size_t> order(children.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::ranges::stable_sort(order, {}, [&](std::size_t k) { return children[k].bound_s; });
    for (const std::size_t k : order) {
      if (children[k].bound_s >= best_s_) break;
      path_.push_back(children[k].targets);
      if (children[k].run.is_over()) {
        best_s_ = children[k].bound_s;
        best_ = path_;
      } else {
        visit(children[k].run);
      }
      path_.pop_back();
    }
  }

  const ScheduleSetting& setting_;
  CompletionBound bound_;
  bool elastic_;
  std::vector<JobTargets> path_;
  std::vector<JobTargets> best_;
  double best_s_ = 0;
};

}  // namespace

JobSchedule exhaustive_schedule(const ScheduleSetting& setting, bool elastic) {
  if (std::ssize(setting.jobs) > kMostExhaustiveJobs) {
    fail_option("an exhaustive schedule of {} jobs: allowed are at most {}", setting.jobs.size(),
                kMostExhaustiveJobs);
  }
  ATOLL_ASSERT(setting.host_events.empty(), "hosts are lost");
  KnownSpeeds speeds(setting.speeds, setting.hosts);
  const ScheduleSetting known{setting.jobs, setting.hosts, speeds, setting.states, setting.now_s};
  const std::unique_ptr<JobPolicy> search = make_search_policy({.elastic = elastic});
  const JobSchedule first = simulate_schedule(known, *search);
  const double sum_s = first.mean_completion_s * sum_of_priorities(setting.jobs);
  std::vector<JobTargets> decisions = BranchAndBound(known, elastic).best(sum_s);
  if (decisions.empty()) return first;
  Replay replay(std::move(decisions));
  return simulate_schedule(known, replay);
}

}  // namespace atl
