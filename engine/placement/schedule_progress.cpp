#include "engine/placement/schedule_progress.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace atl {

ScheduleProgress::ScheduleProgress(std::span<const SchedulableJob> jobs,
                                   std::vector<ScheduledHost> hosts,
                                   std::span<const JobState> states)
    : hosts_(std::move(hosts)), states_(states.begin(), states.end()), targets_(jobs.size()) {
  if (states_.empty()) {
    for (const SchedulableJob& job : jobs) {
      states_.push_back({JobState::Phase::kNotArrived, static_cast<double>(job.epochs)});
    }
  }
  ATOLL_ASSERT(states_.size() == jobs.size(), "{} states of {} jobs", states_.size(), jobs.size());
  for (int job = 0; job < std::ssize(states_); ++job) {
    const bool runs = states_[job].phase == JobState::Phase::kRunning;
    ATOLL_ASSERT(runs == states_[job].placement.has_value(), "job {}", job);
    if (!runs) continue;
    running_.push_back(job);
    targets_[job] = states_[job].placement;
  }
}

std::vector<int> ScheduleProgress::running() const { return running_; }

int ScheduleProgress::add(const SchedulableJob& job) {
  states_.push_back({JobState::Phase::kNotArrived, static_cast<double>(job.epochs)});
  targets_.emplace_back();
  return static_cast<int>(states_.size()) - 1;
}

void ScheduleProgress::arrive(int job) {
  ATOLL_ASSERT(states_[job].phase == JobState::Phase::kNotArrived, "job {}", job);
  states_[job].phase = JobState::Phase::kWaiting;
}

void ScheduleProgress::note(int job, double epochs_left, double start_left_s) {
  states_[job].epochs_left = epochs_left;
  states_[job].start_left_s = start_left_s;
}

void ScheduleProgress::free(int job) {
  const auto place = std::ranges::find(running_, job);
  if (place != running_.end()) running_.erase(place);
  states_[job].placement.reset();
  states_[job].start_left_s = 0;
}

void ScheduleProgress::end(int job) {
  free(job);
  states_[job].phase = JobState::Phase::kEnded;
  states_[job].epochs_left = 0;
  targets_[job].reset();
}

void ScheduleProgress::stop(int job) {
  ATOLL_ASSERT(states_[job].phase == JobState::Phase::kRunning, "job {}", job);
  free(job);
  states_[job].phase = JobState::Phase::kWaiting;
}

void ScheduleProgress::set_lost(int host, bool is_lost) { hosts_[host].is_lost = is_lost; }

void ScheduleProgress::start(int job) {
  ATOLL_ASSERT(states_[job].phase == JobState::Phase::kWaiting && targets_[job], "job {}", job);
  states_[job].phase = JobState::Phase::kRunning;
  states_[job].placement = targets_[job];
  running_.insert(std::ranges::lower_bound(running_, job), job);
}

void ScheduleProgress::follow(JobTargets targets) {
  ATOLL_ASSERT(targets.size() == states_.size(), "{} targets of {} jobs", targets.size(),
               states_.size());
  FreeSlots free(hosts_);
  for (int job = 0; job < std::ssize(targets); ++job) {
    if (!targets[job]) continue;
    const JobState::Phase phase = states_[job].phase;
    ATOLL_ASSERT(phase == JobState::Phase::kWaiting || phase == JobState::Phase::kRunning, "job {}",
                 job);
    ATOLL_ASSERT(free.has_room(*targets[job]), "no room for job {}", job);
    free.take(*targets[job]);
  }
  targets_ = std::move(targets);
}

bool ScheduleProgress::must_stop(int job) const {
  return states_[job].placement && states_[job].placement != targets_[job];
}

std::vector<int> ScheduleProgress::can_start() const {
  std::vector<int> jobs;
  FreeSlots free = free_slots();
  for (int job = 0; job < std::ssize(targets_); ++job) {
    const bool waits = targets_[job] && states_[job].phase == JobState::Phase::kWaiting;
    if (!waits || !free.has_room(*targets_[job])) continue;
    free.take(*targets_[job]);
    jobs.push_back(job);
  }
  return jobs;
}

FreeSlots ScheduleProgress::free_slots() const {
  FreeSlots free(hosts_);
  for (const int job : running_) free.take(*states_[job].placement);
  return free;
}

}  // namespace atl
