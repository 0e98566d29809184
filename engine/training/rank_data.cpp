#include "engine/training/rank_data.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace atl {

namespace {

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
                   std::int64_t model_outputs, const PartGroup* group, bool has_part)
    : dataset_(shard.dataset()),
      is_predicted_(model_outputs > 0),
      graph_(shard.graph()),
      group_(group),
      loss_(loss) {
  const bool training = !is_predicted_;
  if (!training) loss_.class_weights.clear();
  host_ids_ = own_rows(graph_.inner_ids, 1, share_.ids);
  const std::span<const float> features = shard.features();
  const bool in_place = backend.host_accessible() && dtype == DType::kF32 && group == nullptr;
  if (in_place || dataset_.features == 0) {
    features_ = {features.data(), rows(), dataset_.features, dataset_.features, dtype};
    mapped_features_ = shard.mapped_features();
  } else {
    feature_memory_ = Tensor(backend, rows(), dataset_.features, dtype);
    copy_features(backend, queue, features);
    features_ = feature_memory_.view();
    if (!has_part) shard.release_features();
  }
  if (has_part) {
    // Ranks of a slice have a part each, so their sums count each node once.
    part_ = std::make_unique<RankData>(backend, queue, group->slice(), shard, split_index, dtype,
                                       loss, model_outputs);
  }
  inner_ids_ = {backend, queue, host_ids_};
  if (group != nullptr) part_ids_ = {backend, queue, graph_.inner_ids};
  outputs_ = model_outputs;
  if (!labelled() && (!training || dataset_.task == Task::kLinkPrediction)) return;

  host_split_ = own_rows(shard.split(split_index), 1, share_.split);
  take_labels(backend, queue, shard);
  take_split(backend, queue, transport);
  if (!training && outputs_ != model_outputs) {
    fail_input("dataset {}: its labels need {} outputs per node, the model has {}", dataset_.name,
               outputs_, model_outputs);
  }
}

void RankData::set_split(Backend& backend, Queue& queue, Transport& transport,
                         std::vector<std::uint8_t> split) {
  ATOLL_ASSERT(std::ssize(split) == rows());
  share_.split = std::move(split);
  host_split_ = share_.split;
  take_split(backend, queue, transport);
}

void RankData::take_split(Backend& backend, Queue& queue, Transport& transport) {
  split_ = {backend, queue, host_split_};
  training_rows_ = {backend, queue, labelled_rows(Split::kTrain)};
  if (dataset_.task == Task::kRegression) {
    label_spread_ = atl::label_spread(host_numbers_, host_split_, outputs_, transport);
  } else {
    count_labels(transport);
  }
  if (!loss_.class_weights.empty()) {
    host_class_weights_ =
        atl::class_weights(loss_, dataset_.task, label_counts(Split::kTrain), transport);
    class_weights_ = {backend, queue, std::span<const float>(host_class_weights_)};
  }
  const Task task = dataset_.task;
  const bool several = task == Task::kMultiLabel || task == Task::kBinary;
  targets_ = {.kind = task == Task::kRegression ? LabelKind::kNumbers
                      : several                 ? LabelKind::kSeveral
                                                : LabelKind::kClass,
              .labels = labels_.span(),
              .multi_labels = multi_labels_.span(),
              .numbers = numbers_.span(),
              .rows = training_rows_.span(),
              .softmax = {class_weights_.span(), loss_.label_smoothing, loss_.focus()},
              .sigmoid = {class_weights_.span(), loss_.focus()},
              .measure = loss_.kind() == LossKind::kAbsoluteError ? ErrorMeasure::kAbsolute
                                                                  : ErrorMeasure::kSquared,
              .own = own_loss(loss_.name)};
  // Checked where options are read; a run must not train another loss without a word.
  ATOLL_ASSERT((loss_.kind() == LossKind::kOwn) == (targets_.own != nullptr), "no loss {}",
               loss_.name);
}

LossTargets RankData::host_targets() const {
  LossTargets targets = targets_;
  const bool binary = dataset_.task == Task::kBinary;
  targets.labels = binary ? std::span<const std::int32_t>() : host_labels_;
  targets.multi_labels = binary ? binary_targets_ : host_multi_labels_;
  targets.numbers = host_numbers_;
  return targets;
}

void RankData::copy_features(Backend& backend, Queue& queue, std::span<const float> of_part) {
  const MatrixView own = feature_memory_.view();
  if (group_ == nullptr) return upload_f32(backend, queue, of_part, own);
  std::int64_t row = 0;
  for (const RowRange range : group_->own_rows(graph_.central, graph_.inner())) {
    upload_f32(backend, queue,
               of_part.subspan(static_cast<std::size_t>(range.begin * own.cols),
                               static_cast<std::size_t>(range.size() * own.cols)),
               own.rows_in({row, row + range.size()}));
    row += range.size();
  }
}

