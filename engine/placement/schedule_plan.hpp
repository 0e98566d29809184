// A schedule as search decides it: an order of jobs with a few words about each, from which its
// placements follow whenever a job arrives or ends.
#pragma once

#include <vector>

#include "engine/placement/job_policies.hpp"

namespace atl {

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

// Follows a plan of all jobs that have arrived, or will.
class PlannedPolicy final : public JobPolicy {
 public:
  PlannedPolicy(SchedulePlan plan, bool elastic) : plan_(std::move(plan)), elastic_(elastic) {}
  JobTargets decide(const ScheduleMoment& moment, JobSpeeds& speeds) override;
  const SchedulePlan& plan() const { return plan_; }

 private:
  SchedulePlan plan_;
  bool elastic_;
};

}  // namespace atl
