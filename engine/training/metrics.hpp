// Quality of predictions per split, over the nodes of all ranks.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/training/link_ranking.hpp"
#include "engine/training/rank_data.hpp"

namespace atl {

inline constexpr double kUnknownMetric = std::numeric_limits<double>::quiet_NaN();

// Accuracy (single-label), micro-F1 (multi-label) or area under the ROC curve (binary), in [0, 1],
// or R2 (regression), at most 1; NaN for a set without labels and for a split without labelled
// nodes (ROC-AUC: without both classes; R2: without labels that differ).
struct Metrics {
  double train = kUnknownMetric;
  double valid = kUnknownMetric;
  double test = kUnknownMetric;
  // Regression only: mean absolute error and root of the mean squared error of train, valid, test.
  std::array<double, 3> mae = {kUnknownMetric, kUnknownMetric, kUnknownMetric};
  std::array<double, 3> rmse = {kUnknownMetric, kUnknownMetric, kUnknownMetric};
  // Link prediction only: the MRR first.
  std::vector<LinkQuality> links = {};
};

// "train 0.1234  valid 0.1234  test 0.1234", with - for what is not known.
std::string to_text(const Metrics& metrics);

// A line each, indented by two, for MAE and RMSE of a regression, or Hits@K of links; empty
// where nothing is known.
std::string further_text(const Metrics& metrics);

// The name of the task's metric: "accuracy", "micro-F1", "ROC-AUC" or "R2".
const char* metric_name(Task task);

// Entries that metrics are counted in, at most: see Backend::count_multi_label.
inline constexpr std::int64_t kMetricCounts = 9;

// logits [inner, outputs] of this rank, queued or computed. Waits until everything queued has run:
// once, but for ROC-AUC and R2. `counts` has kMetricCounts entries to use. Collective.
Metrics compute_metrics(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                        ReadBackArray<std::int64_t>& counts);

// Area under the ROC curve: the probability that a positive scores higher than a negative, ties
// counted half (Mann-Whitney). NaN unless both classes occur.
double roc_auc(std::span<const float> scores, std::span<const std::uint8_t> positive);

}  // namespace atl
