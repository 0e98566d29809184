// How far a schedule is that is run for real, or was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

struct JobStatus {
  std::string title;
  std::string folder;  // below that of the schedule
  std::string state;   // "to come", "waiting", "running", "ending", "done", "failed", "cancelled"
  std::vector<std::string> hosts;  // while it runs
  int ranks = 0;
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  std::optional<double> ends_s =
      std::nullopt;         // expected, on the schedule's clock; or when it ended
  std::string reason = {};  // for a failure
};

struct ScheduleStatus {
  bool is_at_work = false;  // somebody runs it
  double now_s = 0;
  std::vector<JobStatus> jobs;
  std::vector<std::string> lost_hosts;
  std::size_t requests = 0;  // that wait
};

// Throws as read_story() does.
ScheduleStatus schedule_status(const std::filesystem::path& out);
// A table and what else there is to say.
std::string status_text(const ScheduleStatus& status);
Json to_json(const ScheduleStatus& status);

}  // namespace atl
