// The page of a schedule: who trains where, and when.
#pragma once

#include <string>

#include "launch/schedule/schedule_file.hpp"

namespace atl {

// The plan and, if it was run, that which was done, on one scale of time: a row for each slot of
// each host and a bar for each stretch of a job. Below them a table of the jobs. name: of the
// schedule's folder.
std::string make_schedule_report(const ScheduleFile& file, const std::string& name);

}  // namespace atl
