// Memory that training takes on a rank, from counts alone.
#pragma once

#include "engine/placement/epoch_cost.hpp"
#include "engine/program/allocate.hpp"

namespace atl {

// Rows of a rank, by what they are.
struct RowCounts {
  RankRows held;
  std::int64_t sent_forward = 0;
  std::int64_t sent_backward = 0;
  std::int64_t sent_rest = 0;  // forward, but for those that other ranks compute themselves
};
RowCounts row_counts(const PartitionQuality& partition, int rank,
                     const Recomputation* recomputation = nullptr);

// What Trainer::bytes_needed() says on a rank with this device: values, parameters and buffers of
// exact exchange.
double training_bytes(const TrainingPrograms& programs, const RowCounts& rows,
                      const Device& device);
// The same with everything made anew.
double training_bytes(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      int rank);
// More than the part of that which the scopes of layer `layer` account for; -1: all other scopes,
// and parameters. By rank, as `rows` are. Depends on the strategy of this layer alone, so it can be
// kept.
std::vector<double> bytes_bounds(const TrainingPrograms& programs, int layer,
                                 std::span<const RowCounts> rows, const Topology& topology);
// What the shard of the rank holds: features, and the graph in both directions.
double shard_bytes(const EpochSetting& setting, int rank);

}  // namespace atl
