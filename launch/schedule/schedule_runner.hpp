// Runs a schedule for real: asks its policy whenever a job arrives or ends, a host is lost or back,
// or somebody wishes something, and moves jobs under `atoll launch` to where it wants them
// (docs/schedule.md). Started again after it was killed, it goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "launch/jobs/job_list.hpp"
#include "launch/schedule/job_launch.hpp"
#include "launch/schedule/schedule_file.hpp"

namespace atl {

struct KnownJobs {
  std::vector<SchedulableJob> jobs;
  std::shared_ptr<JobSpeeds> speeds;
};

struct ScheduleRunSetting {
  // As it was decided and simulated, with the hosts by the names that `atoll launch` knows. Jobs
  // are those of `jobs`, or where the schedule goes on those that are left (jobs_to_plan()).
  ScheduleFile plan;
  std::vector<ListedJob> jobs;
  JobPolicyOptions policy;
  LaunchSetting launch;  // with the folder of the schedule
  // All that policies must know of these jobs, with arrivals as they stand there. Throws Error for
  // jobs that can't be scheduled.
  std::function<KnownJobs(std::span<const ListedJob>)> know;
};

// Until no job is left, or a signal asks it to end; returns the exit code of the program. Throws
// Error{kOption} if somebody is at work in the folder, or what was run there is another schedule.
int run_schedule(const ScheduleRunSetting& setting);

}  // namespace atl
