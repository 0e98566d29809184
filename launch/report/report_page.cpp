#include "launch/report/report_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "engine/training/metric_names.hpp"
#include "launch/report/bit_charts.hpp"
#include "launch/report/chart_script.hpp"
#include "launch/report/html_page.hpp"
#include "launch/report/report_options.hpp"
#include "launch/report/report_table.hpp"
#include "launch/report/svg_chart.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

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

// The name of the run's scores: as its summary says, else as that of another run on the same
// dataset; "score" where nothing tells.
std::string metric_of(const RunRecord& run, const std::vector<RunRecord>& runs) {
  const auto named = [](const RunRecord& of) {
    const auto found = of.summary.find("metric");
    const bool known = found != of.summary.end() && found->is_string();
    return known ? found->get<std::string>() : std::string();
  };
  const auto dataset = [](const RunRecord& of) {
    const auto found = std::ranges::find(of.options, "dataset", &ConfigValue::key);
    return found == of.options.end() ? std::string() : found->value;
  };
  if (const std::string own = named(run); !own.empty()) return own;
  for (const RunRecord& other : runs) {
    if (dataset(other) == dataset(run) && !named(other).empty()) return named(other);
  }
  return "score";
}

struct Page {
  const std::vector<RunRecord>& runs;
  std::vector<std::string> names;
  std::vector<std::string> metrics;           // of each run
  std::vector<std::string> distinct_metrics;  // in the order in which they appear

  explicit Page(const std::vector<RunRecord>& of) : runs(of), names(display_names(of)) {
    for (const RunRecord& run : runs) {
      metrics.push_back(metric_of(run, runs));
      if (std::ranges::find(distinct_metrics, metrics.back()) == distinct_metrics.end()) {
        distinct_metrics.push_back(metrics.back());
      }
    }
  }
};

// A run on one rank sends nothing and waits for nobody, whatever the clock says.
bool communicates(const RunRecord& run) {
  return std::ranges::any_of(
      run.epochs, [](const EpochRecord& epoch) { return epoch.bytes_sent.value_or(0) > 0; });
}

// Whether some epochs send fewer than all messages.
bool leaves_out(const RunRecord& run) {
  return std::ranges::any_of(
      run.epochs, [](const EpochRecord& epoch) { return epoch.share_sent.value_or(1) < 1; });
}

// True for events that charts mark: a run was disturbed.
bool is_mark(const RunEvent& event) {
  return event.event == "failed" || event.event == "regrown" || event.event == "gave_up";
}

struct CurveChart {
  std::string title;
  std::string y_label;
  std::optional<double> EpochRecord::*field;
  double scale = 1;
  bool percent = false;
  bool from_zero = false;
  std::function<bool(std::size_t)> shows = [](std::size_t) { return true; };  // run i
};

std::string draw_curves(const CurveChart& curve, const Page& page) {
  LineChart chart{curve.title, "epoch", curve.y_label, curve.percent, curve.from_zero, {}, {}};
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    if (!curve.shows(i)) continue;
    ChartSeries series{page.names[i], static_cast<int>(i), {}};
    for (const EpochRecord& epoch : page.runs[i].epochs) {
      const std::optional<double>& value = epoch.*curve.field;
      if (value && std::isfinite(*value)) {
        series.points.emplace_back(static_cast<double>(epoch.epoch), *value * curve.scale);
      }
    }
    chart.series.push_back(std::move(series));
    for (const RunEvent& event : page.runs[i].events) {
      if (!is_mark(event)) continue;
      chart.marks.push_back({static_cast<double>(event.epoch),
                             fmt::format("{}: {}: {}", page.names[i], event.event, event.text),
                             static_cast<int>(i)});
    }
  }
  return draw_lines(chart);
}

// By the name that a run gives its metric; others are taken for shares, of which more is better.
bool is_share(const std::string& metric) {
  const std::optional<Metric> known = metric_shown_as(metric);
  return !known || is_share(*known);
}
bool lower_is_better(const std::string& metric) {
  const std::optional<Metric> known = metric_shown_as(metric);
  return known && lower_is_better(*known);
}

// Scores of different metrics can't be compared: each has charts of its own.
std::string draw_scores(const char* split, std::optional<double> EpochRecord::*field,
                        const Page& page) {
  std::string charts;
  for (const std::string& metric : page.distinct_metrics) {
    charts += draw_curves({fmt::format("{} {}", split, metric), metric, field, 1, is_share(metric),
                           false, [&](std::size_t i) { return page.metrics[i] == metric; }},
                          page);
  }
  return charts;
}

