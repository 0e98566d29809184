// Reads RUN/trace.json, which `atoll train --trace` writes, back into the spans of each rank.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/trace.hpp"

namespace atl {

struct TraceEvent {
  std::string name;
  std::string what;       // of several things with this name, or ""
  std::string direction;  // "forward", "backward" or ""
  double begin_us = 0;    // on the steady clock of the rank's host
  double end_us = 0;
  std::int64_t bytes = 0;
  TraceTag tag;
  int lane = kHostLane;

  double duration_us() const { return end_us - begin_us; }
  bool is_packet() const { return lane >= kFirstPeerLane && name == "packet"; }
  bool is_send() const { return lane >= kFirstPeerLane && name == "send"; }
  // Sums of nothing meet nobody.
  bool is_reduction() const { return lane < kEpochLane && name == "all-reduce" && bytes > 0; }
};

struct RankTrace {
  std::string host;
  std::string host_key;            // equal on two ranks if and only if they share a clock
  std::vector<TraceEvent> events;  // by begin
};

struct Trace {
  std::string place;  // its file, for errors
  std::vector<RankTrace> ranks;

  const TraceEvent& event(int rank, int index) const {
    return ranks[static_cast<std::size_t>(rank)].events[static_cast<std::size_t>(index)];
  }
  TraceEvent& event(int rank, int index) {
    return ranks[static_cast<std::size_t>(rank)].events[static_cast<std::size_t>(index)];
  }
};

// Throws Error{kInput} naming the file, the number of the event (from 0), the field, the value
// found and those allowed.
Trace read_trace(const std::filesystem::path& path);
Trace parse_trace(const Json& json, const std::string& place);

// A packet as its sender and its receiver have seen it.
struct MatchedPacket {
  int source = 0;
  int destination = 0;
  int send = 0;    // its span "send": index into ranks[source].events
  int packet = 0;  // its span "packet": index into ranks[destination].events
  // When the receiver had posted it, on the common clock; filled by merge_trace, which clips spans.
  double awaited_us = 0;
};
// Every packet of the trace. Throws Error{kInput} naming one of which an end is missing.
std::vector<MatchedPacket> match_packets(const Trace& trace);

// One sum over all ranks: entry r is its span on rank r.
using MatchedReduction = std::vector<int>;
// Every sum of the trace; throws Error{kInput} naming one that a rank has no span of. A
// world of one has none.
std::vector<MatchedReduction> match_reductions(const Trace& trace);

}  // namespace atl
