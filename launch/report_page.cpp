#include "launch/report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/svg_chart.hpp"
#include "launch/version.hpp"
#include "launch/width_charts.hpp"

namespace atl {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark;
  --page: #ffffff; --text: #1c2430; --quiet: #5d6878; --line: #d9dee5; --panel: #f6f8fa;
  --s0: #2563eb; --s1: #d9480f; --s2: #0f8a4b; --s3: #a21caf; --s4: #b58100; --s5: #0e7490;
  --s6: #be123c; --s7: #57534e;
  --w0: #f5d327; --w1: #8fc93f; --w2: #2ba884; --w3: #2a788e; --w4: #414c8f; --w5: #45185c; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --text: #e4e8ee; --quiet: #98a3b3; --line: #303a47; --panel: #1a2028;
  --s0: #7aa2ff; --s1: #ff9060; --s2: #4ade80; --s3: #e58bf5; --s4: #f2c14e; --s5: #4fd1e5;
  --s6: #ff7b93; --s7: #b8b2ab;
  --w0: #f5d327; --w1: #8fc93f; --w2: #2ba884; --w3: #3b93ad; --w4: #7b86d4; --w5: #c39bd8; } }
body { background: var(--page); color: var(--text); margin: 0 auto; padding: 2rem 1.5rem 3rem;
  max-width: 1240px; font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.5rem; font-weight: 650; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; font-weight: 650; margin: 2.2rem 0 .8rem; }
p { margin: .3rem 0; } .quiet { color: var(--quiet); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .9rem; }
.legend i, td i { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .45em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr));
  gap: 1.2rem; }
figure { margin: 0; padding: .9rem 1rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis, svg .tick { stroke: var(--quiet); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .8rem; text-align: left; white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; background: var(--panel); }
tr + tr td { border-top: 1px solid var(--line); }
td.number, th.number { text-align: right; }
)css";

// The name a run has on the page: its folder's name, or the folder where names collide.
std::vector<std::string> display_names(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    const auto same = std::count_if(runs.begin(), runs.end(),
                                    [&](const RunRecord& other) { return other.name == run.name; });
    names.push_back(same > 1 || run.name.empty() ? run.folder.string() : run.name);
  }
  return names;
}

struct CurveChart {
  const char* title;
  const char* y_label;
  std::optional<double> EpochRecord::*field;
  double scale = 1;
  bool percent = false;
  bool from_zero = false;
};

