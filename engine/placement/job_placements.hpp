// Which hosts a job gets: free slots, and the fastest placement that they allow.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/placement/job_schedule.hpp"

namespace atl {

// Slots that no job has been given yet; a lost host has none. The hosts must outlive it.
class FreeSlots {
 public:
  explicit FreeSlots(std::span<const ScheduledHost> hosts);
  // Those of a moment, with notice of jobs that run in them.
  explicit FreeSlots(const ScheduleMoment& moment);

  bool has_room(const JobPlacement& placement) const;
  void take(const JobPlacement& placement);
  // The same for a job that runs there already.
  void keep(const JobPlacement& placement) { change(placement, -placement.ranks_per_host); }
  void give_back(const JobPlacement& placement) { change(placement, placement.ranks_per_host); }
  int of(int host) const { return slots_[host]; }
  // Those of them in which no job runs that must stop first.
  int empty(int host) const { return empty_[host]; }
  int total() const { return total_; }
  std::span<const ScheduledHost> hosts() const { return hosts_; }

 private:
  void change(const JobPlacement& placement, int slots_of_each);

  std::span<const ScheduledHost> hosts_;
  std::vector<int> slots_;  // by host
  std::vector<int> empty_;  // may be negative
  int total_ = 0;
};

struct RankRange {
  int least = 1;
  int most = 1;
};

// Whether a job could start at once, or runs elsewhere still and leaves empty slots to others.
enum class StartsIn : std::uint8_t { kEmptySlots, kSlotsToCome };

// The placement of so many ranks, as many on each host, with the shortest epoch; of equal ones that
// with fewer ranks, then with fewer hosts. For each number of hosts and ranks per host it looks at
// the hosts of one kind with fewest free slots (best fit), and where kinds differ also at such
// hosts of all kinds and at those where the job is fastest alone. none: no room, or only where the
// job can't train.
std::optional<JobPlacement> fastest_placement(int job, RankRange ranks, const FreeSlots& free,
                                              JobSpeeds& speeds,
                                              StartsIn starts = StartsIn::kEmptySlots);
// The seconds of its shortest epoch by number of ranks, from 0 to `most`; kCantTrain where there is
// none.
std::vector<double> fastest_by_ranks(int job, int most, const FreeSlots& free, JobSpeeds& speeds);

}  // namespace atl
