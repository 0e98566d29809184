#include "launch/report/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/json.hpp"
#include "base/text.hpp"
#include "launch/report/svg_parts.hpp"

namespace atl {
namespace {

constexpr double kHeight = 280;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 14;
constexpr double kBottom = 42;
constexpr double kBarRow = 30;     // height of one bar's row
constexpr double kBarNames = 130;  // room for names on the left
constexpr double kBarTotals = 64;  // and for totals on the right
constexpr std::size_t kMostPoints = 1000;
constexpr std::size_t kPanelColumns = 3;
constexpr double kPanelHeight = 130;  // of one row of panels, with name and ticks
constexpr double kPanelGap = 12;

// A linear axis: value interval onto pixel interval.
struct Axis {
  double low, high, first_pixel, last_pixel;
  double at(double value) const {
    return first_pixel + (value - low) / (high - low) * (last_pixel - first_pixel);
  }
};

// Series beyond the palette repeat its colours with dashes.
std::string dashes(int index) {
  return index < kPaletteColors
             ? ""
             : fmt::format(" stroke-dasharray=\"{} 3\"", 2 + 3 * (index / kPaletteColors));
}

std::string value_text(const LineChart& chart, double value) {
  return chart.percent ? format_number(value * 100) + "%" : format_number(value);
}

std::string draw_axes(const LineChart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : nice_ticks(y.low, y.high, 5)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       x.first_pixel, x.last_pixel, y.at(tick), y.at(tick));
    svg += text_at(x.first_pixel - 8, y.at(tick) + 4, "end", value_text(chart, tick));
  }
  for (const double tick : nice_ticks(x.low, x.high, 6)) {
    if (tick != std::floor(tick)) continue;  // epochs are whole
    svg += fmt::format("<line class=\"tick\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>\n",
                       x.at(tick), x.at(tick), y.first_pixel, y.first_pixel + 5);
    svg += text_at(x.at(tick), y.first_pixel + 19, "middle", format_number(tick));
  }
  svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
                     x.first_pixel, x.last_pixel, y.first_pixel, y.first_pixel);
  svg += text_at((x.first_pixel + x.last_pixel) / 2, kHeight - 4, "middle", chart.x_label);
  const double middle = (y.first_pixel + y.last_pixel) / 2;
  svg += fmt::format(
      "<text transform=\"translate(13 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      middle, escape_html(chart.y_label));
  return svg;
}

std::vector<std::pair<double, double>> drawn_points(const ChartSeries& series) {
  std::vector<std::pair<double, double>> drawn;
  const std::size_t count = series.points.size();
  const std::size_t stride = (count + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < count; i += stride) drawn.push_back(series.points[i]);
  if (count > 1 && (count - 1) % stride != 0) drawn.push_back(series.points.back());
  return drawn;
}

// Data for chart_script.hpp.
std::string chart_data(const LineChart& chart, const Axis& x) {
  Json data = {{"label", chart.x_label}, {"width", kChartWidth}, {"left", x.first_pixel},
               {"right", x.last_pixel},  {"low", x.low},         {"high", x.high},
               {"series", Json::array()}};
  for (const ChartSeries& series : chart.series) {
    Json points = Json::array();
    for (const auto& [epoch, value] : drawn_points(series)) {
      points.push_back(Json::array({epoch, value_text(chart, value)}));
    }
    data["series"].push_back(
        {{"name", printable(series.name)}, {"color", color(series.color)}, {"points", points}});
  }
  return fmt::format(" data-chart=\"{}\"", escape_html(data.dump()));
}

std::string draw_series(const ChartSeries& series, const Axis& x, const Axis& y) {
  if (series.points.empty()) return "";
  const std::string tip = fmt::format("<title>{}: last {}</title>", escape_html(series.name),
                                      format_number(series.points.back().second));
  if (series.points.size() == 1) {
    const auto& [px, py] = series.points.front();
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" style=\"fill:{}\">{}</circle>\n", x.at(px),
        y.at(std::clamp(py, y.low, y.high)), color(series.color), tip);
  }
  std::string path;
  for (const auto& [epoch, value] : drawn_points(series)) {
    path += fmt::format("{:.1f},{:.1f} ", x.at(epoch), y.at(std::clamp(value, y.low, y.high)));
  }
  path.pop_back();
  return fmt::format("<polyline points=\"{}\" style=\"stroke:{}\"{}>{}</polyline>\n", path,
                     color(series.color), dashes(series.color), tip);
}