std::string draw_phases(const Page& page) {
  StackedBars chart{"Time per phase", "milliseconds per epoch (median)", {}, {}};
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    StackedBar bar{page.names[i], std::vector<double>(chart.parts.size(), 0)};
    for (const auto& [name, milliseconds] : median_phases(page.runs[i].epochs)) {
      if (milliseconds == 0) continue;  // not part of a usual epoch
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

std::string draw_charts(const Page& page) {
  using R = EpochRecord;
  const auto sends = [&](std::size_t i) { return communicates(page.runs[i]); };
  return draw_scores("Validation", &R::valid, page) + draw_scores("Test", &R::test, page) +
         draw_curves({"Training loss", "loss", &R::loss}, page) +
         draw_curves({"Validation loss", "loss", &R::valid_loss}, page) +
         draw_scores("Training", &R::train, page) +
         draw_curves({"Epoch time", "milliseconds", &R::epoch_ms, 1, false, true}, page) +
         draw_curves({"Communication not hidden", "milliseconds", &R::exposed_comm_ms, 1, false,
                      true, sends},
                     page) +
         draw_curves({"Sent per epoch, all ranks", "MB", &R::bytes_sent, 1e-6, false, true, sends},
                     page) +
         draw_curves(
             {"Bits per value, mean over all messages", "bits", &R::mean_bits, 1, false, true},
             page) +
         draw_curves({"Messages that are sent", "share of all", &R::share_sent, 1, true, true,
                      [&](std::size_t i) { return leaves_out(page.runs[i]); }},
                     page) +
         draw_phases(page);
}

enum class CellKind { kNumber, kPercent, kBytes };

struct Column {
  const char* heading;  // of scores, the metric follows
  const char* field;    // of summary.json
  CellKind kind;
};

constexpr Column kColumns[] = {
    {"valid", "valid", CellKind::kPercent},
    {"test", "test", CellKind::kPercent},
    {"train", "train", CellKind::kPercent},
    {"best epoch", "best_epoch", CellKind::kNumber},
    {"epochs", "epochs", CellKind::kNumber},
    {"ms per epoch", "epoch_ms_median", CellKind::kNumber},
    {"ms waiting", "exposed_comm_ms_median", CellKind::kNumber},
    {"sent per epoch", "bytes_sent_per_epoch", CellKind::kBytes},
    {"mean bits", "mean_bits", CellKind::kNumber},
    {"% sent", "percent_sent", CellKind::kNumber},
    {"solver ms", "solver_ms", CellKind::kNumber},
    {"peak MB", "peak_rss_mb", CellKind::kNumber},
};

std::string format_cell(const Json& value, CellKind kind) {
  if (value.is_null()) return "";
  if (!value.is_number()) return shown(value);
  const auto number = value.get<double>();
  switch (kind) {
    case CellKind::kNumber:
      return format_number(number);
    case CellKind::kPercent:
      return fmt::format("{:.2f}%", number * 100);
    case CellKind::kBytes:
      return format_number(number / 1e6) + " MB";
  }
  return "";
}

// The summary of a run that has not ended, from its epochs.
Json summary_of_epochs(const RunRecord& run, const std::string& metric) {
  Json summary = {{"epochs", run.epochs.size()}};
  const EpochRecord* best = nullptr;
  for (const EpochRecord& epoch : run.epochs) {
    if (!epoch.valid) continue;
    const bool better = best == nullptr || (lower_is_better(metric) ? *epoch.valid < *best->valid
                                                                    : *epoch.valid > *best->valid);
    if (better) best = &epoch;
  }
  const auto set = [&](const char* field, const std::optional<double>& value) {
    if (value) summary[field] = *value;
  };
  if (best != nullptr) {
    summary["best_epoch"] = best->epoch;
    set("valid", best->valid);
    set("test", best->test);
    set("train", best->train);
  }
  set("epoch_ms_median", median_of(run.epochs, &EpochRecord::epoch_ms));
  set("exposed_comm_ms_median", median_of(run.epochs, &EpochRecord::exposed_comm_ms));
  set("bytes_sent_per_epoch", median_of(run.epochs, &EpochRecord::bytes_sent));
  return summary;
}

double mean_over(const std::vector<EpochRecord>& epochs,
                 std::optional<double> EpochRecord::*field) {
  double sum = 0;
  for (const EpochRecord& epoch : epochs) sum += (epoch.*field).value_or(0);
  return sum / static_cast<double>(epochs.size());
}

Json summary_of(const RunRecord& run, const std::string& metric) {
  Json summary = run.finished ? run.summary : summary_of_epochs(run, metric);
  if (run.epochs.back().mean_bits) summary["mean_bits"] = *run.epochs.back().mean_bits;
  if (leaves_out(run)) {  // one epoch says nothing of others
    summary["mean_bits"] = mean_over(run.epochs, &EpochRecord::mean_bits);
    summary["percent_sent"] = 100 * mean_over(run.epochs, &EpochRecord::share_sent);
  }
  if (const auto median = median_of(run.epochs, &EpochRecord::solver_ms)) {
    summary["solver_ms"] = *median;
  }
  if (!communicates(run)) {
    summary.erase("exposed_comm_ms_median");
    summary.erase("bytes_sent_per_epoch");
  }
  return summary;
}

std::vector<TableRow> rows_of(const Page& page) {
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    rows.push_back(
        {page.names[i], page.runs[i].finished ? "" : "(not finished)", static_cast<int>(i)});
  }
  return rows;
}

std::string draw_results(const Page& page) {
  std::vector<Json> summaries;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    summaries.push_back(summary_of(page.runs[i], page.metrics[i]));
  }
  std::vector<TableColumn> columns;
  const bool one_metric = page.distinct_metrics.size() == 1;
  if (!one_metric) columns.push_back({"metric", false, page.metrics});
  for (const Column& column : kColumns) {
    const bool score = column.kind == CellKind::kPercent;
    TableColumn cells{column.heading, true, {}};
    if (score && one_metric) cells.heading += " " + page.distinct_metrics.front();
    for (std::size_t i = 0; i < summaries.size(); ++i) {
      const bool plain = score && !is_share(page.metrics[i]);
      cells.cells.push_back(format_cell(summaries[i].value(column.field, Json()),
                                        plain ? CellKind::kNumber : column.kind));
    }
    columns.push_back(std::move(cells));
  }
  return draw_table("results", rows_of(page), columns);
}

