#include "launch/schedule/schedule_slots.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace atl {

namespace {

// Until when the slots of a host are taken.
using BusySlots = std::vector<double>;

// The first slot that is free at `from_s`, or the one that is free next.
std::size_t next_slot(const BusySlots& busy, double from_s) {
  for (std::size_t slot = 0; slot < busy.size(); ++slot) {
    if (busy[slot] <= from_s + kSameTime) return slot;
  }
  return static_cast<std::size_t>(std::ranges::min_element(busy) - busy.begin());
}

}  // namespace

std::vector<SlotBar> slot_bars(const JobSchedule& schedule,
                               const std::vector<ScheduledHost>& hosts) {
  std::vector<BusySlots> busy;
  for (const ScheduledHost& host : hosts) {
    busy.emplace_back(static_cast<std::size_t>(host.slots), -std::numeric_limits<double>::max());
  }
  std::vector<std::size_t> order(schedule.segments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t s) { return schedule.segments[s].from_s; });
  std::vector<SlotBar> bars;
  for (const std::size_t s : order) {
    const JobSegment& segment = schedule.segments[s];
    for (const int host : segment.placement.hosts) {
      BusySlots& slots = busy[static_cast<std::size_t>(host)];
      for (int rank = 0; rank < segment.placement.ranks_per_host; ++rank) {
        const std::size_t slot = next_slot(slots, segment.from_s);
        slots[slot] = segment.to_s;
        bars.push_back({s, host, static_cast<int>(slot)});
      }
    }
  }
  return bars;
}

std::vector<std::string> host_names(const JobPlacement& placement,
                                    std::span<const ScheduledHost> hosts) {
  std::vector<std::string> names;
  for (const int host : placement.hosts) {
    names.push_back(hosts[static_cast<std::size_t>(host)].name);
  }
  return names;
}

}  // namespace atl
