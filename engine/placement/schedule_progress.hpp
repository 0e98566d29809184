// The state of a schedule: what is left of each job, where it runs, and where a policy wants
// it. It says which jobs must stop and which can start, and knows no clock: the same steps are
// taken by a schedule that is simulated and by one that is run.
#pragma once

#include <span>
#include <vector>

#include "engine/placement/job_placements.hpp"
#include "engine/placement/job_schedule.hpp"

namespace atl {

class ScheduleProgress {
 public:
  // states: by job; empty: none has arrived, and all of it is left.
  ScheduleProgress(std::span<const SchedulableJob> jobs, std::vector<ScheduledHost> hosts,
                   std::span<const JobState> states = {});

  const JobState& state(int job) const { return states_[job]; }
  std::span<const JobState> states() const { return states_; }
  std::span<const ScheduledHost> hosts() const { return hosts_; }
  const JobTargets& targets() const { return targets_; }
  // Jobs that run, by number.
  std::vector<int> running() const;
  // jobs: all of the schedule. Valid until anything changes.
  ScheduleMoment moment(std::span<const SchedulableJob> jobs, double now_s) const {
    return {now_s, jobs, states_, hosts_};
  }

  // Events. After an arrival, an end, a stop that no target asked for, and a change of
  // hosts, ask the policy and follow() what it says.
  int add(const SchedulableJob& job);  // one that the list did not have; returns its number
  void arrive(int job);
  void note(int job, double epochs_left, double start_left_s = 0);  // of one that runs
  void end(int job);
  void stop(int job);  // it is over before its epochs are: it waits
  // Jobs that run on a host that is lost are over: stop() them.
  void set_lost(int host, bool is_lost);
  void start(int job);  // one of can_start(), in its target

  // Takes the place of all targets before. They fit together, and name arrived jobs alone.
  void follow(JobTargets targets);
  // Whether it runs elsewhere than it should: it must end after the epoch that it is in.
  bool must_stop(int job) const;
  // Jobs that wait and whose slots are free, all of which can start at once.
  std::vector<int> can_start() const;

 private:
  // Slots of hosts without those of jobs that run.
  FreeSlots free_slots() const;
  void free(int job);

  std::vector<ScheduledHost> hosts_;
  std::vector<JobState> states_;
  JobTargets targets_;
  std::vector<int> running_;
};

}  // namespace atl
