#include "engine/placement/schedule_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "engine/placement/schedule_run.hpp"

namespace atl {

namespace {

// With more sets of hosts that differ by their kinds, those alone are looked at that policies
// choose from.
constexpr double kMostSets = 4096;

// Calls visit(hosts) for one set of hosts of each number of hosts of each kind.
class HostSets {
 public:
  explicit HostSets(std::span<const ScheduledHost> hosts) {
    for (int h = 0; h < std::ssize(hosts); ++h) {
      by_kind_[{hosts[h].kind, hosts[h].slots}].push_back(h);
    }
  }
  double count() const {
    double sets = 1;
    for (const auto& [kind, hosts] : by_kind_) sets *= static_cast<double>(hosts.size() + 1);
    return sets;
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    std::vector<int> hosts;
    add(by_kind_.begin(), hosts, visit);
  }

 private:
  using ByKind = std::map<std::pair<int, int>, std::vector<int>>;
  template <typename Visit>
  void add(ByKind::const_iterator kind, std::vector<int>& hosts, const Visit& visit) const {
    if (kind == by_kind_.end()) {
      if (!hosts.empty()) visit(hosts);
      return;
    }
    const std::size_t before = hosts.size();
    add(std::next(kind), hosts, visit);
    for (const int h : kind->second) {
      hosts.push_back(h);
      add(std::next(kind), hosts, visit);
    }
    hosts.resize(before);
  }

  ByKind by_kind_;
};

}  // namespace

CompletionBound::CompletionBound(const ScheduleSetting& setting)
    : jobs_(setting.jobs), fastest_s_(jobs_.size(), kCantTrain), work_s_(jobs_.size(), kCantTrain) {
  std::vector<ScheduledHost> hosts(setting.hosts.begin(), setting.hosts.end());
  for (ScheduledHost& host : hosts) {
    host.is_lost = false;  // it may come back
    slots_ += host.slots;
  }
  const HostSets sets(hosts);
  for (int job = 0; job < std::ssize(jobs_); ++job) {
    is_weighted_ |= jobs_[job].priority != jobs_[0].priority;
    const auto consider = [&](int ranks, double epoch_s) {
      if (ranks < jobs_[job].least_ranks || ranks > jobs_[job].most_ranks) return;
      fastest_s_[job] = std::min(fastest_s_[job], epoch_s);
      work_s_[job] = std::min(work_s_[job], ranks * epoch_s / slots_);
    };
    if (sets.count() > kMostSets) {
      const std::vector<double> seconds =
          fastest_by_ranks(job, static_cast<int>(slots_), FreeSlots(hosts), setting.speeds);
      for (int r = 1; r < std::ssize(seconds); ++r) consider(r, seconds[r]);
      continue;
    }
    sets.for_each([&](std::vector<int> chosen) {
      std::ranges::sort(chosen);
      int per_host = std::numeric_limits<int>::max();
      for (const int h : chosen) per_host = std::min(per_host, hosts[h].slots);
      for (int k = 1; k <= per_host; ++k) {
        const JobPlacement placement{chosen, k};
        consider(placement.ranks(), setting.speeds.epoch_s(job, placement));
      }
    });
  }
}

double CompletionBound::weighted_sum_s(std::span<const JobState> states, double now_s) const {
  std::vector<Task> tasks;
  double arrived = 0;  // the sum of priority times arrival
  for (int job = 0; job < std::ssize(states); ++job) {
    const JobState& state = states[job];
    if (state.phase == JobState::Phase::kEnded) continue;
    const SchedulableJob& asked = jobs_[job];
    const double ready_s = std::max(now_s, asked.arrival_s);
    const double start_s = state.phase == JobState::Phase::kRunning ? 0 : asked.start_s;
    const double work_s = state.epochs_left * work_s_[job] + start_s * asked.least_ranks / slots_;
    arrived += asked.priority * asked.arrival_s;
    tasks.push_back({.ready_s = ready_s,
                     .left_s = work_s,
                     .weight = asked.priority,
                     .all_s = work_s,
                     .alone_end_s = ready_s + start_s + state.epochs_left * fastest_s_[job]});
  }
  // Those with most work are alone, the others share.
  std::ranges::sort(tasks, {}, &Task::all_s);
  double most = 0, alone = 0;
  for (;;) {
    most = std::max(most, alone + sum_of_shared_ends(tasks));
    if (tasks.empty()) return most - arrived;
    alone += tasks.back().weight * tasks.back().alone_end_s;
    tasks.pop_back();
  }
}

double CompletionBound::sum_of_shared_ends(std::vector<Task> tasks) const {
  std::ranges::sort(tasks, {}, &Task::ready_s);
  return is_weighted_ ? sum_of_busy_times(std::move(tasks)) : sum_of_ends(std::move(tasks));
}

namespace {

// Runs tasks, by the time at which they are ready, one at a time and at each moment the one that
// comes first in an order; calls ran(task, from, to) for each stretch.
template <typename Tasks, typename Before, typename Ran>
void run_preemptively(Tasks& tasks, const Before& before, const Ran& ran) {
  double now = 0;
  std::size_t next = 0;
  std::vector<std::size_t> ready;
  const auto is_behind = [&](std::size_t a, std::size_t b) { return before(tasks[b], tasks[a]); };
  while (next < tasks.size() || !ready.empty()) {
    if (ready.empty()) now = std::max(now, tasks[next].ready_s);
    for (; next < tasks.size() && tasks[next].ready_s <= now; ++next) ready.push_back(next);
    const auto first = std::ranges::max_element(ready, is_behind);
    auto& task = tasks[*first];
    const double until =
        next < tasks.size() ? std::min(now + task.left_s, tasks[next].ready_s) : now + task.left_s;
    task.left_s -= until - now;
    ran(*first, now, until);
    now = until;
    if (task.left_s <= 1e-12 * now) ready.erase(first);
  }
}

}  // namespace

// The shortest remaining time first.
double CompletionBound::sum_of_ends(std::vector<Task> tasks) const {
  std::vector<double> ends(tasks.size(), 0);
  run_preemptively(
      tasks, [](const Task& a, const Task& b) { return a.left_s < b.left_s; },
      [&](std::size_t k, double, double until) { ends[k] = until; });
  double sum = 0;
  for (std::size_t k = 0; k < tasks.size(); ++k) sum += tasks[k].weight * ends[k];
  return sum;
}

// The sum of weight times (mean busy time + half of the work) is least where the largest weight
// per work goes first, and no end is before that.
double CompletionBound::sum_of_busy_times(std::vector<Task> tasks) const {
  std::vector<double> busy(tasks.size(), 0);  // time times work done then
  run_preemptively(
      tasks, [](const Task& a, const Task& b) { return a.weight / a.all_s > b.weight / b.all_s; },
      [&](std::size_t k, double from, double until) {
        busy[k] += (until * until - from * from) / 2;
      });
  double sum = 0;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    sum += tasks[k].weight * (busy[k] / tasks[k].all_s + tasks[k].all_s / 2);
  }
  return sum;
}

double completion_bound_s(const ScheduleSetting& setting) {
  check_jobs_fit(setting);
  const ScheduleRun run(setting, ScheduleRun::Record::kNothing);
  return CompletionBound(setting).weighted_sum_s(run.moment().states, setting.now_s) /
         sum_of_priorities(setting.jobs);
}

}  // namespace atl
