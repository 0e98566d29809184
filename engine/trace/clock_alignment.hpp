// How far apart the clocks of hosts are, from what must have happened before what: no packet
// arrives before it was posted, and no sum ends on one rank before all have begun it.
#pragma once

#include <string>
#include <vector>

#include "engine/trace/trace_file.hpp"

namespace atl {

// The number to add to times of one host to get times of rank 0's host. That it lies between
// `low_us` and `high_us` is certain (with a drift: if the drift is right), the middle between them
// is a choice.
struct HostClock {
  std::string name;
  std::vector<int> ranks;
  double low_us = 0;  // at pivot_us
  double high_us = 0;
  double pivot_us = 0;  // time of this host's clock in the middle of the trace
  double drift = 0;     // us per us by which the offset grows; 0 unless the trace needs it
  // Drifts that the messages exchanged with rank 0's host allow; NaN if there were none.
  double least_drift = 0;
  double most_drift = 0;

  double offset_us() const { return (low_us + high_us) / 2; }
  double common_us(double time_us) const {
    return time_us + offset_us() + drift * (time_us - pivot_us);
  }
};

struct ClockAlignment {
  std::vector<HostClock> hosts;  // rank 0's first, in the order of their first ranks
  std::vector<int> host_of;      // by rank
};

// The middle of the intervals satisfies all that is known at once. A drift, linear in time, is
// taken only where constant offsets contradict each other. Throws Error{kInput} if a drift does not
// resolve that (a clock was set during the run, or the file mixes runs), and for hosts between
// which nothing travelled.
ClockAlignment align_clocks(const Trace& trace, const std::vector<MatchedPacket>& packets,
                            const std::vector<MatchedReduction>& reductions);

}  // namespace atl
