#include "engine/training/loss_options.hpp"

#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/npy.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace {

template <typename T>
std::vector<float> checked_weights(const NpyFile& file) {
  std::vector<float> weights;
  for (const T value : file.values<T>()) {
    const auto weight = static_cast<float>(value);
    if (!std::isfinite(weight) || weight < 0) {
      fail_input("{}: weight {} of class {}; allowed are finite numbers, 0 or more",
                 file.path().string(), value, weights.size());
    }
    weights.push_back(weight);
  }
  return weights;
}

std::vector<float> read_weights(const std::string& path, std::size_t classes) {
  const NpyFile file(path);
  file.require_shape(std::vector{static_cast<std::int64_t>(classes)});
  if (file.is("<f8")) return checked_weights<double>(file);
  if (file.is("<f4")) return checked_weights<float>(file);
  fail_input("{}: element type '{}' found, '<f4' or '<f8' expected", path, file.header().descr);
}

std::vector<float> balanced_weights(std::span<const std::int64_t> counts) {
  double nodes = 0;
  for (const std::int64_t count : counts) nodes += static_cast<double>(count);
  std::vector<float> weights;
  for (const std::int64_t count : counts) {
    const double share = static_cast<double>(counts.size()) * static_cast<double>(count);
    weights.push_back(count == 0 ? 0 : static_cast<float>(nodes / share));
  }
  return weights;
}

}  // namespace

void check_loss_options(const LossOptions& loss, Task task) {
  const bool numbers = task == Task::kRegression;
  if (numbers && loss.kind == LossKind::kCrossEntropy) {
    fail_option("--loss cross-entropy: the task is regression; allowed are mse and mae");
  }
  if (!numbers && (loss.kind == LossKind::kSquaredError || loss.kind == LossKind::kAbsoluteError)) {
    fail_option("--loss {}: the task is {}; allowed is cross-entropy",
                loss.kind == LossKind::kSquaredError ? "mse" : "mae", to_string(task));
  }
  std::vector<std::string> metrics;
  for (const LinkMetric metric : link_metrics(loss.links.hits_at)) {
    metrics.push_back(to_string(metric));
  }
  if (std::ranges::find(metrics, loss.links.best_by) == metrics.end()) {
    fail_option("--best-by {}: allowed are {}, or others that --hits-at has", loss.links.best_by,
                fmt::join(metrics, ", "));
  }
  const LinkOptions usual;
  const bool links = loss.links.negatives != usual.negatives || loss.links.batch != usual.batch ||
                     loss.links.hits_at != usual.hits_at || loss.links.best_by != usual.best_by;
  if (links && task != Task::kLinkPrediction) {
    fail_option(
        "--negatives, --link-batch, --hits-at, --best-by: the task is {}; they are for task "
        "link-prediction only",
        to_string(task));
  }
  if (task == Task::kSingleLabel) return;
  if (!loss.class_weights.empty()) {
    fail_option("--class-weights: the task is {}; classes are weighted for task single-label only",
                to_string(task));
  }
  if (loss.label_smoothing > 0) {
    fail_option("--label-smoothing: the task is {}; labels are smoothed for task single-label only",
                to_string(task));
  }
}

std::vector<float> class_weights(const LossOptions& loss, std::span<const std::int64_t> counts,
                                 Transport& transport) {
  if (loss.class_weights.empty()) return {};
  if (loss.class_weights == kBalancedWeights) return balanced_weights(counts);
  std::vector<float> weights(counts.size());
  const OperationLabel label{"class weights"};
  on_all_ranks(
      transport,
      [&] {
        if (transport.rank() == 0) weights = read_weights(loss.class_weights, counts.size());
      },
      label);
  transport.broadcast(std::as_writable_bytes(std::span(weights)), 0, label);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0 && weights[c] > 0) return weights;
  }
  fail_option("--class-weights {}: the classes of all training nodes have weight 0",
              loss.class_weights);
}

}  // namespace atl