// Runs that differ in the seed alone, by their numbers: only such groups of two and more.
std::vector<std::vector<std::size_t>> groups_by_seed(const Page& page,
                                                     const std::vector<ComparedOption>& options) {
  std::map<std::vector<std::string>, std::vector<std::size_t>> groups;
  bool seeds = false;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    std::vector<std::string> others;
    for (const ComparedOption& option : options) {
      seeds = seeds || (option.key == "seed" && option.differs());
      if (option.key != "seed") others.push_back(option.values[i]);
    }
    groups[others].push_back(i);
  }
  std::vector<std::vector<std::size_t>> found;
  for (const auto& [others, group] : groups) {
    if (seeds && group.size() > 1) found.push_back(group);
  }
  std::ranges::sort(found);
  return found;
}

// "81.61% ± 0.69%", of those runs that have the number; "" if fewer than two have.
std::string mean_and_deviation(const std::vector<double>& values, CellKind kind) {
  if (values.size() < 2) return "";
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return format_cell(mean, kind) + " ± " + format_cell(std::sqrt(squares / (count - 1)), kind);
}

std::string draw_seeds(const Page& page, const std::vector<ComparedOption>& options) {
  const auto groups = groups_by_seed(page, options);
  if (groups.empty()) return "";
  std::vector<TableRow> rows;
  TableColumn metrics{"metric", false, {}};
  TableColumn counts{"runs", true, {}};
  std::vector<TableColumn> columns;
  for (const Column& column : kColumns) columns.push_back({column.heading, true, {}});
  for (const std::vector<std::size_t>& group : groups) {
    std::string names;
    for (const std::size_t i : group) names += (names.empty() ? "" : ", ") + page.names[i];
    rows.push_back({names, "", static_cast<int>(group.front())});
    metrics.cells.push_back(page.metrics[group.front()]);
    counts.cells.push_back(std::to_string(group.size()));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::vector<double> values;
      for (const std::size_t i : group) {
        const Json value =
            summary_of(page.runs[i], page.metrics[i]).value(kColumns[c].field, Json());
        if (value.is_number()) values.push_back(value.get<double>());
      }
      const bool plain = kColumns[c].kind == CellKind::kPercent && !is_share(metrics.cells.back());
      columns[c].cells.push_back(
          mean_and_deviation(values, plain ? CellKind::kNumber : kColumns[c].kind));
    }
  }
  columns.insert(columns.begin(), {counts, metrics});
  return "<h2>Mean ± standard deviation over seeds</h2>\n<p class=\"quiet\">Of runs that differ in "
         "the seed alone.</p>\n" +
         draw_table("seeds", rows, columns);
}

