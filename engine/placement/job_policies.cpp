#include "engine/placement/job_policies.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "engine/placement/schedule_run.hpp"

namespace atl {

namespace {

constexpr double kWhole = 1e-9;  // of an epoch: nearer to a whole number it is one

// First what was decided, then a policy that lets running jobs be.
class Afterwards final : public JobPolicy {
 public:
  Afterwards(const JobTargets& first, RankPolicy& then) : first_(&first), then_(then) {}
  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) override {
    if (first_ != nullptr) return *std::exchange(first_, nullptr);
    JobOutlook outlook(moment, speeds);
    return then_.propose(outlook, std::vector<char>(moment.jobs.size(), 1));
  }

 private:
  const JobTargets* first_;
  RankPolicy& then_;
};

// Changes of running jobs, and whether they pay.
class Changes {
 public:
  Changes(RankPolicy& policy, JobOutlook& outlook)
      : policy_(policy), outlook_(outlook), states_(states_ahead(outlook, false)) {}

  JobTargets best() {
    std::vector<char> stays(outlook_.moment().jobs.size(), 1);
    take(stays);
    std::ranges::fill(stays, 0);
    take(stays);
    while (let_one_stay(stays)) {
    }
    return std::move(best_);
  }

 private:
  // False: no job that would be changed had better stay as it is.
  bool let_one_stay(std::vector<char>& stays) {
    const JobTargets proposed = policy_.propose(outlook_, stays);
    for (const int job : outlook_.active()) {
      const std::optional<JobPlacement>& here = outlook_.state(job).placement;
      if (!here || here == proposed[job]) continue;
      stays[job] = 1;
      if (take(stays)) return true;
      stays[job] = 0;
    }
    return false;
  }

  // Whether it is the best so far.
  bool take(const std::vector<char>& stays) {
    JobTargets targets = policy_.propose(outlook_, stays);
    Afterwards policy(targets, policy_);
    const ScheduleMoment& moment = outlook_.moment();
    const double mean_s = simulated_mean_s(
        {moment.jobs, moment.hosts, outlook_.speeds(), states_, moment.now_s}, policy);
    // By more than rounding: of equal ones that with fewer changes.
    if (!best_.empty() && !(mean_s < best_s_ * (1 - 1e-9))) return false;
    best_s_ = mean_s;
    best_ = std::move(targets);
    return true;
  }

  RankPolicy& policy_;
  JobOutlook& outlook_;
  std::vector<JobState> states_;
  JobTargets best_;
  double best_s_ = kCantTrain;
};

// Targets while they are chosen.
class Allotment {
 public:
  // Jobs that stay have what they have.
  Allotment(JobOutlook& outlook, const std::vector<char>& stays)
      : outlook_(outlook), free_(outlook.moment()), targets_(outlook.moment().jobs.size()) {
    for (const int job : outlook.active()) {
      if (stays[job] && outlook.state(job).placement) give(job, *outlook.state(job).placement);
    }
  }

  bool has(int job) const { return targets_[job].has_value(); }
  const FreeSlots& free() const { return free_; }
  // The fastest placement of that many ranks, or the one in which it runs where moving it would not
  // end it earlier. False: there is no room.
  bool give_fastest(int job, RankRange ranks) {
    const std::optional<JobPlacement>& here = outlook_.state(job).placement;
    std::optional<JobPlacement> best =
        fastest_placement(job, ranks, free_, outlook_.speeds(),
                          here ? StartsIn::kSlotsToCome : StartsIn::kEmptySlots);
    const bool can_stay = here && here->ranks() >= ranks.least && here->ranks() <= ranks.most &&
                          free_.has_room(*here);
    if (can_stay && (!best || remaining_s(job, *here) <= remaining_s(job, *best))) {
      best = here;
    }
    if (!best) return false;
    give(job, *std::move(best));
    return true;
  }
  JobTargets targets() && { return std::move(targets_); }

 private:
  double remaining_s(int job, const JobPlacement& placement) {
    return atl::remaining_s(outlook_.moment(), outlook_.speeds(), job, placement);
  }
  void give(int job, JobPlacement placement) {
    const bool is_there = outlook_.state(job).placement == placement;
    is_there ? free_.keep(placement) : free_.take(placement);
    targets_[job] = std::move(placement);
  }

