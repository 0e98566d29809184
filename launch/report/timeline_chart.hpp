// Draws epochs as timelines: what each rank does, and the packets on their way to it.
#pragma once

#include <string>
#include <vector>

namespace atl {

struct TimelineSpan {
  std::string name;     // of the phase, as in a trace; "packet" travels beside the others
  double begin_ms = 0;  // since the epoch's begin
  double end_ms = 0;
  int source = -1;  // of a packet
};

struct TimelinePanel {
  std::string title;
  std::vector<std::vector<TimelineSpan>> ranks;
  double end_ms() const;
};

// An SVG file of its own, one panel below the other on one scale of time, with a legend of the
// kinds of work that occur. At least one span.
std::string draw_timelines(const std::vector<TimelinePanel>& panels);

}  // namespace atl