// Scores of different datasets look comparable, and are not.
std::string draw_dataset_remark(const std::vector<ComparedOption>& options) {
  const auto dataset = std::ranges::find(options, "dataset", &ComparedOption::key);
  if (dataset == options.end()) return "";
  std::vector<std::string> names;  // of runs that tell
  for (const std::string& name : dataset->values) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (names.size() < 2) return "";
  return fmt::format(
      "<p><b>The runs have {} datasets</b> ({}): their scores and times can't be compared across "
      "these.</p>\n",
      names.size(), escape_html(fmt::format("{}", fmt::join(names, ", "))));
}

// Options in which the runs differ, as a table.
std::string draw_differences(const Page& page, const std::vector<ComparedOption>& options) {
  std::vector<TableColumn> columns;
  for (const ComparedOption& option : options) {
    if (option.differs()) columns.push_back({option.key, false, option.values});
  }
  if (page.runs.size() < 2) return "";
  const std::string heading = "<h2>Options that differ</h2>\n";
  if (columns.empty()) {
    return heading + "<p class=\"quiet\">None that the run folders tell.</p>\n";
  }
  return heading + draw_table("differences", rows_of(page), columns);
}

std::string draw_same_options(const Page& page, const std::vector<ComparedOption>& options) {
  std::vector<std::pair<std::string, std::string>> lists;  // of each group, in order of appearance
  for (const ComparedOption& option : options) {
    if (option.differs()) continue;
    auto list = std::ranges::find(lists, option.group, &std::pair<std::string, std::string>::first);
    if (list == lists.end()) list = lists.insert(lists.end(), {option.group, ""});
    list->second += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(option.key),
                                escape_html(option.shared_value()));
  }
  if (lists.empty()) return "";
  std::string html = fmt::format("<h2>{}</h2>\n",
                                 page.runs.size() == 1 ? "Options" : "Options that all runs share");
  for (const auto& [group, list] : lists) {
    html += fmt::format("<h3>{}</h3>\n<dl>\n{}</dl>\n", escape_html(group), list);
  }
  return html;
}

// The events of runs under `atoll launch`.
std::string draw_events(const Page& page) {
  std::vector<TableRow> rows;
  std::vector<TableColumn> columns = {{"time", false, {}},
                                      {"event", false, {}},
                                      {"after epoch", true, {}},
                                      {"ranks", true, {}},
                                      {"what happened", false, {}}};
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    for (const RunEvent& event : page.runs[i].events) {
      rows.push_back({page.names[i], "", static_cast<int>(i)});
      std::size_t column = 0;
      for (const std::string& cell : {event.time, event.event, std::to_string(event.epoch),
                                      std::to_string(event.ranks), event.text}) {
        columns[column++].cells.push_back(cell);
      }
    }
  }
  if (rows.empty()) return "";
  return "<h2>Failures and restarts</h2>\n<p class=\"quiet\">Dashed lines in the curves stand "
         "where a run failed or hosts came back.</p>\n" +
         draw_table("events", rows, columns);
}

std::string draw_all_bits(const Page& page) {
  std::string widths;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    widths += draw_bits(page.runs[i], page.names[i]);
  }
  if (widths.empty()) return "";
  const char* gaps = std::ranges::any_of(page.runs, leaves_out)
                         ? "<p class=\"quiet\">Messages that are not sent leave a gap.</p>\n"
                         : "";
  return "<h2>Share of the messages at each width</h2>\n" + std::string(gaps) +
         "<div class=\"charts\">\n" + widths + "</div>\n";
}

// Scores of test nodes in the summaries of runs, beside the metric: a row per run.
std::string draw_metrics(const Page& page) {
  std::vector<TableColumn> columns;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    for (const auto& [name, values] : page.runs[i].summary.items()) {
      const std::optional<Metric> metric = metric_named(name);
      if (!metric || !values.is_object()) continue;
      const std::string heading = shown_name(*metric);
      auto column = std::ranges::find(columns, heading, &TableColumn::heading);
      if (column == columns.end()) {
        columns.push_back({heading, true, std::vector<std::string>(page.runs.size())});
        column = columns.end() - 1;
      }
      column->cells[i] = format_cell(values.value("test", Json()),
                                     is_share(*metric) ? CellKind::kPercent : CellKind::kNumber);
    }
  }
  if (columns.empty()) return "";
  return "<h2>All metrics of the test nodes</h2>\n" + draw_table("metrics", rows_of(page), columns);
}

