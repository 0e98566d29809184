#include "engine/placement/memory_model.hpp"

#include <algorithm>

namespace atl {

RowCounts row_counts(const PartitionQuality& partition, int rank,
                     const Recomputation* recomputation) {
  const auto ranks = partition.parts.size();
  const auto r = static_cast<std::size_t>(rank);
  RowCounts counts;
  counts.inner = partition.parts[r].nodes;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  counts.recomputes = recomputation != nullptr && recomputation->any();
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<int>(peer);
    const std::int64_t received = partition.forward_rows[r * ranks + peer];
    const std::int64_t sent = partition.forward_rows[peer * ranks + r];
    if (counts.recomputes && recomputation->computes(rank, p)) counts.computed += received;
    if (!counts.recomputes || !recomputation->computes(p, rank)) counts.sent_to_layer_1 += sent;
    forward += received;
    backward += partition.backward_rows[r * ranks + peer];
    counts.sent_forward += sent;
    counts.sent_backward += partition.backward_rows[peer * ranks + r];
  }
  counts.halo = std::max(forward, backward);
  return counts;
}

double training_bytes(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      int rank) {
  return training_bytes(
      setting.model, planned_layers(setting.model, strategy),
      row_counts(setting.partition, rank,
                 strategy.size() > 1 ? strategy[1].recomputation.get() : nullptr));
}

double training_bytes(const ModelConfig& model, std::span<const LayerConfig> layers,
                      const RowCounts& rows) {
  const auto input_rows = [&](const LayerConfig& layer) {
    const bool reads_halo =
        layer.order == MultiplyOrder::kAggregateFirst || (layer.index == 1 && rows.recomputes);
    return reads_halo ? rows.with_halo() : rows.inner;
  };
  std::int64_t floats = 0;
  std::int64_t aggregate_input = 0;
  std::int64_t gradient = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerConfig& layer = layers[l];
    const bool multiply_first = layer.order == MultiplyOrder::kMultiplyFirst;
    const std::int64_t width = multiply_first ? layer.out : layer.in;
    if (!multiply_first) floats += rows.inner * layer.in;                  // the aggregate
    if (layer.tail.norm != Norm::kNone) floats += rows.inner * layer.out;  // the norm's input
    floats += (l + 1 < layers.size() ? input_rows(layers[l + 1]) : rows.inner) * layer.out;
    if (multiply_first || layer.input_gradient) {
      aggregate_input = std::max(aggregate_input, rows.with_halo() * width);
    }
    gradient = std::max(gradient, (multiply_first ? rows.with_halo() : rows.inner) * layer.out);
    // Send buffers of training, forward and backward, and of evaluation.
    const bool backward = multiply_first || layer.input_gradient;
    const std::int64_t sent = layer.index == 1 ? rows.sent_to_layer_1 : rows.sent_forward;
    floats += sent * width + (backward ? rows.sent_backward * width : 0);
    if (!layer.cache_aggregate) floats += sent * width;
  }
  if (rows.recomputes) {
    // Aggregates, outputs before their factors, inputs of a root weight and of a norm.
    const LayerConfig& first = layers[0];
    floats += rows.computed * (first.in + first.out);
    if (has_root_weight(model.kind)) floats += rows.computed * first.in;
    if (first.tail.norm != Norm::kNone) floats += rows.computed * first.out;
  }
  if (model.input_dropout > 0 || input_rows(layers[0]) > rows.inner) {
    floats += input_rows(layers[0]) * model.features;
  }
  floats += aggregate_input + 2 * gradient;
  floats += 4 * parameter_count(layers, has_root_weight(model.kind));  // with gradient and moments
  return 4 * static_cast<double>(floats);
}

double shard_bytes(const EpochSetting& setting, int rank) {
  const PartQuality& part = setting.partition.parts[static_cast<std::size_t>(rank)];
  const double graph = 8 * static_cast<double>(part.nodes) + 4 * static_cast<double>(part.edges);
  return 4 * static_cast<double>(part.nodes * setting.model.features) + 2 * graph;
}

}  // namespace atl