void RankData::count_labels(Transport& transport) {
  const bool several = dataset_.task == Task::kMultiLabel;
  const auto columns = static_cast<std::size_t>(several ? outputs_ : 1);
  const auto each = static_cast<std::size_t>(several                          ? 2 * outputs_
                                             : dataset_.task == Task::kBinary ? 2
                                                                              : outputs_);
  label_counts_.assign(3 * each, 0);
  for (std::size_t i = 0; i < host_split_.size(); ++i) {
    if (host_split_[i] > 2) continue;
    std::int64_t* const counts = label_counts_.data() + host_split_[i] * each;
    if (!several) {
      if (host_labels_[i] >= 0) ++counts[host_labels_[i]];
      continue;
    }
    for (std::size_t c = 0; c < columns; ++c) {
      const std::uint8_t label = host_multi_labels_[i * columns + c];
      if (label <= 1) ++counts[2 * c + label];
    }
  }
  transport.all_reduce(std::span(label_counts_), {"nodes by class"});
}

std::int64_t RankData::labelled_in(Split split) const {
  if (dataset_.task != Task::kRegression) {
    const auto counts = label_counts(split);
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  double labels = 0;
  for (std::int64_t c = 0; c < outputs_; ++c) {
    labels += label_spread_.count[static_cast<std::size_t>(split) * outputs_ + c];
  }
  return static_cast<std::int64_t>(labels);
}

double RankData::loss_total(Split split) const {
  if (host_class_weights_.empty()) return static_cast<double>(labelled_in(split));
  // By class and not by node, so that it is the same for any number of ranks.
  const auto counts = label_counts(split);
  double total = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    total += static_cast<double>(host_class_weights_[c]) * static_cast<double>(counts[c]);
  }
  return total;
}

double RankData::loss_weight(LocalId row) const {
  const auto i = static_cast<std::size_t>(to_index(row));
  const auto outputs = static_cast<std::size_t>(outputs_);
  const auto weight_of = [&](std::size_t label) {
    return host_class_weights_.empty() ? 1.0 : static_cast<double>(host_class_weights_[label]);
  };
  if (dataset_.task == Task::kRegression) {
    const auto numbers = host_numbers_.subspan(i * outputs, outputs);
    return static_cast<double>(
        std::ranges::count_if(numbers, [](float number) { return !std::isnan(number); }));
  }
  if (dataset_.task != Task::kMultiLabel) {
    return host_labels_[i] < 0 ? 0 : weight_of(static_cast<std::size_t>(host_labels_[i]));
  }
  double weight = 0;
  for (std::size_t c = 0; c < outputs; ++c) {
    const std::uint8_t label = host_multi_labels_[i * outputs + c];
    if (label <= 1) weight += weight_of(2 * c + label);
  }
  return weight;
}

std::int64_t RankData::bytes() const {
  return features_.rows * features_.cols * bytes_of(features_.dtype) + graph_.forward.csr.bytes() +
         (graph_.symmetric ? 0 : graph_.backward.csr.bytes()) +
         (part_ != nullptr ? part_->feature_memory_.bytes() : 0);
}

std::vector<LocalId> RankData::labelled_rows(Split split) const {
  std::vector<LocalId> rows;
  const auto outputs = static_cast<std::size_t>(outputs_);
  for (std::size_t i = 0; i < host_split_.size(); ++i) {
    if (host_split_[i] != static_cast<std::uint8_t>(split)) continue;
    bool labelled = false;
    if (dataset_.task == Task::kRegression) {
      labelled = std::ranges::any_of(host_numbers_.subspan(i * outputs, outputs),
                                     [](float number) { return !std::isnan(number); });
    } else if (dataset_.task == Task::kMultiLabel) {
      labelled = std::ranges::any_of(host_multi_labels_.subspan(i * outputs, outputs),
                                     [](std::uint8_t label) { return label != 255; });
    } else {
      labelled = host_labels_[i] >= 0;
    }
    if (labelled) rows.push_back(static_cast<LocalId>(i));
  }
  return rows;
}

void RankData::take_labels(Backend& backend, Queue& queue, const Shard& shard) {
  outputs_ = dataset_.classes;
  if (dataset_.task == Task::kRegression) {
    host_numbers_ = own_rows(shard.real_labels(), outputs_, share_.numbers);
    numbers_ = {backend, queue, host_numbers_};
  } else if (dataset_.task == Task::kMultiLabel) {
    host_multi_labels_ = own_rows(shard.multi_labels(), outputs_, share_.multi_labels);
    multi_labels_ = {backend, queue, host_multi_labels_};
  } else {
    host_labels_ = own_rows(shard.labels(), 1, share_.labels);
    if (dataset_.task == Task::kBinary) {
      outputs_ = 1;
      binary_targets_ = binary_targets(host_labels_);
      multi_labels_ = {backend, queue, std::span<const std::uint8_t>(binary_targets_)};
    } else {
      labels_ = {backend, queue, host_labels_};
    }
  }
}

}  // namespace atl