  JobOutlook& outlook_;
  FreeSlots free_;
  JobTargets targets_;
};

class FifoPolicy final : public RankPolicy {
 public:
  FifoPolicy() : RankPolicy(false) {}
  JobTargets propose(JobOutlook& outlook, const std::vector<char>& stays) override {
    Allotment allotment(outlook, stays);
    std::vector<int> order = outlook.active();
    std::ranges::stable_sort(order, {}, [&](int job) {
      return std::pair(-outlook.job(job).priority, outlook.job(job).arrival_s);
    });
    const FreeSlots empty(outlook.hosts());
    for (const int job : order) {
      if (allotment.has(job)) continue;
      const RankRange ranks = outlook.ranks(job);
      const std::vector<double> seconds =
          fastest_by_ranks(job, ranks.most, empty, outlook.speeds());
      int most = ranks.most;
      while (seconds[most] == kCantTrain) --most;
      if (!allotment.give_fastest(job, {most, most})) break;
    }
    return std::move(allotment).targets();
  }
};

class SrptPolicy final : public RankPolicy {
 public:
  using RankPolicy::RankPolicy;
  JobTargets propose(JobOutlook& outlook, const std::vector<char>& stays) override {
    Allotment allotment(outlook, stays);
    for (const int job : outlook.by_remaining()) {
      if (!allotment.has(job)) allotment.give_fastest(job, outlook.ranks(job));
    }
    return std::move(allotment).targets();
  }
};

class MarginalPolicy final : public RankPolicy {
 public:
  using RankPolicy::RankPolicy;
  JobTargets propose(JobOutlook& outlook, const std::vector<char>& stays) override {
    Allotment allotment(outlook, stays);
    std::vector<Claim> claims = least_claims(outlook, allotment);
    int left = allotment.free().total();
    for (const Claim& claim : claims) left -= claim.ranks;
    while (raise_one(claims, left)) {
    }
    // Wide ones first: they find fewer places. Those that would only be moved come before them.
    std::ranges::stable_sort(claims, {}, [&](const Claim& claim) {
      const std::optional<JobPlacement>& here = outlook.state(claim.job).placement;
      return std::pair(!here || here->ranks() != claim.ranks, -claim.ranks);
    });
    for (const Claim& claim : claims) {
      const bool exact = allotment.give_fastest(claim.job, {claim.ranks, claim.ranks});
      if (!exact) allotment.give_fastest(claim.job, {claim.least, claim.ranks});
    }
    return std::move(allotment).targets();
  }

 private:
  struct Claim {
    int job = 0;
    int least = 0;
    int ranks = 0;
    double weight = 0;            // priority times epochs
    std::vector<double> seconds;  // of an epoch by ranks, on hosts without other jobs
  };