std::string draw_curves(const CurveChart& curve, const std::vector<RunRecord>& runs,
                        const std::vector<std::string>& names) {
  LineChart chart{curve.title, "epoch", curve.y_label, curve.percent, curve.from_zero, {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ChartSeries series{names[i], static_cast<int>(i), {}};
    for (const EpochRecord& epoch : runs[i].epochs) {
      const std::optional<double>& value = epoch.*curve.field;
      if (value && std::isfinite(*value)) {
        series.points.emplace_back(static_cast<double>(epoch.epoch), *value * curve.scale);
      }
    }
    chart.series.push_back(std::move(series));
  }
  return draw_lines(chart);
}

std::string draw_phases(const std::vector<RunRecord>& runs, const std::vector<std::string>& names) {
  StackedBars chart{"Time per phase", "milliseconds per epoch (median)", {}, {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    StackedBar bar{names[i], std::vector<double>(chart.parts.size(), 0)};
    for (const auto& [name, milliseconds] : median_phases(runs[i].epochs)) {
      const auto found = std::find(chart.parts.begin(), chart.parts.end(), name);
      const auto index = static_cast<std::size_t>(found - chart.parts.begin());
      if (found == chart.parts.end()) chart.parts.push_back(name);
      bar.parts.resize(chart.parts.size(), 0);
      bar.parts[index] = milliseconds;
    }
    chart.bars.push_back(std::move(bar));
  }
  return draw_bars(chart);
}

struct Column {
  const char* heading;
  const char* field;  // of summary.json
  enum class Kind { kText, kNumber, kPercent, kBytes } kind;
};

constexpr Column kColumns[] = {
    {"dataset", "dataset", Column::Kind::kText},
    {"model", "model", Column::Kind::kText},
    {"ranks", "ranks", Column::Kind::kNumber},
    {"backend", "backend", Column::Kind::kText},
    {"exchange", "exchange", Column::Kind::kText},
    {"bits", "bits", Column::Kind::kText},
    {"mean bits", "mean_bits", Column::Kind::kNumber},
    {"solver ms", "solver_ms", Column::Kind::kNumber},
    {"epochs", "epochs", Column::Kind::kNumber},
    {"best epoch", "best_epoch", Column::Kind::kNumber},
    {"train", "train", Column::Kind::kPercent},
    {"valid", "valid", Column::Kind::kPercent},
    {"test", "test", Column::Kind::kPercent},
    {"ms per epoch", "epoch_ms_median", Column::Kind::kNumber},
    {"sent per epoch", "bytes_sent_per_epoch", Column::Kind::kBytes},
    {"exposed comm ms", "exposed_comm_ms_median", Column::Kind::kNumber},
    {"peak MB", "peak_rss_mb", Column::Kind::kNumber},
    {"commit", "commit", Column::Kind::kText},
};

std::string format_megabytes(double bytes) { return format_number(bytes / 1e6) + " MB"; }

std::string format_cell(const Json& value, Column::Kind kind) {
  if (value.is_null()) return "–";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return value.dump();
  const auto number = value.get<double>();
  switch (kind) {
    case Column::Kind::kText:
    case Column::Kind::kNumber:
      return format_number(number);
    case Column::Kind::kPercent:
      return fmt::format("{:.2f}%", number * 100);
    case Column::Kind::kBytes:
      return format_megabytes(number);
  }
  return "";
}

// Summaries of finished runs, of the others what their epochs tell; and what no summary has.
Json summary_of(const RunRecord& run) {
  Json summary = run.summary;
  if (!run.epochs.empty() && run.epochs.back().mean_bits) {
    summary["mean_bits"] = *run.epochs.back().mean_bits;
  }
  if (const auto median = median_of(run.epochs, &EpochRecord::solver_ms)) {
    summary["solver_ms"] = *median;
  }
  if (run.finished) return summary;
  summary["epochs"] = run.epochs.size();
  if (const auto median = median_of(run.epochs, &EpochRecord::epoch_ms)) {
    summary["epoch_ms_median"] = *median;
  }
  if (const auto median = median_of(run.epochs, &EpochRecord::bytes_sent)) {
    summary["bytes_sent_per_epoch"] = *median;
  }
  return summary;
}

std::string draw_table(const std::vector<RunRecord>& runs, const std::vector<std::string>& names) {
  std::string html = "<div class=\"scroll\"><table>\n<tr><th>run</th>";
  const auto cell_class = [](const Column& column) {
    return column.kind == Column::Kind::kText ? "" : " class=\"number\"";
  };
  for (const Column& column : kColumns) {
    html += fmt::format("<th{}>{}</th>", cell_class(column), column.heading);
  }
  html += "</tr>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json summary = summary_of(runs[i]);
    html += fmt::format("<tr><td><i style=\"background:var(--s{})\"></i>{}{}</td>", i % 8,
                        escape_html(names[i]),
                        runs[i].finished ? "" : " <span class=\"quiet\">(not finished)</span>");
    for (const Column& column : kColumns) {
      const Json value = summary.contains(column.field) ? summary.at(column.field) : Json();
      html += fmt::format("<td{}>{}</td>", cell_class(column),
                          escape_html(format_cell(value, column.kind)));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string make_report(const std::vector<RunRecord>& runs) {
  using R = EpochRecord;
  const CurveChart curves[] = {
      {"Training loss", "loss", &R::loss},
      {"Score on the validation split", "score", &R::valid, 1, true},
      {"Score on the test split", "score", &R::test, 1, true},
      {"Score on the training split", "score", &R::train, 1, true},
      {"Epoch time", "milliseconds", &R::epoch_ms, 1, false, true},
      {"Communication not hidden", "milliseconds", &R::exposed_comm_ms, 1, false, true},
      {"Sent per epoch, all ranks", "MB", &R::bytes_sent, 1e-6, false, true},
      {"Bits per value, mean over all messages", "bits", &R::mean_bits, 1, false, true},
  };
  const std::vector<std::string> names = display_names(runs);
  std::string legend;
  for (std::size_t i = 0; i < names.size(); ++i) {
    legend += fmt::format("<span><i style=\"background:var(--s{})\"></i>{}</span>", i % 8,
                          escape_html(names[i]));
  }
  std::string charts;
  for (const CurveChart& curve : curves) charts += draw_curves(curve, runs, names);
  charts += draw_phases(runs, names);
  std::string widths;
  for (std::size_t i = 0; i < runs.size(); ++i) widths += draw_widths(runs[i], names[i]);
  if (!widths.empty()) {
    widths = "<h2>Share of the messages at each width</h2>\n<div class=\"charts\">\n" + widths +
             "</div>\n";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Atoll: {} {}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>Training runs</h1>\n"
      "<p class=\"quiet\">Written by {}. Train, valid and test in the table are those of the best "
      "validation epoch.</p>\n<h2>Summary</h2>\n{}<h2>Curves</h2>\n<p class=\"legend\">{}</p>\n"
      "<div class=\"charts\">\n{}</div>\n{}</body>\n</html>\n",
      runs.size(), runs.size() == 1 ? "run" : "runs", kStyle, escape_html(version_line()),
      draw_table(runs, names), legend, charts, widths);
}

}  // namespace atl
