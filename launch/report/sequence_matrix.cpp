#include "launch/report/sequence_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "engine/training/metric_names.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/report/svg_chart.hpp"

namespace atl {

namespace {

std::string score_text(const std::optional<double>& score) {
  return score ? fmt::format("{:.4f}", *score) : "-";
}

std::string signed_text(const std::optional<double>& score) {
  return score ? fmt::format("{:+.4f}", *score) : "-";
}

std::string step_text(const NodeRange& step) {
  return fmt::format("{}-{}", step.first, step.end - 1);
}

NodeRange step_of(const Json& entry, const std::string& place) {
  const auto nodes = json_field<std::vector<std::int64_t>>(entry, "nodes", place);
  if (nodes.size() != 2) {
    fail_input("{}: 'nodes' of an entry of 'sequence' has {} numbers; allowed are two", place,
               nodes.size());
  }
  return {nodes[0], nodes[1]};
}

// Adds the run after those that are there.
void add_run(const RunRecord& run, SequenceMatrix& matrix) {
  const std::string place = (run.folder / kSummaryName).string();
  const std::size_t number = matrix.score.size();
  if (!run.summary.contains("sequence")) {
    fail_input("{}: has no 'sequence'; train with --sequence, and let the run end", place);
  }
  const auto entries = json_field<std::vector<Json>>(run.summary, "sequence", place);
  if (entries.size() != number + 1) {
    fail_input("{}: its dataset has {} steps; run {} of --sequence must have {}", place,
               entries.size(), number + 1, number + 1);
  }
  const auto metric = json_field<std::string>(run.summary, "metric", place);
  if (number == 0) matrix.metric = metric;
  if (metric != matrix.metric) {
    fail_input("{}: its metric is {}, that of {} is {}; allowed are runs with the same --metric",
               place, metric, matrix.runs.front(), matrix.metric);
  }
  std::vector<std::optional<double>>& scores = matrix.score.emplace_back();
  for (std::size_t j = 0; j < entries.size(); ++j) {
    const NodeRange step = step_of(entries[j], place);
    if (j == number) matrix.steps.push_back(step);
    if (step != matrix.steps[j]) {
      fail_input("{}: step {} has nodes {}, in {} it has {}; allowed are runs with the same steps",
                 place, j + 1, step_text(step), matrix.runs[j], step_text(matrix.steps[j]));
    }
    scores.push_back(optional_number(entries[j], "test", place));
  }
  matrix.runs.push_back(run.name);
}

// The highest is the best of a metric that only another program has.
bool lowest_is_best(const std::string& shown) {
  const std::optional<Metric> metric = metric_shown_as(shown);
  return metric && lower_is_better(*metric);
}

}  // namespace

SequenceMatrix sequence_of(const std::vector<RunRecord>& runs) {
  SequenceMatrix matrix;
  for (const RunRecord& run : runs) add_run(run, matrix);
  const auto& last = matrix.score.back();
  const double sign = lowest_is_best(matrix.metric) ? -1 : 1;
  double sum = 0;
  double change = 0;
  double scores = 0;
  double changes = 0;
  for (std::size_t j = 0; j < last.size(); ++j) {
    if (!last[j]) continue;
    sum += *last[j];
    ++scores;
    if (j + 1 == last.size() || !matrix.score[j][j]) continue;
    change += sign * (*last[j] - *matrix.score[j][j]);
    ++changes;
  }
  if (scores > 0) matrix.average = sum / scores;
  if (changes > 0) matrix.forgetting = change / changes;
  return matrix;
}

std::string to_text(const SequenceMatrix& matrix) {
  std::size_t width = 3;
  for (const std::string& name : matrix.runs) width = std::max(width, name.size());
  std::size_t cell = 6;
  for (const NodeRange& step : matrix.steps) cell = std::max(cell, step_text(step).size());
  std::string text = fmt::format("test {} of the nodes that came with each step\n  {:<{}}",
                                 matrix.metric, "run", width);
  for (const NodeRange& step : matrix.steps) text += fmt::format("  {:>{}}", step_text(step), cell);
  text += "\n";
  for (std::size_t i = 0; i < matrix.runs.size(); ++i) {
    text += fmt::format("  {:<{}}", matrix.runs[i], width);
    for (const auto& score : matrix.score[i]) {
      text += fmt::format("  {:>{}}", score_text(score), cell);
    }
    text += "\n";
  }
  return text + fmt::format("average performance {}, forgetting {}\n", score_text(matrix.average),
                            signed_text(matrix.forgetting));
}

std::string draw_sequence(const SequenceMatrix& matrix, const std::vector<TableRow>& rows) {
  std::vector<TableColumn> columns;
  for (std::size_t j = 0; j < matrix.steps.size(); ++j) {
    TableColumn column{"nodes " + step_text(matrix.steps[j]), true, {}};
    for (const auto& scores : matrix.score) {
      column.cells.push_back(j < scores.size() && scores[j] ? score_text(scores[j]) : "");
    }
    columns.push_back(std::move(column));
  }
  return fmt::format(
      "<h2>Steps of the dataset</h2>\n"
      "<p class=\"quiet\">Test {} of the nodes that came with each step. Average performance of "
      "the last run: {}; its forgetting, the mean change of earlier steps since the run that was "
      "the first to have them: {}.</p>\n{}",
      escape_html(matrix.metric), score_text(matrix.average), signed_text(matrix.forgetting),
      draw_table("sequence", rows, columns));
}

}  // namespace atl
