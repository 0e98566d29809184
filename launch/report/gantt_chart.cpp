#include "launch/report/gantt_chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/report/svg_chart.hpp"
#include "launch/report/svg_parts.hpp"

namespace atl {
namespace {

constexpr double kGanttLeft = 110;  // room for names of groups and rows
constexpr double kGanttRight = 14;
constexpr double kGanttTop = 6;
constexpr double kGanttBottom = 42;
constexpr double kGanttRow = 18;
constexpr double kGroupGap = 6;       // above the first row of a group
constexpr double kLetterWidth = 7;    // of a label
constexpr std::size_t kMostName = 9;  // letters of a group's name beside the rows

class GanttDrawing {
 public:
  explicit GanttDrawing(const GanttChart& chart) : chart_(chart), end_(chart.end) {
    for (const GanttBar& bar : chart.bars) end_ = std::max(end_, bar.to);
    double y = kGanttTop;
    for (std::size_t r = 0; r < chart.rows.size(); ++r) {
      if (r > 0 && begins_group(r)) y += kGroupGap;
      tops_.push_back(y);
      y += kGanttRow;
    }
    bottom_ = y;
  }

  std::string svg() const {
    std::string svg = open_svg(chart_.title, bottom_ + kGanttBottom) + axis();
    for (std::size_t r = 0; r < chart_.rows.size(); ++r) svg += names_of(r);
    for (const GanttBar& bar : chart_.bars) svg += draw(bar);
    return svg + "</svg>\n";
  }

 private:
  double x_at(double value) const {
    return kGanttLeft + value / end_ * (kChartWidth - kGanttLeft - kGanttRight);
  }
  bool begins_group(std::size_t row) const {
    return row == 0 || chart_.rows[row].group != chart_.rows[row - 1].group;
  }

  std::string axis() const {
    std::string svg;
    for (const double tick : nice_ticks(0, end_, 6)) {
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>\n",
          x_at(tick), kGanttTop, bottom_);
      svg += text_at(x_at(tick), bottom_ + 16, "middle", format_number(tick));
    }
    return svg + text_at((kGanttLeft + kChartWidth - kGanttRight) / 2, bottom_ + kGanttBottom - 6,
                         "middle", chart_.x_label);
  }

  std::string names_of(std::size_t row) const {
    const double line = tops_[row] + kGanttRow - 5;
    std::string svg = text_at(kGanttLeft - 8, line, "end", chart_.rows[row].name);
    if (begins_group(row)) svg += text_at(0, line, "start", short_name(chart_.rows[row].group));
    return svg;
  }

  static std::string short_name(const std::string& name) {
    return name.size() <= kMostName ? name : name.substr(0, kMostName - 2) + "..";
  }

  std::string draw(const GanttBar& bar) const {
    const double x = x_at(bar.from);
    const double width = x_at(bar.to) - x;
    const double y = tops_[bar.row];
    std::string svg = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
        "style=\"fill:{};opacity:{}\"><title>{}</title></rect>\n",
        x, y + 1, width, kGanttRow - 2, color(bar.color),
        opacity(static_cast<std::size_t>(bar.color)), escape_html(bar.tip));
    if (width < kLetterWidth * static_cast<double>(bar.label.size()) + 4) return svg;
    return svg + fmt::format(
                     "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                     "style=\"fill:var(--page);pointer-events:none\">{}</text>\n",
                     x + width / 2, y + kGanttRow - 5, escape_html(bar.label));
  }

  const GanttChart& chart_;
  double end_;
  double bottom_ = 0;
  std::vector<double> tops_;  // by row
};

}  // namespace

std::string draw_gantt(const GanttChart& chart) {
  const bool any =
      std::ranges::any_of(chart.bars, [](const GanttBar& bar) { return bar.to > bar.from; });
  return any ? figure(chart.title, GanttDrawing(chart).svg()) : "";
}

}  // namespace atl