constexpr std::size_t kMostClasses = 100;  // in a table
constexpr std::size_t kMostConfused = 30;  // in a table of confusions

// An array of a summary that may have been made by anybody; empty if it is none.
std::vector<Json> entries_of(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (!object.is_object() || found == object.end() || !found->is_array()) return {};
  return {found->begin(), found->end()};
}

// Precision and recall of every class of the test nodes, and what was taken for what.
std::string draw_classes(const RunRecord& run, const std::string& name, std::size_t number) {
  const Json classes = run.summary.value("classes", Json::object());
  if (!classes.is_object()) return "";
  const Json test = classes.value("test", Json::object());
  if (!test.is_object()) return "";
  const std::vector<Json> support = entries_of(test, "support");
  if (support.empty() || support.size() > kMostClasses) return "";
  std::vector<TableRow> rows;
  for (std::size_t c = 0; c < support.size(); ++c) {
    rows.push_back({std::to_string(c), "", static_cast<int>(number)});
  }
  const auto column = [&](const char* heading, const std::vector<Json>& values, CellKind kind) {
    TableColumn result{heading, true, std::vector<std::string>(rows.size())};
    for (std::size_t c = 0; c < std::min(values.size(), rows.size()); ++c) {
      result.cells[c] = format_cell(values[c], kind);
    }
    return result;
  };
  std::string text = fmt::format("<h2>Classes of the test nodes: {}</h2>\n", escape_html(name));
  text += draw_table(fmt::format("classes{}", number), rows,
                     {column("precision", entries_of(test, "precision"), CellKind::kPercent),
                      column("recall", entries_of(test, "recall"), CellKind::kPercent),
                      column("F1", entries_of(test, "f1"), CellKind::kPercent),
                      column("nodes", support, CellKind::kNumber)});
  const std::vector<Json> confusion = entries_of(test, "confusion");
  if (confusion.size() != rows.size() || rows.size() > kMostConfused) return text;
  std::vector<TableColumn> columns;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    TableColumn taken{fmt::format("as {}", p), true, std::vector<std::string>(rows.size())};
    for (std::size_t c = 0; c < rows.size(); ++c) {
      if (confusion[c].is_array() && p < confusion[c].size()) {
        taken.cells[c] = format_cell(confusion[c][p], CellKind::kNumber);
      }
    }
    columns.push_back(std::move(taken));
  }
  return text + fmt::format(
                    "<p class=\"quiet\">Test nodes of each class (rows), by what they were "
                    "taken for (columns).</p>\n{}",
                    draw_table(fmt::format("confusion{}", number), rows, columns));
}

std::string draw_all_classes(const Page& page) {
  std::string text;
  for (std::size_t i = 0; i < page.runs.size(); ++i) {
    text += draw_classes(page.runs[i], page.names[i], i);
  }
  return text;
}

}  // namespace

std::string make_report(const std::vector<RunRecord>& runs,
                        const std::optional<SequenceMatrix>& sequence) {
  const Page page(runs);
  const std::vector<ComparedOption> options = compare_options(runs);
  std::string legend;
  for (std::size_t i = 0; i < page.names.size(); ++i) {
    legend += fmt::format("<span><i style=\"background:var(--s{})\"></i>{}</span>", i % 8,
                          escape_html(page.names[i]));
  }
  const std::string body = fmt::format(
      "<h1>Training runs</h1>\n"
      "<p class=\"quiet\">Written by {}. Scores are those of the epoch with the best validation; "
      "times and bytes are medians over the epochs.</p>\n"
      "<h2>Results</h2>\n{}{}{}{}{}<h2>Curves</h2>\n<p class=\"legend\">{}</p>\n"
      "<div class=\"charts\">\n{}</div>\n{}{}{}{}{}{}",
      escape_html(version_line()), draw_dataset_remark(options), draw_results(page),
      sequence ? draw_sequence(*sequence, rows_of(page)) : "", draw_seeds(page, options),
      draw_differences(page, options), legend, draw_charts(page), draw_metrics(page),
      draw_all_classes(page), draw_events(page), draw_all_bits(page),
      draw_same_options(page, options), kChartScript);
  return html_page(fmt::format("{} {}", runs.size(), runs.size() == 1 ? "run" : "runs"),
                   kChartStyle, body);
}

}  // namespace atl
