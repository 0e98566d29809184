#include "engine/training/rank_data.hpp"

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
                   std::int64_t split_index, DType dtype, std::int64_t model_outputs)
    : dataset_(shard.dataset()), graph_(shard.graph()) {
  const bool training = model_outputs == 0;
  const std::span<const float> features = shard.features();
  if (backend.host_accessible() && dtype == DType::kF32) {
    features_ = {features.data(), graph_.inner(), dataset_.features, dataset_.features, dtype};
  } else {
    feature_memory_ = Tensor(backend, graph_.inner(), dataset_.features, dtype);
    upload_f32(backend, queue, features, feature_memory_.view());
    features_ = feature_memory_.view();
    shard.release_features();
  }
  inner_ids_ = {backend, queue, graph_.inner_ids};
  outputs_ = model_outputs;
  if (!training && !labelled()) return;

  const std::span<const std::uint8_t> split = shard.split(split_index);
  split_ = {backend, queue, split};
  host_split_ = split;
  std::int64_t trained = make_targets(backend, queue, shard, split);
  targets_ = {labels_.span(), multi_labels_.span(), training_rows_.span()};
  transport.all_reduce(std::span(&trained, 1), {"training node count"});
  if (!training && outputs_ != model_outputs) {
    fail_input("dataset {}: its labels need {} outputs per node, the model has {}", dataset_.name,
               outputs_, model_outputs);
  }
  training_total_ = trained;
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
