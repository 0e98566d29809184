// schedule.json: what was decided, simulated and, where it was run, done (docs/formats.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/placement/job_schedule.hpp"

namespace atl {

struct ScheduleFile {
  std::string list;      // the file of jobs
  std::string topology;  // the file of the cluster
  std::string policy;
  bool elastic = true;
  std::vector<SchedulableJob> jobs;
  std::vector<std::string> folders;  // by job: its run folder below that of the schedule
  std::vector<ScheduledHost> hosts;
  JobSchedule schedule;
  double first_come_mean_s = 0;  // of fifo, simulated
  double bound_s = 0;
  // As it was run, so far; none: it was not. What has not ended yet is infinite.
  std::optional<JobSchedule> done = std::nullopt;
};
Json to_json(const ScheduleFile& file);
// Throws Error{kInput} naming the file, the field, the value found and those allowed.
ScheduleFile read_schedule(const std::filesystem::path& path);
// One row per host and slot, one bar per segment, in the colour of its job; opens in Perfetto.
Json schedule_trace(const ScheduleFile& file);

}  // namespace atl