  // The least ranks of each, as long as there are slots.
  static std::vector<Claim> least_claims(JobOutlook& outlook, const Allotment& allotment) {
    std::vector<Claim> claims;
    const FreeSlots empty(outlook.hosts());
    int left = allotment.free().total();
    for (const int job : outlook.by_remaining()) {
      if (left == 0) break;
      if (allotment.has(job)) continue;
      const RankRange ranks = outlook.ranks(job);
      Claim claim{job, ranks.least, ranks.least, 0,
                  fastest_by_ranks(job, ranks.most, empty, outlook.speeds())};
      while (claim.seconds[claim.ranks] == kCantTrain) ++claim.ranks;
      if (claim.ranks > left) continue;
      claim.weight = outlook.job(job).priority * outlook.state(job).epochs_left;
      left -= claim.ranks;
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  // Gives more ranks to the claim whose remaining time falls most for each of them. False: none
  // falls.
  static bool raise_one(std::vector<Claim>& claims, int& left) {
    Claim* raised = nullptr;
    int ranks = 0;
    double most = 0;
    for (Claim& claim : claims) {
      const int last = std::min(claim.ranks + left, static_cast<int>(claim.seconds.size()) - 1);
      for (int r = claim.ranks + 1; r <= last; ++r) {
        const double fall =
            claim.weight * (claim.seconds[claim.ranks] - claim.seconds[r]) / (r - claim.ranks);
        if (fall <= most) continue;
        raised = &claim;
        ranks = r;
        most = fall;
      }
    }
    if (raised == nullptr) return false;
    left -= ranks - raised->ranks;
    raised->ranks = ranks;
    return true;
  }
};

}  // namespace

JobOutlook::JobOutlook(const ScheduleMoment& moment, JobSpeeds& speeds)
    : moment_(moment), speeds_(speeds), shortest_s_(moment.jobs.size(), kCantTrain) {
  const FreeSlots empty(moment.hosts);
  for (int job = 0; job < std::ssize(moment.jobs); ++job) {
    const JobState::Phase phase = state(job).phase;
    if (phase != JobState::Phase::kWaiting && phase != JobState::Phase::kRunning) continue;
    const std::optional<JobPlacement> fastest = fastest_placement(job, ranks(job), empty, speeds);
    if (!fastest) continue;
    active_.push_back(job);
    shortest_s_[job] = state(job).epochs_left * speeds.epoch_s(job, *fastest);
  }
}

std::vector<int> JobOutlook::by_remaining() const {
  std::vector<int> order = active_;
  std::ranges::stable_sort(order, {},
                           [&](int number) { return shortest_s_[number] / job(number).priority; });
  return order;
}

double remaining_s(const ScheduleMoment& moment, JobSpeeds& speeds, int job,
                   const JobPlacement& placement) {
  const JobState& now = moment.states[job];
  const double epoch_s = speeds.epoch_s(job, placement);
  const double start_s = moment.jobs[job].start_s;
  if (!now.placement) return start_s + now.epochs_left * epoch_s;
  if (now.placement == placement) return now.start_left_s + now.epochs_left * epoch_s;
  // A start, too, ends after an epoch alone.
  const double whole = now.start_left_s > 0 ? std::ceil(now.epochs_left - kWhole) - 1
                                            : std::floor(now.epochs_left + kWhole);
  const double rest = std::max(0.0, now.epochs_left - whole);
  return now.start_left_s + rest * speeds.epoch_s(job, *now.placement) + start_s +
         (now.epochs_left - rest) * epoch_s;
}

std::vector<JobState> states_ahead(JobOutlook& outlook, bool knows_arrivals) {
  const ScheduleMoment& moment = outlook.moment();
  const FreeSlots empty(moment.hosts);
  std::vector<JobState> states(moment.states.begin(), moment.states.end());
  for (int job = 0; job < std::ssize(states); ++job) {
    const bool counts =
        states[job].phase == JobState::Phase::kNotArrived
            ? knows_arrivals && fastest_placement(job, outlook.ranks(job), empty, outlook.speeds())
            : std::ranges::binary_search(outlook.active(), job);
    if (!counts) states[job] = {JobState::Phase::kEnded};
  }
  return states;
}

JobTargets RankPolicy::decide(const ScheduleMoment& moment, JobSpeeds& speeds) {
  JobOutlook outlook(moment, speeds);
  const bool changes = elastic_ && std::ranges::any_of(moment.states, [](const JobState& state) {
                         return state.placement.has_value();
                       });
  if (!changes) return propose(outlook, std::vector<char>(moment.jobs.size(), 1));
  return Changes(*this, outlook).best();
}

std::unique_ptr<RankPolicy> make_rank_policy(const std::string& name, bool elastic) {
  if (name == "fifo") return std::make_unique<FifoPolicy>();
  if (name == "srpt") return std::make_unique<SrptPolicy>(elastic);
  if (name == "marginal") return std::make_unique<MarginalPolicy>(elastic);
  return nullptr;
}

std::vector<std::string> rank_policies() { return {"fifo", "srpt", "marginal"}; }

std::vector<std::string> job_policies() {
  std::vector<std::string> names = rank_policies();
  names.emplace_back("search");
  return names;
}

std::unique_ptr<JobPolicy> make_job_policy(const std::string& name,
                                           const JobPolicyOptions& options) {
  if (name == "search") return make_search_policy(options);
  if (std::unique_ptr<RankPolicy> policy = make_rank_policy(name, options.elastic)) return policy;
  fail_option("--policy {}: unknown policy; allowed are: {}", name,
              fmt::join(job_policies(), ", "));
}

}  // namespace atl
