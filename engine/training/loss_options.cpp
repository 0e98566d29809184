#include "engine/training/loss_options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/npy.hpp"
#include "base/suggest.hpp"
#include "engine/program/own_functions.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace {

constexpr std::array kLossNames = {
    std::pair{"auto", LossKind::kAuto},         std::pair{"cross-entropy", LossKind::kCrossEntropy},
    std::pair{"focal", LossKind::kFocal},       std::pair{"mse", LossKind::kSquaredError},
    std::pair{"mae", LossKind::kAbsoluteError},
};

std::string loss_problem(const std::string& text) {
  std::vector<std::string> known = loss_names();
  for (const OwnLoss& own : own_functions().losses) known.push_back(own.name);
  if (std::ranges::find(known, text) != known.end()) return "";
  return fmt::format("'{}' is no loss{}; allowed are {}", text, did_you_mean(text, known),
                     fmt::join(known, ", "));
}

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

std::vector<float> read_weights(const std::string& path) {
  const NpyFile file(path);
  if (file.is("<f8")) return checked_weights<double>(file);
  if (file.is("<f4")) return checked_weights<float>(file);
  fail_input("{}: element type '{}' found, '<f4' or '<f8' expected", path, file.header().descr);
}

// One for each of `counts`, see class_weights().
std::vector<float> weights_of_file(const std::string& path, Task task, std::size_t counts) {
  const NpyFile file(path);
  if (task == Task::kSingleLabel || (task == Task::kBinary && file.rows() != 1)) {
    file.require_shape(std::vector{static_cast<std::int64_t>(counts)});
    return read_weights(path);
  }
  file.require_shape(std::vector{static_cast<std::int64_t>(counts / 2)});
  std::vector<float> weights;
  for (const float weight : read_weights(path)) weights.insert(weights.end(), {1, weight});
  return weights;
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

std::vector<std::string> metric_words(Task task, const std::string& hits_at) {
  std::vector<std::string> words;
  for (const Metric metric : metrics_of(task, hits_at)) words.push_back(to_string(metric));
  return words;
}

std::string hits_problem(const std::string& text) {
  if (!link_metrics(text).empty()) return "";
  return fmt::format(
      "'{}' is no list of numbers; allowed are different whole numbers from 1 to 1000000, at most "
      "32, as 10,20,50",
      text);
}

// Whether the task has it is checked where that is known.
std::string metric_problem(const std::string& text) {
  if (text == kUsualMetric || metric_named(text)) return "";
  std::vector<std::string> names;
  for (const Task task : {Task::kSingleLabel, Task::kRegression}) {
    for (const Metric metric : metrics_of(task, "")) names.push_back(to_string(metric));
  }
  return fmt::format("'{}' is no metric; allowed are {}, {}, mrr, hits@K", text, kUsualMetric,
                     fmt::join(names, ", "));
}

}  // namespace

LossKind LossOptions::kind() const {
  const auto found = std::ranges::find(kLossNames, name, [](const auto& row) { return row.first; });
  return found == kLossNames.end() ? LossKind::kOwn : found->second;
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kLossNames) names.emplace_back(name);
  return names;
}

OptionTable<LossOptions> loss_options() {
  using Row = Option<LossOptions>;
  return {
      {.name = "loss",
       .group = "Optimizer",
       .help = "auto: cross-entropy of classes, mse of numbers to predict; or cross-entropy, focal "
               "(cross-entropy for rare classes, see --focal-gamma), mse (mean squared error), mae "
               "(mean absolute error)",
       .value = Row::text(ATOLL_FIELD(name), loss_problem),
       .recorded =
           [](const LossOptions& loss) {
             const LossKind kind = loss.kind();
             return kind == LossKind::kAbsoluteError || kind == LossKind::kFocal ||
                    kind == LossKind::kOwn;
           }},
      {.name = "focal-gamma",
       .group = "Optimizer",
       .help = "Focal loss: power g of the factor (1 - p)^g, p the probability of the label; 0: "
               "cross-entropy",
       .value = Row::number(ATOLL_FIELD(focal_gamma), 0, 100),
       .recorded = [](const LossOptions& loss) { return loss.kind() == LossKind::kFocal; }},
      {.name = "class-weights",
       .group = "Optimizer",
       .help = "Weight of each class in the loss: balanced (training nodes / (classes * nodes of "
               "the class)), or a .npy file with one number per class; of binary tasks also with "
               "the weight of class 1 alone, of several labels per node with that of each label",
       .value = Row::text(ATOLL_FIELD(class_weights)),
       .recorded = [](const LossOptions& loss) { return !loss.class_weights.empty(); }},
      {.name = "label-smoothing",
       .group = "Optimizer",
       .help = "Share of each label that is spread evenly over all classes (single-label)",
       .value = Row::number(ATOLL_FIELD(label_smoothing), 0, 0.999),
       .recorded = [](const LossOptions& loss) { return loss.label_smoothing > 0; }},
      recorded_if_set<LossOptions>(
          {.name = "negatives",
           .group = "Optimizer",
           .help = "Pairs drawn for each training edge in each epoch, all of them to be told from "
                   "edges (link-prediction)",
           .value = Row::number(ATOLL_FIELD(links.negatives), 1, 1000)}),
      {.name = "link-batch",
       .group = "Machine",
       .help = "Training edges that a rank scores at a time: fewer take less memory and send more "
               "rows (link-prediction)",
       .value = Row::number(ATOLL_FIELD(links.batch), 1, 1 << 30)},
      {.name = "hits-at",
       .group = "Optimizer",
       .help = "The K for which Hits@K of validation and test edges are reported "
               "(link-prediction)",
       .value = Row::text(ATOLL_FIELD(links.hits_at), hits_problem)},
      recorded_if_set<LossOptions>(
          {.name = "metric",
           .group = "Results",
           .help = "What decides the best epoch and --patience, by the validation nodes: auto (the "
                   "first of the task); single-label: accuracy, f1-macro, f1-micro, f1-weighted, "
                   "balanced-accuracy, roc-auc, average-precision, mcc, log-loss; multi-label: "
                   "f1-micro, f1-macro, f1-weighted, accuracy, roc-auc, average-precision, "
                   "log-loss; binary: roc-auc and those of single-label; regression: r2, mae, "
                   "rmse; link-prediction: mrr, hits@K for a K of --hits-at",
           .value = Row::text(ATOLL_FIELD(metric), metric_problem)}),
  };
}