std::string draw_mark(const ChartMark& mark, const Axis& x, const Axis& y) {
  if (mark.x < x.low || mark.x > x.high) return "";
  return fmt::format(
      "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" "
      "style=\"stroke:{3}\"><title>{4}</title></line>\n",
      x.at(mark.x), y.first_pixel, y.last_pixel, color(mark.color), escape_html(mark.text));
}

struct Bounds {
  double x_low, x_high, y_low, y_high;
};

// Values that the y axis shows: all but those of runs that have diverged. A value has, if it is
// further from the middle half of all values than kDiverged times what that half spans, or than
// kDiverged tenths of their median. So a curve that falls from 100 to 1 is shown whole.
struct UsualValues {
  double low, high;
  bool has(double value) const { return value >= low && value <= high; }
};

UsualValues usual_values(const LineChart& chart) {
  constexpr double kDiverged = 1000;
  std::vector<double> values;
  for (const ChartSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) values.push_back(y);
  }
  if (values.empty()) return {0, 0};
  std::ranges::sort(values);
  const auto quantile = [&](std::size_t quarter) {
    return values[(values.size() - 1) * quarter / 4];
  };
  const double span = kDiverged * std::max(quantile(3) - quantile(1), 0.1 * std::abs(quantile(2)));
  if (span == 0) return {values.front(), values.back()};
  return {quantile(1) - span, quantile(3) + span};
}

// Says which series leave the axis.
std::string draw_cuts(const LineChart& chart, const UsualValues& usual) {
  std::string cuts;
  for (const ChartSeries& series : chart.series) {
    const auto is_cut = [&](const std::pair<double, double>& point) {
      return !usual.has(point.second);
    };
    const auto first = std::ranges::find_if(series.points, is_cut);
    if (first == series.points.end()) continue;
    const auto furthest = std::ranges::max_element(
        series.points, {}, [](const auto& point) { return std::abs(point.second); });
    cuts += fmt::format("{}{} from {} {} on (as far as {})", cuts.empty() ? "" : "; ",
                        escape_html(series.name), escape_html(chart.x_label),
                        format_number(first->first), value_text(chart, furthest->second));
  }
  if (cuts.empty()) return "";
  return fmt::format("<p class=\"quiet\">Beyond the axis: {}.</p>\n", cuts);
}

// The intervals the axes show, y with a margin; empty if there is nothing to draw.
std::optional<Bounds> bounds_of(const LineChart& chart, const UsualValues& usual) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Bounds bounds{kInfinity, -kInfinity, kInfinity, -kInfinity};
  for (const ChartSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      bounds.x_low = std::min(bounds.x_low, x);
      bounds.x_high = std::max(bounds.x_high, x);
      if (!usual.has(y)) continue;
      bounds.y_low = std::min(bounds.y_low, y);
      bounds.y_high = std::max(bounds.y_high, y);
    }
  }
  if (bounds.x_low > bounds.x_high) return std::nullopt;
  if (chart.from_zero) bounds.y_low = std::min(bounds.y_low, 0.0);
  const double margin = bounds.y_high > bounds.y_low
                            ? 0.05 * (bounds.y_high - bounds.y_low)
                            : std::max(1e-3, 0.05 * std::abs(bounds.y_high));
  bounds.y_high += margin;
  if (!chart.from_zero) bounds.y_low -= margin;
  if (bounds.x_high == bounds.x_low) {
    bounds.x_low -= 1;
    bounds.x_high += 1;
  }
  return bounds;
}

// At most `most` bytes: the end of a long name, cut between characters.
std::string shorten(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t begin = name.size() - most;
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0U) == 0x80U) ++begin;
  return "…" + name.substr(begin);
}

