// Memory that training takes on a rank, from counts alone.
#pragma once

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

// What Trainer::bytes_needed() says: tensors, parameters and exchange buffers of f32 training.
double training_bytes(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      int rank);
// What the shard of the rank holds: features, and the graph in both directions.
double shard_bytes(const EpochSetting& setting, int rank);

}  // namespace atl
