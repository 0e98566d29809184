// Draws who has which row when, as inline SVG: a Gantt chart.
#pragma once

#include <string>
#include <vector>

namespace atl {

struct GanttBar {
  std::size_t row = 0;
  double from = 0;
  double to = 0;
  int color = 0;      // index into the page's palette
  std::string label;  // drawn where the bar is wide enough
  std::string tip;    // for whoever points at it
};

struct GanttRow {
  std::string group;  // drawn once beside the first of several rows with the same
  std::string name;
};

struct GanttChart {
  std::string title;
  std::string x_label;
  std::vector<GanttRow> rows;
  std::vector<GanttBar> bars;
  double end = 0;  // of the axis, which begins at 0; 0: the end of the last bar
};
// "" without bars.
std::string draw_gantt(const GanttChart& chart);

}  // namespace atl
