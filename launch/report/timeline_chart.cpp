#include "launch/report/timeline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "launch/report/svg_chart.hpp"

namespace atl {

namespace {

constexpr double kTimelineWidth = 960;
constexpr double kTimelineLeft = 60;  // room for names of ranks
constexpr double kTimelineRight = 12;
constexpr double kTitle = 24;
constexpr double kWork = 18;   // height of what a rank does
constexpr double kPacket = 3;  // of the packets of one source below it
constexpr double kRowGap = 6;
constexpr double kTicks = 26;
constexpr double kLegend = 22;
constexpr double kLegendColumn = 150;
constexpr double kLeastWidth = 0.3;  // pixels; less is not seen

// Spans that are drawn alike.
struct Kind {
  const char* name;
  const char* color;
  std::vector<const char*> spans;
};

const std::array<Kind, 8>& kinds() {
  static const std::array<Kind, 8> all = {{
      {"multiply",
       "#2f7d4f",
       {"prepare marginal", "prepare central", "complete central", "complete marginal"}},
      {"aggregate", "#2b5fa8", {"spmm central", "spmm marginal"}},
      {"recompute", "#8cc152", {"recompute"}},
      {"pack, post, unpack", "#c77700", {"pack", "post", "unpack"}},
      {"norm", "#8a5ba8", {"norm statistics", "norm apply"}},
      {"sum over ranks", "#b03030", {"all-reduce"}},
      {"wait", "#dddddd", {"wait"}},
      {"packets, by source", "#1a9c9c", {"packet"}},
  }};
  return all;
}
constexpr Kind kOther = {"other", "#777777", {}};

const Kind& kind_of(const std::string& span) {
  for (const Kind& kind : kinds()) {
    if (std::ranges::find(kind.spans, span) != kind.spans.end()) return kind;
  }
  static const Kind other = {kOther.name, kOther.color, {}};
  return other;
}

class TimelineDrawing {
 public:
  explicit TimelineDrawing(const std::vector<TimelinePanel>& panels) {
    double end = 0;
    for (const TimelinePanel& panel : panels) end = std::max(end, panel.end_ms());
    pixels_per_ms_ = (kTimelineWidth - kTimelineLeft - kTimelineRight) / end;
    for (const TimelinePanel& panel : panels) draw(panel);
    draw_ticks(end);
    draw_legend();
  }

  std::string svg() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        kTimelineWidth, y_, body_);
  }

 private:
  double x_at(double ms) const { return kTimelineLeft + ms * pixels_per_ms_; }

  void text(double x, double y, const char* anchor, const std::string& words) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                         anchor, escape_html(words));
  }

  void box(double x, double y, double width, double height, const char* color) {
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
        width, height, color);
  }

  void draw(const TimelinePanel& panel) {
    text(kTimelineLeft, y_ + kTitle - 8, "start",
         fmt::format("{}: {:.0f} ms", panel.title, panel.end_ms()));
    y_ += kTitle;
    for (std::size_t rank = 0; rank < panel.ranks.size(); ++rank) {
      draw_rank(static_cast<int>(rank), panel.ranks[rank]);
    }
  }

  void draw_rank(int rank, const std::vector<TimelineSpan>& spans) {
    std::vector<int> sources;
    for (const TimelineSpan& span : spans) {
      if (span.source >= 0) sources.push_back(span.source);
    }
    std::ranges::sort(sources);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    text(kTimelineLeft - 6, y_ + kWork - 5, "end", fmt::format("rank {}", rank));
    for (const TimelineSpan& span : spans) {
      const double width = (span.end_ms - span.begin_ms) * pixels_per_ms_;
      if (width < kLeastWidth) continue;
      const Kind& kind = kind_of(span.name);
      used_.insert(kind.name);
      if (span.source < 0) {
        box(x_at(span.begin_ms), y_, width, kWork, kind.color);
        continue;
      }
      const auto line = std::ranges::lower_bound(sources, span.source) - sources.begin();
      box(x_at(span.begin_ms), y_ + kWork + 1 + kPacket * static_cast<double>(line), width,
          kPacket - 1, kind.color);
    }
    y_ += kWork + 1 + kPacket * static_cast<double>(sources.size()) + kRowGap;
  }

  void draw_ticks(double end) {
    for (const double tick : nice_ticks(0, end, 8)) {
      body_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#000000\" "
          "stroke-opacity=\"0.15\"/>\n",
          x_at(tick), kTitle, y_);
      text(x_at(tick), y_ + 14, "middle", fmt::format("{} ms", format_number(tick)));
    }
    y_ += kTicks;
  }

  void draw_legend() {
    double x = kTimelineLeft;
    const auto entry = [&](const Kind& kind) {
      if (!used_.contains(kind.name)) return;
      if (x + kLegendColumn > kTimelineWidth) {
        x = kTimelineLeft;
        y_ += kLegend;
      }
      box(x, y_ + 2, 12, 12, kind.color);
      text(x + 17, y_ + 12, "start", kind.name);
      x += kLegendColumn;
    };
    for (const Kind& kind : kinds()) entry(kind);
    entry(kind_of(""));
    y_ += kLegend;
  }

  double pixels_per_ms_ = 1;
  double y_ = 0;
  std::string body_;
  std::set<std::string> used_;  // kinds
};

}  // namespace

double TimelinePanel::end_ms() const {
  double end = 0;
  for (const std::vector<TimelineSpan>& spans : ranks) {
    for (const TimelineSpan& span : spans) end = std::max(end, span.end_ms);
  }
  return end;
}

std::string draw_timelines(const std::vector<TimelinePanel>& panels) {
  return TimelineDrawing(panels).svg();
}

}  // namespace atl