// One bar with its name to the left and its total to the right; `top` is the upper edge of its row.
std::string draw_bar(const StackedBar& bar, const std::vector<std::string>& parts, const Axis& x,
                     double top) {
  const double text_line = top + 19;
  std::string svg = text_at(x.first_pixel - 8, text_line, "end", shorten(bar.name, 18));
  double sum = 0;
  for (std::size_t part = 0; part < bar.parts.size(); ++part) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
        "style=\"fill:{};opacity:{}\">"
        "<title>{}: {} {}</title></rect>\n",
        x.at(sum), top + 5, x.at(bar.parts[part]) - x.at(0), kBarRow - 10,
        color(static_cast<int>(part)), opacity(part), escape_html(bar.name),
        escape_html(parts[part]), format_number(bar.parts[part]));
    sum += bar.parts[part];
  }
  return svg + text_at(x.at(sum) + 6, text_line, "start", format_number(sum));
}

std::string legend_of(const std::vector<std::string>& parts) {
  std::string legend = "<p class=\"legend\">";
  for (std::size_t part = 0; part < parts.size(); ++part) {
    legend += fmt::format("<span><i style=\"background:{};opacity:{}\"></i>{}</span>",
                          color(static_cast<int>(part)), opacity(part), escape_html(parts[part]));
  }
  return legend + "</p>\n";
}

// The outline of one part: along its upper edge to the end, and back along its lower edge.
std::string outline(const std::vector<StackedStep>& steps, std::size_t part, const Axis& x,
                    const Axis& y) {
  const auto edge = [&](const StackedStep& step, std::size_t parts) {
    return y.at(std::accumulate(step.parts.begin(),
                                step.parts.begin() + static_cast<std::ptrdiff_t>(parts), 0.0));
  };
  std::string path = fmt::format("M{:.1f} {:.1f}", x.at(steps[0].from), edge(steps[0], part + 1));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    path += fmt::format("H{:.1f}V{:.1f}", x.at(steps[i].from), edge(steps[i], part + 1));
  }
  path += fmt::format("H{:.1f}V{:.1f}", x.last_pixel, edge(steps.back(), part));
  for (std::size_t i = steps.size() - 1; i > 0; --i) {
    path += fmt::format("H{:.1f}V{:.1f}", x.at(steps[i].from), edge(steps[i - 1], part));
  }
  return path + fmt::format("H{:.1f}Z", x.at(steps[0].from));
}

bool occurs(const StackedPanel& panel, std::size_t part) {
  return std::any_of(panel.steps.begin(), panel.steps.end(),
                     [&](const StackedStep& step) { return step.parts[part] > 0; });
}

std::string legend_of(const StackedAreas& chart) {
  std::string legend = "<p class=\"legend\">";
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    if (std::any_of(chart.panels.begin(), chart.panels.end(),
                    [&](const StackedPanel& panel) { return occurs(panel, part); })) {
      legend += fmt::format("<span><i style=\"background:var(--w{})\"></i>{}</span>", part,
                            escape_html(chart.parts[part]));
    }
  }
  return legend + "</p>\n";
}

std::string draw_panel(const StackedAreas& chart, const StackedPanel& panel, const Axis& x,
                       const Axis& y) {
  std::vector<StackedStep> steps;
  const std::size_t stride = (panel.steps.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < panel.steps.size(); i += stride) steps.push_back(panel.steps[i]);
  std::string svg;
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    if (!occurs(panel, part)) continue;
    svg += fmt::format(
        "<path d=\"{}\" style=\"fill:var(--w{})\"><title>{} {}: {:.1f}% at the "
        "end</title></path>\n",
        outline(steps, part, x, y), part, escape_html(panel.name), escape_html(chart.parts[part]),
        100 * panel.steps.back().parts[part]);
  }
  const int ticks = chart.panels.size() > 1 ? 3 : 6;
  for (const double tick : nice_ticks(x.low, x.high, ticks)) {
    if (tick != std::floor(tick)) continue;  // epochs are whole
    svg += text_at(x.at(tick), y.first_pixel + 15, "middle", format_number(tick));
  }
  return svg + text_at((x.first_pixel + x.last_pixel) / 2, y.last_pixel - 5, "middle", panel.name);
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char letter : printable(text)) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return fmt::format("{:.3g}", value);
  // Digits after the point that leave four significant ones, trailing zeros removed.
  const int magnitude = size == 0 ? 0 : static_cast<int>(std::floor(std::log10(size)));
  std::string text = fmt::format("{:.{}f}", value, std::clamp(3 - magnitude, 0, 8));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  const std::size_t first_digit = text.front() == '-' ? 1 : 0;
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > first_digit + 3; i -= 3) text.insert(i - 3, 1, ',');
  return text == "-0" ? "0" : text;
}

