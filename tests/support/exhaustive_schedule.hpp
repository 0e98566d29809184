// The best schedule of a few jobs, against which policies are measured.
#pragma once

#include "engine/placement/job_schedule.hpp"

namespace atl {

// The best of all schedules that decide when jobs arrive or end, and know all arrivals: slots may
// be left idle. Throws Error{kOption} for more than kMostExhaustiveJobs jobs; host events are not
// allowed.
inline constexpr int kMostExhaustiveJobs = 5;
JobSchedule exhaustive_schedule(const ScheduleSetting& setting, bool elastic = true);

}  // namespace atl
