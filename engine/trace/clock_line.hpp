// The straight lines that run above one set of points and below another: how two clocks may differ,
// from what must have happened before what (the convex hull method of Duda et al., "Estimating
// global time in distributed systems", ICDCS 1987).
#pragma once

#include <optional>
#include <vector>

namespace atl {

struct ClockPoint {
  double x = 0;
  double y = 0;
};

// Slopes are drifts: microseconds per microsecond.
struct ClockLine {
  double least_slope = 0;  // of all lines that fit
  double most_slope = 0;
  double slope = 0;    // of the line with the most room
  double at_zero = 0;  // its value at x = 0
  double room = 0;     // vertical distance between the sets along it
};

// No line of a steeper slope than `steepest` is looked at. Sets may not be empty. `room` is
// negative if no line fits; the slopes are then those of the line that comes closest.
ClockLine fit_clock_line(const std::vector<ClockPoint>& above_these,
                         const std::vector<ClockPoint>& below_these, double steepest);

}  // namespace atl
