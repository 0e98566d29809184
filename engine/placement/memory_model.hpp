// Memory that training takes on a rank, from counts alone.
#pragma once

#include "engine/placement/epoch_cost.hpp"

namespace atl {

// The memory that training takes on a rank, by what it is for.
struct TrainingMemory {
  std::int64_t values = 0;      // of the layers, in one block, and of the validation loss
  std::int64_t parameters = 0;  // with gradients and the optimizer's moments
  std::int64_t messages = 0;    // what they are packed into, and rows that are kept of them

  std::int64_t total() const { return values + parameters + messages; }
};
// device_kind: "cpu" or "cuda". evaluated: the counts of evaluations where training is on blocks;
// null: those of training. On blocks it is about what they take.
TrainingMemory training_memory(const TrainingPrograms& programs, const RankCounts& counts,
                               const std::string& device_kind, const ExchangeOptions& exchange = {},
                               const RankCounts* evaluated = nullptr);

// The data that a rank holds.
struct DataMemory {
  std::int64_t features = 0;
  std::int64_t graph = 0;

  std::int64_t total() const { return features + graph; }
};
struct DataCounts {
  std::int64_t nodes = 0;     // of the part
  std::int64_t own = 0;       // of these, those whose features this rank has
  std::int64_t edges = 0;     // that come in
  std::int64_t features = 0;  // columns
  bool weighted = false;
  bool symmetric = false;  // one graph for both directions
  bool covered = false;    // edges are held twice: as stored, and as messages of a cover need them
  DType dtype = DType::kF32;
};
DataMemory data_memory(const DataCounts& counts);

// The mode of the setting with the widths of the layers; where it has none, exact, which needs more
// than most widths do.
ExchangeOptions exchange_of(const EpochSetting& setting, std::span<const LayerPlan> layers);
// The bytes of Trainer::bytes_needed() by rank: values, parameters and buffers of that exchange.
std::vector<double> training_bytes(const EpochSetting& setting, std::span<const LayerPlan> layers);
// More than the part of that which the scopes of layer `layer` account for; -1: all other scopes,
// and parameters. By rank, as `counts` are. Depends on the plan of this layer and on the exchange
// alone, so it can be kept.
std::vector<double> bytes_bounds(const TrainingPrograms& programs, int layer,
                                 std::span<const RankCounts> counts, const Topology& topology,
                                 const ExchangeOptions& exchange = {});
// By how much ranks lack memory for these bytes, all together.
double missing_bytes(const Topology& topology, std::span<const double> bytes);
// The bytes of the shard of the rank of these counts of the graph: features, and the graph in both
// directions.
double shard_bytes(const EpochSetting& setting, const RankCounts& counts);

}  // namespace atl
