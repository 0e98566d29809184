#include "engine/training/rank_data.hpp"

#include <algorithm>
#include <cmath>

namespace atl {

namespace {

constexpr auto kTrain = static_cast<std::uint8_t>(Split::kTrain);

// Binary labels (0, 1, -1 = none) as one column of targets (0, 1, 255 = missing).
std::vector<std::uint8_t> binary_targets(std::span<const std::int32_t> labels) {
  std::vector<std::uint8_t> targets(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    targets[i] = labels[i] < 0 ? 255 : static_cast<std::uint8_t>(labels[i]);
  }
  return targets;
}

}  // namespace

RankData::RankData(Backend& backend, Queue& queue, Transport& transport, Shard& shard,
                   std::int64_t split_index, DType dtype, const LossOptions& loss,
                   std::int64_t model_outputs)
    : dataset_(shard.dataset()), graph_(shard.graph()) {
  const bool training = model_outputs == 0;
  const std::span<const float> features = shard.features();
  if ((backend.host_accessible() && dtype == DType::kF32) || dataset_.features == 0) {
    features_ = {features.data(), graph_.inner(), dataset_.features, dataset_.features, dtype};
  } else {
    feature_memory_ = Tensor(backend, graph_.inner(), dataset_.features, dtype);
    upload_f32(backend, queue, features, feature_memory_.view());
    features_ = feature_memory_.view();
    shard.release_features();
  }
  inner_ids_ = {backend, queue, graph_.inner_ids};
  outputs_ = model_outputs;
  if (!labelled() && (!training || dataset_.task == Task::kLinkPrediction)) return;

  const std::span<const std::uint8_t> split = shard.split(split_index);
  split_ = {backend, queue, split};
  host_split_ = split;
  std::int64_t trained = make_targets(backend, queue, shard, split);
  transport.all_reduce(std::span(&trained, 1), {"training node count"});
  training_total_ = static_cast<double>(trained);
  if (training && !loss.class_weights.empty()) {
    training_total_ = weigh_classes(backend, queue, transport, shard.labels(), loss);
  }
  if (dataset_.task == Task::kRegression) {
    label_spread_ = atl::label_spread(host_numbers_, split, outputs_, transport);
  }
  targets_ = {.labels = labels_.span(),
              .multi_labels = multi_labels_.span(),
              .numbers = numbers_.span(),
              .rows = training_rows_.span(),
              .softmax = {class_weights_.span(), loss.label_smoothing},
              .measure = loss.kind == LossKind::kAbsoluteError ? ErrorMeasure::kAbsolute
                                                               : ErrorMeasure::kSquared};
  if (!training && outputs_ != model_outputs) {
    fail_input("dataset {}: its labels need {} outputs per node, the model has {}", dataset_.name,
               outputs_, model_outputs);
  }
}

double RankData::weigh_classes(Backend& backend, Queue& queue, Transport& transport,
                               std::span<const std::int32_t> labels, const LossOptions& loss) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset_.classes), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (host_split_[i] == kTrain && labels[i] >= 0) ++counts[labels[i]];
  }
  transport.all_reduce(std::span(counts), {"training nodes by class"});
  host_class_weights_ = atl::class_weights(loss, counts, transport);
  // By class and not by node, so that it is the same for any number of ranks.
  double total = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    total += static_cast<double>(host_class_weights_[c]) * static_cast<double>(counts[c]);
  }
  class_weights_ = {backend, queue, std::span<const float>(host_class_weights_)};
  return total;
}

std::int64_t RankData::bytes() const {
  const auto matrix_bytes = [](const LocalMatrixView& matrix) {
    return static_cast<std::int64_t>(matrix.csr.row_ptr.size_bytes() +
                                     matrix.csr.col_idx.size_bytes() +
                                     matrix.csr.values.size_bytes());
  };
  return features_.rows * features_.cols * bytes_of(features_.dtype) +
         matrix_bytes(graph_.forward) + (graph_.symmetric ? 0 : matrix_bytes(graph_.backward));
}

std::int64_t RankData::make_targets(Backend& backend, Queue& queue, const Shard& shard,
                                    std::span<const std::uint8_t> split) {
  const std::int64_t inner = graph_.inner();
  std::vector<LocalId> rows;
  std::int64_t trained = 0;
  if (dataset_.task == Task::kSingleLabel) {
    const std::span<const std::int32_t> labels = shard.labels();
    for (std::int64_t i = 0; i < inner; ++i) {
      if (split[i] == kTrain && labels[i] >= 0) rows.push_back(static_cast<LocalId>(i));
    }
    trained = static_cast<std::int64_t>(rows.size());
    labels_ = {backend, queue, labels};
    outputs_ = dataset_.classes;
  } else if (dataset_.task == Task::kRegression) {
    outputs_ = dataset_.classes;
    host_numbers_ = shard.real_labels();
    for (std::int64_t i = 0; i < inner; ++i) {
      if (split[i] != kTrain) continue;
      const auto numbers = host_numbers_.subspan(i * outputs_, outputs_);
      const auto missing = std::ranges::count_if(numbers, [](float v) { return std::isnan(v); });
      if (missing < outputs_) rows.push_back(static_cast<LocalId>(i));
      trained += outputs_ - missing;
    }
    numbers_ = {backend, queue, host_numbers_};
  } else {
    const bool binary = dataset_.task == Task::kBinary;
    outputs_ = binary ? 1 : dataset_.classes;
    std::vector<std::uint8_t> targets =
        binary
            ? binary_targets(shard.labels())
            : std::vector<std::uint8_t>(shard.multi_labels().begin(), shard.multi_labels().end());
    for (std::int64_t i = 0; i < inner; ++i) {
      if (split[i] != kTrain) continue;
      std::int64_t labelled = 0;
      for (std::int64_t c = 0; c < outputs_; ++c) labelled += targets[i * outputs_ + c] != 255;
      if (labelled > 0) rows.push_back(static_cast<LocalId>(i));
      trained += labelled;
    }
    if (binary) host_targets_ = targets;
    multi_labels_ = {backend, queue, std::move(targets)};
  }
  training_rows_ = {backend, queue, std::move(rows)};
  return trained;
}

}  // namespace atl
