#include "engine/training/metric_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>
#include <system_error>

#include "base/numbers.hpp"
#include "engine/program/own_functions.hpp"

namespace atl {

namespace {

struct MetricRow {
  MetricKind kind;
  std::string_view name;
  std::string_view shown;
  bool lower_is_better = false;
  bool is_share = true;
};

// Names of Hits@K end with K.
constexpr std::array kRows = {
    MetricRow{MetricKind::kAccuracy, "accuracy", "accuracy"},
    MetricRow{MetricKind::kF1Macro, "f1-macro", "macro-F1"},
    MetricRow{MetricKind::kF1Micro, "f1-micro", "micro-F1"},
    MetricRow{MetricKind::kF1Weighted, "f1-weighted", "weighted F1"},
    MetricRow{MetricKind::kBalancedAccuracy, "balanced-accuracy", "balanced accuracy"},
    MetricRow{MetricKind::kRocAuc, "roc-auc", "ROC-AUC"},
    MetricRow{MetricKind::kAveragePrecision, "average-precision", "average precision"},
    MetricRow{MetricKind::kMcc, "mcc", "MCC", false, false},
    MetricRow{MetricKind::kLogLoss, "log-loss", "log-loss", true, false},
    MetricRow{MetricKind::kR2, "r2", "R2", false, false},
    MetricRow{MetricKind::kMae, "mae", "MAE", true, false},
    MetricRow{MetricKind::kRmse, "rmse", "RMSE", true, false},
    MetricRow{MetricKind::kMrr, "mrr", "MRR"},
    MetricRow{MetricKind::kHits, "hits@", "Hits@"},
    MetricRow{MetricKind::kOwn, "", "", false, false},
};

const MetricRow& row_of(Metric metric) { return kRows[static_cast<std::size_t>(metric.kind)]; }

static_assert(std::ranges::all_of(kRows, [](const MetricRow& row) {
  return &row == &kRows[static_cast<std::size_t>(row.kind)];
}));

const OwnMetric& own_of(Metric metric) { return own_functions().metrics.at(metric.own); }

constexpr std::size_t kMostMetrics = 33;
constexpr std::int64_t kMostHits = 1000000;

// A whole number of at least 1; 0 for other text.
std::int64_t hits_in(std::string_view text) {
  return parse_number<std::int64_t>(text, 1, kMostHits).value_or(0);
}

std::string with_hits(std::string_view text, Metric metric) {
  return metric.kind == MetricKind::kHits ? fmt::format("{}{}", text, metric.hits_at)
                                          : std::string(text);
}

std::optional<Metric> find_by(std::string_view MetricRow::*field, std::string_view text) {
  for (const MetricRow& row : kRows) {
    if (row.kind == MetricKind::kOwn) {
      if (const auto own = own_metric(std::string(text))) return Metric{row.kind, 0, *own};
    } else if (row.kind != MetricKind::kHits) {
      if (row.*field == text) return Metric{row.kind};
    } else if (text.starts_with(row.*field)) {
      const std::int64_t hits = hits_in(text.substr((row.*field).size()));
      if (hits > 0) return Metric{row.kind, hits};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(Metric metric) {
  return metric.kind == MetricKind::kOwn ? own_of(metric).name
                                         : with_hits(row_of(metric).name, metric);
}
std::string shown_name(Metric metric) {
  return metric.kind == MetricKind::kOwn ? own_of(metric).name
                                         : with_hits(row_of(metric).shown, metric);
}

std::optional<Metric> metric_named(const std::string& name) {
  return find_by(&MetricRow::name, name);
}
std::optional<Metric> metric_shown_as(const std::string& shown) {
  return find_by(&MetricRow::shown, shown);
}

bool lower_is_better(Metric metric) {
  return metric.kind == MetricKind::kOwn ? own_of(metric).lower_is_better
                                         : row_of(metric).lower_is_better;
}
std::vector<std::pair<std::string, bool>> metric_directions() {
  std::vector<std::pair<std::string, bool>> all;
  for (const MetricRow& row : kRows) {
    if (row.kind != MetricKind::kOwn) all.emplace_back(row.name, row.lower_is_better);
  }
  for (const OwnMetric& own : own_functions().metrics) {
    all.emplace_back(own.name, own.lower_is_better);
  }
  return all;
}
bool is_share(Metric metric) { return row_of(metric).is_share; }
bool is_at_most_one(Metric metric) {
  return metric.kind != MetricKind::kOwn && !lower_is_better(metric);
}

std::vector<Metric> metrics_of(Task task, const std::string& hits_at) {
  using enum MetricKind;
  switch (task) {
    case Task::kSingleLabel:
      return {{kAccuracy}, {kF1Macro},          {kF1Micro}, {kF1Weighted}, {kBalancedAccuracy},
              {kRocAuc},   {kAveragePrecision}, {kMcc},     {kLogLoss}};
    case Task::kMultiLabel:
      return {{kF1Micro}, {kF1Macro},          {kF1Weighted}, {kAccuracy},
              {kRocAuc},  {kAveragePrecision}, {kLogLoss}};
    case Task::kBinary:
      return {{kRocAuc},     {kAveragePrecision}, {kAccuracy}, {kF1Macro}, {kF1Micro},
              {kF1Weighted}, {kBalancedAccuracy}, {kMcc},      {kLogLoss}};
    case Task::kRegression:
      return {{kR2}, {kMae}, {kRmse}};
    case Task::kLinkPrediction:
      return link_metrics(hits_at);
  }
  return {};
}

std::vector<Metric> link_metrics(const std::string& hits_at) {
  std::vector<Metric> metrics = {{MetricKind::kMrr}};
  for (const auto part : std::views::split(hits_at, ',')) {
    const Metric metric{MetricKind::kHits, hits_in(std::string_view(part.begin(), part.end()))};
    if (metric.hits_at == 0 || std::ranges::find(metrics, metric) != metrics.end()) return {};
    metrics.push_back(metric);
  }
  const bool some = metrics.size() > 1 && metrics.size() <= kMostMetrics;
  return some ? metrics : std::vector<Metric>();
}

}  // namespace atl
