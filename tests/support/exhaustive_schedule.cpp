// Branch and bound over the targets that a policy could decide.
#include "tests/support/exhaustive_schedule.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "engine/placement/job_policies.hpp"
#include "engine/placement/schedule_bound.hpp"
#include "engine/placement/schedule_run.hpp"

namespace atl {

namespace {

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

// All that can be decided at a moment. Of decisions that differ only in which of several hosts that
// are alike, with the same jobs on them, one is enough.
class Decisions {
 public:
  Decisions(const ScheduleMoment& moment, JobSpeeds& speeds, bool elastic)
      : hosts_(moment.hosts),
        outlook_(moment, speeds),
        elastic_(elastic),
        free_(moment.hosts),
        targets_(moment.jobs.size()),
        jobs_on_(moment.hosts.size()) {
    for (int job = 0; job < std::ssize(moment.states); ++job) {
      const std::optional<JobPlacement>& here = moment.states[job].placement;
      if (here) note(job, *here);
    }
  }

  std::vector<JobTargets> all() {
    extend(0);
    return std::move(all_);
  }

 private:
  // Those of active jobs from the k-th one on.
  void extend(std::size_t k) {
    if (k == outlook_.active().size()) {
      all_.push_back(targets_);
      return;
    }
    const int job = outlook_.active()[k];
    const std::optional<JobPlacement>& here = outlook_.state(job).placement;
    if (here && free_.has_room(*here)) choose(k, *here);
    if (here && !elastic_) return;
    const RankRange range = outlook_.ranks(job);
    for (int per_host = 1; per_host <= range.most; ++per_host) {
      JobPlacement placement{{}, per_host};
      extend_hosts(k, range, 0, placement);
    }
    targets_[job].reset();
    extend(k + 1);
  }

  void choose(std::size_t k, const JobPlacement& placement) {
    const int job = outlook_.active()[k];
    targets_[job] = placement;
    free_.keep(placement);
    note(job, placement);
    extend(k + 1);
    for (const int h : placement.hosts) jobs_on_[h].pop_back();
    free_.give_back(placement);
  }

  // With more hosts, from the one of this number on.
  void extend_hosts(std::size_t k, RankRange range, int first, JobPlacement& placement) {
    const int job = outlook_.active()[k];
    if (placement.ranks() + placement.ranks_per_host > range.most) return;
    for (int h = first; h < std::ssize(hosts_); ++h) {
      if (free_.of(h) < placement.ranks_per_host || is_like_one_before(h, placement)) continue;
      placement.hosts.push_back(h);
      const bool is_new = outlook_.state(job).placement != placement;
      if (placement.ranks() >= range.least && is_new && is_worth_its_ranks(job, range, placement)) {
        choose(k, JobPlacement(placement));
      }
      extend_hosts(k, range, h + 1, placement);
      placement.hosts.pop_back();
    }
  }

  // Whether it could have had a host before that is alike.
  bool is_like_one_before(int host, const JobPlacement& placement) const {
    for (int h = 0; h < host; ++h) {
      const bool alike = hosts_[h].kind == hosts_[host].kind && free_.of(h) == free_.of(host) &&
                         hosts_[h].slots == hosts_[host].slots && jobs_on_[h] == jobs_on_[host];
      if (alike && std::ranges::find(placement.hosts, h) == placement.hosts.end()) return true;
    }
    return false;
  }

  // More hosts that make it no faster help nobody.
  bool is_worth_its_ranks(int job, RankRange range, const JobPlacement& placement) {
    const double seconds = outlook_.speeds().epoch_s(job, placement);
    if (seconds == kCantTrain) return false;
    if (placement.ranks() - placement.ranks_per_host < range.least) return true;
    for (std::size_t i = 0; placement.hosts.size() > 1 && i < placement.hosts.size(); ++i) {
      JobPlacement fewer = placement;
      fewer.hosts.erase(fewer.hosts.begin() + static_cast<std::ptrdiff_t>(i));
      if (outlook_.speeds().epoch_s(job, fewer) <= seconds) return false;
    }
    return true;
  }

  void note(int job, const JobPlacement& placement) {
    for (const int h : placement.hosts) jobs_on_[h].emplace_back(job, placement.ranks_per_host);
  }

  std::span<const ScheduledHost> hosts_;
  JobOutlook outlook_;
  bool elastic_;
  FreeSlots free_;
  JobTargets targets_;
  // By host, with their ranks there: those that run, and then those that are to.
  std::vector<std::vector<std::pair<int, int>>> jobs_on_;
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
