// Quality of predictions per split, over the nodes of all ranks.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/training/class_counts.hpp"
#include "engine/training/metric_names.hpp"
#include "engine/training/rank_data.hpp"

namespace atl {

inline constexpr double kUnknownMetric = std::numeric_limits<double>::quiet_NaN();

// Values of train, valid and test.
using SplitValues = std::array<double, 3>;

struct MetricValues {
  Metric metric;
  SplitValues splits;
};

// The metric that the run is judged by, in train, valid and test: NaN for a set without labels and
// where it is undefined (see undefined_reason()).
struct Metrics {
  double train = kUnknownMetric;
  double valid = kUnknownMetric;
  double test = kUnknownMetric;
  double valid_loss = kUnknownMetric;  // what training minimises, of the validation nodes
  // Others that are known, and that one among them.
  std::vector<MetricValues> all = {};
  std::vector<ClassCounts> classes = {};  // of train, valid and test, where all was asked for

  // The values of one of `all`; empty if it is not there.
  const SplitValues* find(Metric metric) const;
};

// Which metrics are computed: kChosen needs no more than one pass over the logits where the task's
// usual metric was chosen.
enum class MetricExtent { kChosen, kAll };

// "train 0.1234  valid 0.1234  test 0.1234", with - for what is not known.
std::string to_text(const SplitValues& values);
std::string to_text(const Metrics& metrics);

// Why a metric is undefined for a split of these labels, as "all its labelled nodes are of class
// 1"; empty if it is defined. Not of links.
std::string undefined_reason(const RankData& data, Split split, Metric metric);

// Entries that metrics are counted in, at most: see kernels::CountMultiLabel.
inline constexpr std::int64_t kMetricCounts = 9;

// logits [inner, outputs] of this rank, queued or computed. Waits until everything queued has run:
// once, if the counts of the device are enough. `counts` has kMetricCounts entries to use.
// Collective.
Metrics compute_metrics(const Rank& rank, int epoch, const RankData& data, ConstMatrixView logits,
                        ReadBackArray<std::int64_t>& counts, Metric chosen, MetricExtent extent);

}  // namespace atl
