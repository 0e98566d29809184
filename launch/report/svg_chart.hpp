// Draws line charts and stacked bars as inline SVG; colours come from the page's style sheet.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace atl {

// Text safe inside HTML and XML elements and attributes; what is no valid character there, and what
// reorders text, is escaped as printable() does.
std::string escape_html(const std::string& text);

// "1,234.5", "0.0123", "1.2e-07": four significant digits at most.
std::string format_number(double value);

// Tick positions inside [low, high] at 1, 2 or 5 times a power of ten, about `count` of them.
// low <= high, both finite.
std::vector<double> nice_ticks(double low, double high, int count);

struct ChartSeries {
  std::string name;
  int color = 0;                                  // index into the page's palette
  std::vector<std::pair<double, double>> points;  // x ascending; y finite
};

// A vertical line at x, with a text for whoever points at it.
struct ChartMark {
  double x = 0;
  std::string text;
  int color = 0;
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool percent = false;    // y is a fraction, shown in percent
  bool from_zero = false;  // the y axis starts at 0
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks = {};  // those beyond the points are left out
};
// "" if no series has a point. At most a thousand points of a series are drawn. Values of a run
// that has diverged do not stretch the axis: they are drawn at its end, and named below the chart.
// The svg carries the values as `data-chart` (chart_script.hpp).
std::string draw_lines(const LineChart& chart);

struct StackedBar {
  std::string name;
  std::vector<double> parts;  // one per name in StackedBars::parts; 0 = none
};

struct StackedBars {
  std::string title;
  std::string x_label;
  std::vector<std::string> parts;
  std::vector<StackedBar> bars;
};
// Horizontal bars with a legend of the parts; "" without bars or parts.
std::string draw_bars(const StackedBars& chart);

// Holds from x = `from` to the next step of its panel, the last one to StackedAreas::end.
struct StackedStep {
  double from;
  std::vector<double> parts;  // shares in 0 .. 1, one per name in StackedAreas::parts
};

struct StackedPanel {
  std::string name;
  std::vector<StackedStep> steps;  // from ascending
};

struct StackedAreas {
  std::string title;
  std::string x_label;
  std::vector<std::string> parts;  // in the order of a scale: drawn bottom to top, from --w0 on
  double end = 0;                  // behind the last step of every panel
  std::vector<StackedPanel> panels;
};
// Stacked shares over time, one panel large, several side by side, with a legend of the parts that
// occur; "" if no panel has a step. At most a thousand steps of a panel are drawn.
std::string draw_areas(const StackedAreas& chart);

}  // namespace atl
