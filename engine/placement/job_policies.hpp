// The policies that need no search, and what they know of a moment.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/placement/job_placements.hpp"
#include "engine/placement/job_schedule.hpp"

namespace atl {

// From now until the job ends in a placement; where that is not the one in which it runs, with the
// rest of its epoch and a start.
double remaining_s(const ScheduleMoment& moment, JobSpeeds& speeds, int job,
                   const JobPlacement& placement);

// A moment as policies see it. `moment` and `speeds` must outlive it.
class JobOutlook {
 public:
  JobOutlook(const ScheduleMoment& moment, JobSpeeds& speeds);

  const ScheduleMoment& moment() const { return moment_; }
  JobSpeeds& speeds() { return speeds_; }
  const JobState& state(int job) const { return moment_.states[job]; }
  const SchedulableJob& job(int number) const { return moment_.jobs[number]; }
  // Jobs that wait or run and that some placement of the hosts can hold, by number.
  const std::vector<int>& active() const { return active_; }
  // The same, the shortest remaining time for their priority first.
  std::vector<int> by_remaining() const;
  RankRange ranks(int number) const {
    return {job(number).least_ranks, std::min(job(number).most_ranks, FreeSlots(hosts()).total())};
  }
  std::span<const ScheduledHost> hosts() const { return moment_.hosts; }

 private:
  const ScheduleMoment& moment_;
  JobSpeeds& speeds_;
  std::vector<int> active_;
  // By job: as if it had all hosts for itself from now on, without a start.
  std::vector<double> shortest_s_;
};

// A policy that can be told which running jobs stay as they are.
class RankPolicy : public JobPolicy {
 public:
  explicit RankPolicy(bool elastic) : elastic_(elastic) {}
  // Where elastic, running jobs are moved, stopped or given other ranks if the mean completion of
  // jobs that are there, simulated without further such changes, is less with it.
  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) final;
  // stays: by job, of those that run.
  virtual JobTargets propose(JobOutlook& outlook, const std::vector<char>& stays) = 0;

 private:
  bool elastic_;
};
// "fifo", "srpt" or "marginal"; null: another.
std::unique_ptr<RankPolicy> make_rank_policy(const std::string& name, bool elastic);
// The names, in the order of what they need to know.
std::vector<std::string> rank_policies();
// Markov chain Monte Carlo.
std::unique_ptr<JobPolicy> make_search_policy(const JobPolicyOptions& options);

// The states from which what follows a moment is simulated: jobs that have not arrived, unless they
// are known, and jobs that no host which is left can hold count as ended.
std::vector<JobState> states_ahead(JobOutlook& outlook, bool knows_arrivals);

}  // namespace atl
