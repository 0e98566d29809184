// Memory that training takes on a rank, from counts alone.
#pragma once

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

// Rows of a rank, by what they are.
struct RowCounts {
  std::int64_t inner = 0;
  std::int64_t halo = 0;  // of the direction with more
  std::int64_t sent_forward = 0;
  std::int64_t sent_backward = 0;
  // Boundary recomputation of layer 1's input: some rank computes rows; those that this one does;
  // those it still sends.
  bool recomputes = false;
  std::int64_t computed = 0;
  std::int64_t sent_to_layer_1 = 0;

  std::int64_t with_halo() const { return inner + halo; }
};
RowCounts row_counts(const PartitionQuality& partition, int rank,
                     const Recomputation* recomputation = nullptr);

// What Trainer::bytes_needed() says: tensors, parameters and buffers of exact exchange, stored as
// setting.model says.
double training_bytes(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      int rank);
// The same from what epoch_tasks' planned_layers and row_counts say, on a rank with this device.
double training_bytes(const ModelConfig& model, std::span<const LayerConfig> layers,
                      const RowCounts& rows, const Device& device);
// What the shard of the rank holds: features, and the graph in both directions.
double shard_bytes(const EpochSetting& setting, int rank);

}  // namespace atl
