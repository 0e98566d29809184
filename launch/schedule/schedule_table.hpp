// A schedule as text: a line for each job, how good it is, and policies side by side.
#pragma once

#include <string>
#include <vector>

#include "launch/schedule/schedule_file.hpp"

namespace atl {

// Arrival, ranks over time, start, end and completion of each job, in the order of the list.
std::string jobs_table(const ScheduleFile& file);
// Mean completion against first-come and the bound, and when the last job ends.
std::string schedule_summary(const ScheduleFile& file);
// A line for each of them; of the same jobs on the same hosts.
std::string policies_table(const std::vector<ScheduleFile>& files);

// "2 x 4": hosts, and ranks on each.
std::string shape_text(const JobPlacement& placement);

}  // namespace atl
