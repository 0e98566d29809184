// The metrics of results: their names, which of them a task has, and whether more is better.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.hpp"

namespace atl {

enum class MetricKind : std::uint8_t {
  kAccuracy,
  kF1Macro,
  kF1Micro,
  kF1Weighted,
  kBalancedAccuracy,
  kRocAuc,
  kAveragePrecision,
  kMcc,
  kLogLoss,
  kR2,
  kMae,
  kRmse,
  kMrr,
  kHits,
  kOwn,  // of the program: see own_functions.hpp
};

// Definitions: docs/tasks.md.
struct Metric {
  MetricKind kind = MetricKind::kAccuracy;
  std::int64_t hits_at = 0;  // K of Hits@K
  std::size_t own = 0;       // of kOwn: its place among own_functions().metrics
  bool operator==(const Metric&) const = default;
};

// "f1-macro", "hits@10", ..., or the name of one of the program's own: on the command line and in
// files.
std::string to_string(Metric metric);
// The reverse; empty for other text.
std::optional<Metric> metric_named(const std::string& name);
// "macro-F1", "Hits@10", ...
std::string shown_name(Metric metric);
// The reverse; empty for other text.
std::optional<Metric> metric_shown_as(const std::string& shown);

// Errors and losses: the best is the lowest.
bool lower_is_better(Metric metric);
// Names of all metrics, and of each whether lower_is_better(); Hits@K is "hits@".
std::vector<std::pair<std::string, bool>> metric_directions();
// A fraction in 0 .. 1, which may be shown in percent.
bool is_share(Metric metric);
// No score is above 1. Atoll doesn't know that of the program's own.
bool is_at_most_one(Metric metric);

// All that the task has of Atoll's, the one by which it is judged unless another is asked for
// first. `hits_at` is read for links, see link_metrics().
std::vector<Metric> metrics_of(Task task, const std::string& hits_at);

// The MRR, and Hits@K for each number of a list such as "10,20,50", in its order; empty for other
// text: K are different whole numbers from 1 to 1,000,000, at most 32 of them.
std::vector<Metric> link_metrics(const std::string& hits_at);

}  // namespace atl