void check_loss_options(const LossOptions& loss, Task task) {
  const bool numbers = task == Task::kRegression;
  const bool links_task = task == Task::kLinkPrediction;
  const LossKind kind = loss.kind();
  const bool errors = kind == LossKind::kSquaredError || kind == LossKind::kAbsoluteError;
  const bool focal = kind == LossKind::kFocal;
  const bool own = kind == LossKind::kOwn;
  if (numbers && (focal || kind == LossKind::kCrossEntropy)) {
    fail_option("--loss {}: the task is regression; allowed are mse and mae", loss.name);
  }
  if (!numbers && (errors || ((focal || own) && links_task))) {
    fail_option("--loss {}: the task is {}; allowed {}", loss.name, to_string(task),
                links_task ? "is cross-entropy" : "are cross-entropy and focal");
  }
  if (own && (!loss.class_weights.empty() || loss.label_smoothing > 0)) {
    fail_option(
        "--class-weights, --label-smoothing: not together with --loss {}, which computes "
        "all of the loss itself",
        loss.name);
  }
  if (!focal && loss.focal_gamma != LossOptions().focal_gamma) {
    fail_option("--focal-gamma: is of the focal loss; add --loss focal");
  }
  if (focal && loss.label_smoothing > 0) {
    fail_option("--label-smoothing: not together with --loss focal");
  }
  const LinkOptions usual;
  const bool links = loss.links.negatives != usual.negatives || loss.links.batch != usual.batch ||
                     loss.links.hits_at != usual.hits_at;
  if (links && !links_task) {
    fail_option(
        "--negatives, --link-batch, --hits-at: the task is {}; they are for task link-prediction "
        "only",
        to_string(task));
  }
  const std::vector<std::string> metrics = metric_words(task, loss.links.hits_at);
  const bool own_metric = !links_task && atl::own_metric(loss.metric).has_value();
  if (loss.metric != kUsualMetric && !own_metric &&
      std::ranges::find(metrics, loss.metric) == metrics.end()) {
    fail_option("--metric {}: the task is {}; allowed are {}{}", loss.metric, to_string(task),
                fmt::join(metrics, ", "), links_task ? ", or others that --hits-at has" : "");
  }
  if (task == Task::kSingleLabel) return;
  if (!loss.class_weights.empty() && (numbers || links_task)) {
    fail_option(
        "--class-weights: the task is {}; classes are weighted for tasks single-label, multi-label "
        "and binary only",
        to_string(task));
  }
  if (loss.label_smoothing > 0) {
    fail_option("--label-smoothing: the task is {}; labels are smoothed for task single-label only",
                to_string(task));
  }
}

Metric chosen_metric(const LossOptions& loss, Task task) {
  const std::vector<Metric> metrics = metrics_of(task, loss.links.hits_at);
  const std::optional<Metric> named = metric_named(loss.metric);
  const bool own = named && named->kind == MetricKind::kOwn && task != Task::kLinkPrediction;
  const bool has = own || (named && std::ranges::find(metrics, *named) != metrics.end());
  return has ? *named : metrics.front();
}

std::vector<float> class_weights(const LossOptions& loss, Task task,
                                 std::span<const std::int64_t> counts, Transport& transport) {
  if (loss.class_weights.empty()) return {};
  std::vector<float> weights;
  if (loss.class_weights == kBalancedWeights) {
    const std::size_t classes = task == Task::kMultiLabel ? 2 : counts.size();
    for (std::size_t first = 0; first < counts.size(); first += classes) {
      const std::vector<float> some = balanced_weights(counts.subspan(first, classes));
      weights.insert(weights.end(), some.begin(), some.end());
    }
    return weights;
  }
  weights.resize(counts.size());
  const OperationLabel label{"class weights"};
  on_all_ranks(
      transport,
      [&] {
        if (transport.rank() == 0)
          weights = weights_of_file(loss.class_weights, task, counts.size());
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
