// The order of arrival as --arrival chooses it, for training and for whoever foretells it.
#pragma once

#include "partition/arrival.hpp"

namespace atl {

// The choice as a job has it, the same on all its ranks: kAuto becomes kOff where no rank
// would gain by it. on_cpus: all ranks are. alone: each rank holds a part alone. divides_packets:
// pieces of packets are seen to come (Transport::divides_packets()).
constexpr Arrival arrival_in_job(Arrival asked, bool on_cpus, bool alone, bool divides_packets) {
  // Devices get packets when they are whole; shares of marginal rows are in no groups.
  const bool gains = on_cpus && alone && divides_packets;
  return asked == Arrival::kAuto && !gains ? Arrival::kOff : asked;
}

// Whether marginal rows are in groups then. covers: messages are those of a cover, which lie in an
// order of need.
constexpr bool orders_rows(Arrival in_job, bool covers) {
  return in_job == Arrival::kOn || (in_job == Arrival::kAuto && covers);
}

}  // namespace atl
