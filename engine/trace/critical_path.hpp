// The parts of an epoch's time: the chain of spans, packets and meetings from its end back to its
// begin in which each waited for the one before.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/trace/dataflow.hpp"

namespace atl {

// A stretch of time that the path spends at one place.
struct PathStep {
  std::string name;       // of the span; kBetweenSpans: time of a rank that no span covers
  std::string direction;  // "forward", "backward" or ""
  int rank = 0;           // of packets and sends: the sender
  int destination = -1;   // of packets and sends: the receiver
  int layer = -1;
  double begin_us = 0;
  double end_us = 0;
};
constexpr const char* kBetweenSpans = "(between spans)";

struct CriticalPath {
  std::vector<PathStep> steps;  // without gaps, in the order of time

  double duration_us() const;
  // The time of its steps by their names, and by their places: "rank 0", "rank 0 -> 1".
  std::map<std::string, double> us_by_name() const;
  std::map<std::string, double> us_by_place() const;
};

// From the end of the rank that ended last. A wait is left for what it waited for: the packet (or
// the send) that ended last, and from there the later of the two ranks to post it; a sum is left
// for the rank that began it last. What else the spans took is their own time. Throws Error{kInput}
// for a graph that goes in circles.
CriticalPath critical_path(const DataflowGraph& graph);

// The path with both sums, as in dataflow.json (docs/formats.md): times since the epoch's begin.
Json to_json(const CriticalPath& path, const DataflowGraph& graph);

}  // namespace atl
