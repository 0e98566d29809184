#include "engine/placement/memory_model.hpp"

#include <algorithm>

namespace atl {

namespace {

// Rows of a rank, by what they are.
struct RowCounts {
  std::int64_t inner = 0;
  std::int64_t halo = 0;  // of the direction with more
  std::int64_t sent_forward = 0;
  std::int64_t sent_backward = 0;

  std::int64_t with_halo() const { return inner + halo; }
};

RowCounts row_counts(const EpochSetting& setting, int rank) {
  const PartitionQuality& quality = setting.partition;
  const auto ranks = quality.parts.size();
  const auto r = static_cast<std::size_t>(rank);
  RowCounts counts;
  counts.inner = quality.parts[r].nodes;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    forward += quality.forward_rows[r * ranks + peer];
    backward += quality.backward_rows[r * ranks + peer];
    counts.sent_forward += quality.forward_rows[peer * ranks + r];
    counts.sent_backward += quality.backward_rows[peer * ranks + r];
  }
  counts.halo = std::max(forward, backward);
  return counts;
}

}  // namespace

double training_bytes(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      int rank) {
  const ModelConfig& model = setting.model;
  const RowCounts rows = row_counts(setting, rank);
  const std::vector<LayerConfig> layers = planned_layers(model, strategy);
  const auto input_rows = [&](const LayerConfig& layer) {
    return layer.order == MultiplyOrder::kMultiplyFirst ? rows.inner : rows.with_halo();
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
    floats += rows.sent_forward * width + (backward ? rows.sent_backward * width : 0);
    if (!layer.cache_aggregate) floats += rows.sent_forward * width;
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
