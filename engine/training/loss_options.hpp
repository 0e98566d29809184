// What is minimised, as far as options say it, and which of them a task has a use for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/link_ranking.hpp"

namespace atl {

enum class LossKind : std::uint8_t {
  kAuto,          // cross-entropy of classes, the squared error of numbers
  kCrossEntropy,  // softmax for one label per node, sigmoid for several or two classes
  kSquaredError,
  kAbsoluteError,
};

// Of task link-prediction.
struct LinkOptions {
  std::int64_t negatives = 1;            // drawn for each edge in each epoch
  std::int64_t batch = 1 << 20;          // edges that a rank scores at a time
  std::string hits_at = "10,20,50,100";  // see link_metrics()
  std::string best_by = "mrr";           // one of these metrics
};

inline constexpr const char* kBalancedWeights = "balanced";

struct LossOptions {
  LossKind kind = LossKind::kAuto;
  // empty: none; kBalancedWeights; or a .npy file with one per class
  std::string class_weights = {};
  double label_smoothing = 0;
  LinkOptions links = {};
};

// Throws Error{kOption} for what the task of the dataset has no use for.
void check_loss_options(const LossOptions& loss, Task task);

// A weight per class by --class-weights, empty without it; `counts`: labelled training nodes of all
// ranks by class. Balanced: N / (classes * count) for N such nodes, and 0 for a class without any.
// A file holds float32 or float64 [classes], finite, none negative; rank 0 reads it for all. Throws
// Error{kInput} if it does not, Error{kOption} if no training node has a weight. Collective.
std::vector<float> class_weights(const LossOptions& loss, std::span<const std::int64_t> counts,
                                 Transport& transport);

}  // namespace atl
