// Which slots of its hosts a job of a schedule takes, for pictures and for orders of jobs: a
// schedule itself says only how many. And the names of its hosts, of which it has the numbers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/placement/job_schedule.hpp"

namespace atl {

struct SlotBar {
  std::size_t segment = 0;  // of the schedule
  int host = 0;
  int slot = 0;  // on that host
};

// A bar for each rank of each segment, by time: a job takes the lowest slots that are free, or,
// where what really was done overlaps, those that come to be free first.
std::vector<SlotBar> slot_bars(const JobSchedule& schedule,
                               const std::vector<ScheduledHost>& hosts);

std::vector<std::string> host_names(const JobPlacement& placement,
                                    std::span<const ScheduledHost> hosts);

// Times that differ by less are equal.
inline constexpr double kSameTime = 1e-6;

}  // namespace atl