std::vector<double> nice_ticks(double low, double high, int count) {
  if (high <= low) return {low};
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double tolerance = step * 1e-6;
  // Multiples rather than repeated sums, whose rounding errors would show; + 0.0 turns -0 into 0.
  for (double k = std::ceil((low - tolerance) / step) + 0.0; k * step <= high + tolerance; ++k) {
    ticks.push_back(k * step);
  }
  return ticks;
}

std::string draw_lines(const LineChart& chart) {
  const UsualValues usual = usual_values(chart);
  const std::optional<Bounds> found = bounds_of(chart, usual);
  if (!found) return "";
  const Axis x{found->x_low, found->x_high, kLeft, kChartWidth - kRight};
  const Axis y{found->y_low, found->y_high, kHeight - kBottom, kTop};
  std::string svg = open_svg(chart.title, kHeight, chart_data(chart, x)) + draw_axes(chart, x, y);
  for (const ChartMark& mark : chart.marks) svg += draw_mark(mark, x, y);
  for (const ChartSeries& series : chart.series) svg += draw_series(series, x, y);
  return figure(chart.title, svg + "</svg>\n" + draw_cuts(chart, usual));
}

std::string draw_bars(const StackedBars& chart) {
  double longest = 0;
  for (const StackedBar& bar : chart.bars) {
    longest = std::max(longest, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  }
  if (longest <= 0) return "";
  const double bottom = kTop + kBarRow * static_cast<double>(chart.bars.size());
  const Axis x{0, longest, kBarNames, kChartWidth - kBarTotals};
  std::string svg = open_svg(chart.title, bottom + kBottom);
  for (const double tick : nice_ticks(0, longest, 5)) {
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>\n",
                       x.at(tick), x.at(tick), kTop, bottom);
    svg += text_at(x.at(tick), bottom + 16, "middle", format_number(tick));
  }
  svg += text_at((x.first_pixel + x.last_pixel) / 2, bottom + kBottom - 6, "middle", chart.x_label);
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    svg += draw_bar(chart.bars[i], chart.parts, x, kTop + kBarRow * static_cast<double>(i));
  }
  return figure(chart.title, svg + "</svg>\n" + legend_of(chart.parts));
}

std::string draw_areas(const StackedAreas& chart) {
  double begin = chart.end;
  for (const StackedPanel& panel : chart.panels) {
    if (!panel.steps.empty()) begin = std::min(begin, panel.steps.front().from);
  }
  if (begin >= chart.end) return "";
  const std::size_t count = chart.panels.size();
  const std::size_t columns = std::min(count, kPanelColumns);
  const std::size_t rows = (count + columns - 1) / columns;
  const double row_height = count > 1 ? kPanelHeight : kHeight - kBottom;
  const double width = (kChartWidth - kLeft - kRight + kPanelGap) / static_cast<double>(columns);
  const double height = row_height * static_cast<double>(rows) + 20;
  std::string svg = open_svg(chart.title, height);
  for (std::size_t i = 0; i < count; ++i) {
    const double left = kLeft + width * static_cast<double>(i % columns);
    const double top = row_height * static_cast<double>(i / columns);
    const Axis x{begin, chart.end, left, left + width - kPanelGap};
    const Axis y{0, 1, top + row_height - 20, top + 20};
    svg += draw_panel(chart, chart.panels[i], x, y);
    if (i % columns != 0) continue;
    for (const double tick : {0.0, 0.5, 1.0}) {
      svg += text_at(left - 8, y.at(tick) + 4, "end", format_number(tick * 100) + "%");
    }
  }
  svg += text_at((kLeft + kChartWidth - kRight) / 2, height - 6, "middle", chart.x_label);
  return figure(chart.title, svg + "</svg>\n" + legend_of(chart));
}

}  // namespace atl
