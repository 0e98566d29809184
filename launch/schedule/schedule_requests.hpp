// Wishes of users for a schedule that is run for real: small files in OUT/.schedule/requests, which
// the scheduler takes within a second, or the next one that is started there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/jobs/job_list.hpp"

namespace atl {

struct ScheduleRequest {
  std::string id;               // the name of its file
  std::vector<ListedJob> jobs;  // to add, arriving so long after it is taken
  std::string cancelled;        // or the folder of a job to cancel, below OUT
};

// Returns the id. Of two, the later one has the greater id.
std::string leave_request(const std::filesystem::path& out, const ScheduleRequest& request);
// Those that wait, in order. A file that is none is moved out of the way, with a warning.
std::vector<ScheduleRequest> waiting_requests(const std::filesystem::path& out);
bool is_waiting(const std::filesystem::path& out, const std::string& id);
void drop_request(const std::filesystem::path& out, const std::string& id);

// OUT/.lock, which whoever runs jobs in OUT holds, `atoll jobs` too.
std::filesystem::path list_lock_file(const std::filesystem::path& out);
// Whether some process does.
bool is_at_work(const std::filesystem::path& out);

}  // namespace atl
