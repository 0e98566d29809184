// An epoch of training as tasks for the simulator: the same order of work as engine/exchange's
// aggregate schedule and engine/nn's layers have.
#pragma once

#include "engine/placement/cost_model.hpp"
#include "engine/placement/task_graph.hpp"
#include "partition/quality.hpp"

namespace atl {

// What a plan decides about one layer.
struct LayerStrategy {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // only where the layer's input is constant
  double bits = 32;              // per value of a message, mean over the messages
};

// Everything an epoch's time depends on. All of it must outlive a call that gets it.
struct EpochSetting {
  const Topology& topology;
  const ModelConfig& model;
  // Of the cut: rows, edges and messages; part p is on rank p.
  const PartitionQuality& partition;
  const PhaseCorrections& corrections;
  bool overlap = true;
};

// The layers of the model under a strategy.
std::vector<LayerConfig> planned_layers(const ModelConfig& model,
                                        std::span<const LayerStrategy> strategy);
// Elements that hold what is trained, with the gaps between parameters.
std::int64_t parameter_count(std::span<const LayerConfig> layers, bool root_weight);

// What the layers of a model do without a plan.
std::vector<LayerStrategy> default_strategy(const ModelConfig& model);

enum class TaskDetail {
  kPhases,  // a task per span of a trace
  kMerged,  // phases that follow each other without a wait are one task
};
TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      TaskDetail detail);

// No schedule of these tasks can end earlier: the busiest rank's work, or a network card's bytes.
double lower_bound_seconds(const Topology& topology, const TaskGraph& graph);

}  // namespace atl
