#include "engine/placement/memory_model.hpp"

#include <algorithm>

namespace atl {

namespace {

// What Model::plan_backward declares, and the inputs of norms, in which gradients may lie.
std::int64_t backward_elements(std::span<const LayerConfig> layers, const RowCounts& rows) {
  const auto multiply_first = [](const LayerConfig& layer) {
    return layer.order == MultiplyOrder::kMultiplyFirst;
  };
  const auto gradient = [&](const LayerConfig& layer) {
    return (multiply_first(layer) ? rows.with_halo() : rows.inner) * padded_columns(layer.out);
  };
  std::int64_t total = gradient(layers.back());
  std::int64_t product = 0;
  std::int64_t spare = 0;
  std::int64_t aggregate = 0;
  bool in_product = false;  // the gradient of the output
  for (std::size_t l = layers.size(); l-- > 0;) {
    const LayerConfig& layer = layers[l];
    if (multiply_first(layer))
      product = std::max(product, rows.with_halo() * padded_columns(layer.out));
    if (!multiply_first(layer) && layer.input_gradient) {
      aggregate = std::max(aggregate, rows.with_halo() * padded_columns(layer.in));
    }
    const std::int64_t input_gradient = l > 0 ? gradient(layers[l - 1]) : 0;
    if (layer.tail.norm != Norm::kNone) {
      total += std::max(rows.inner * padded_columns(layer.out), input_gradient);
      in_product = false;
    } else {
      std::int64_t& to = in_product ? spare : product;
      to = std::max(to, input_gradient);
      in_product = !in_product;
    }
  }
  return total + product + spare + aggregate;
}

}  // namespace

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
  return training_bytes(setting.model, planned_layers(setting.model, strategy),
                        row_counts(setting.partition, rank,
                                   strategy.size() > 1 ? strategy[1].recomputation.get() : nullptr),
                        setting.topology.devices[static_cast<std::size_t>(rank)]);
}

double training_bytes(const ModelConfig& model, std::span<const LayerConfig> layers,
                      const RowCounts& rows, const Device& device) {
  const auto input_rows = [&](const LayerConfig& layer) {
    const bool reads_halo =
        layer.order == MultiplyOrder::kAggregateFirst || (layer.index == 1 && rows.recomputes);
    return reads_halo ? rows.with_halo() : rows.inner;
  };
  std::int64_t elements = backward_elements(layers, rows);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerConfig& layer = layers[l];
    const bool multiply_first = layer.order == MultiplyOrder::kMultiplyFirst;
    const std::int64_t width = padded_columns(multiply_first ? layer.out : layer.in);
    if (!multiply_first) elements += rows.inner * padded_columns(layer.in);  // the aggregate
    elements += (l + 1 < layers.size() ? input_rows(layers[l + 1]) : rows.inner) *
                padded_columns(layer.out);
    // Send buffers of training, forward and backward, and of evaluation.
    const bool backward = multiply_first || layer.input_gradient;
    const std::int64_t sent = layer.index == 1 ? rows.sent_to_layer_1 : rows.sent_forward;
    elements += sent * width + (backward ? rows.sent_backward * width : 0);
    if (!layer.cache_aggregate) elements += sent * width;
  }
  if (rows.recomputes) {
    // Aggregates, outputs before their factors, inputs of a root weight and of a norm.
    const LayerConfig& first = layers[0];
    const std::int64_t in = padded_columns(first.in);
    const std::int64_t out = padded_columns(first.out);
    elements += rows.computed * (in + out);
    if (has_root_weight(model.kind)) elements += rows.computed * in;
    if (first.tail.norm != Norm::kNone) elements += rows.computed * out;
  }
  if (model.input_dropout > 0 || input_rows(layers[0]) > rows.inner) {
    elements += input_rows(layers[0]) * padded_columns(model.features);
  }
  const ParameterSizes parameters =
      parameter_sizes(layers, has_root_weight(model.kind), device.kind == "cuda");
  return static_cast<double>(elements * bytes_of(model.dtype) + parameters.bytes(model.dtype));
}

double shard_bytes(const EpochSetting& setting, int rank) {
  const PartQuality& part = setting.partition.parts[static_cast<std::size_t>(rank)];
  const double graph = 8 * static_cast<double>(part.nodes) + 4 * static_cast<double>(part.edges);
  return 4 * static_cast<double>(part.nodes * setting.model.features) + 2 * graph;
}

}  // namespace atl
