// Puts the spans of all ranks on one clock, and writes them with an arrow for every packet.
#pragma once

#include <string>
#include <vector>

#include "engine/trace/clock_alignment.hpp"

namespace atl {

struct MergedTrace {
  Trace trace;  // times count from its first event, on the clock of rank 0's host
  std::vector<MatchedPacket> packets;
  std::vector<MatchedReduction> reductions;
  ClockAlignment clocks;
};

// Spans "packet" that begin before the sender has posted are clipped to begin then: until then
// there was nothing to receive (dPRO, arXiv 2205.02473, on aligning the times of traces). Throws
// Error{kInput} as match_packets, match_reductions and align_clocks do.
MergedTrace merge_trace(Trace trace);

// A Chrome trace (opens in Perfetto): one process per rank, named with its host, and an arrow from
// where the sender posted a packet to where the receiver has it.
std::string chrome_trace(const MergedTrace& merged);

// The hosts with the intervals of their offsets, as in that trace and in dataflow.json
// (docs/formats.md).
Json to_json(const ClockAlignment& clocks);

}  // namespace atl
