// The loss that is minimised, as far as options say it, and which of them a task has a use for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/option.hpp"
#include "datasets/dataset.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/metric_names.hpp"

namespace atl {

enum class LossKind : std::uint8_t {
  kAuto,          // cross-entropy of classes, the squared error of numbers
  kCrossEntropy,  // softmax for one label per node, sigmoid for several or two classes
  kSquaredError,
  kAbsoluteError,
  kFocal,  // cross-entropy that counts what is right already the less, the surer it is
  kOwn,    // of the program: see own_functions.hpp
};

// Options of task link-prediction.
struct LinkOptions {
  std::int64_t negatives = 1;            // drawn for each edge in each epoch
  std::int64_t batch = 1 << 20;          // edges that a rank scores at a time
  std::string hits_at = "10,20,50,100";  // see link_metrics()
};

inline constexpr const char* kBalancedWeights = "balanced";
inline constexpr const char* kUsualMetric = "auto";  // of the task

struct LossOptions {
  std::string name = "auto";  // one of loss_names(), or of the program's own
  // empty: none; kBalancedWeights; or a .npy file, see class_weights()
  std::string class_weights = {};
  double label_smoothing = 0;
  double focal_gamma = 2;  // of kFocal
  LinkOptions links = {};
  std::string metric = kUsualMetric;  // or to_string() of another of metrics_of()

  LossKind kind() const;
  double focus() const { return kind() == LossKind::kFocal ? focal_gamma : 0; }
};

// Those that Atoll has.
std::vector<std::string> loss_names();

OptionTable<LossOptions> loss_options();
// Throws Error{kOption} for what the task of the dataset has no use for.
void check_loss_options(const LossOptions& loss, Task task);

// The metric that the run is judged by: --metric, or the task's usual metric where it has no such
// one.
Metric chosen_metric(const LossOptions& loss, Task task);

// Weights by --class-weights, empty without it, one for each of `counts`: the labelled training
// nodes of all ranks by class; with several labels per node those without and with each label, in
// turn. Balanced: N / (classes * count) for N such nodes, where two classes are a label and its
// absence; 0 for a class without any. A file holds float32 or float64, finite, none negative:
//   single-label: [classes];
//   binary: [2], or [1] for the weight of class 1 beside 1 for class 0;
//   multi-label: [classes] for the weight of each label beside 1 for its absence.
// Rank 0 reads it for all. Throws Error{kInput} if it does not, Error{kOption} if no training node
// has a weight. Collective.
std::vector<float> class_weights(const LossOptions& loss, Task task,
                                 std::span<const std::int64_t> counts, Transport& transport);

}  // namespace atl
