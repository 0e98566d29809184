// An epoch of training as tasks for the simulator: the same order of work as engine/exchange's
// the schedule of a program has (engine/program/schedule.hpp).
#pragma once

#include <compare>
#include <memory>

#include "engine/placement/cost_model.hpp"
#include "engine/placement/task_graph.hpp"
#include "partition/quality.hpp"
#include "partition/recomputation.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// What a plan decides about one layer.
struct LayerStrategy {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // only where the layer's input is constant
  double bits = 32;              // per value of a message, mean over the messages
  // Of halo rows of its input, only in layer 1 above a kept aggregate; null: none.
  std::shared_ptr<const Recomputation> recomputation = nullptr;
  auto operator<=>(const LayerStrategy&) const = default;
};

// Everything an epoch's time depends on. All of it must outlive a call that gets it.
struct EpochSetting {
  const Topology& topology;
  const ModelConfig& model;
  // Of the cut: rows, edges and messages; part p is on rank p.
  const PartitionQuality& partition;
  const PhaseCorrections& corrections;
  bool overlap = true;
  SumRoute gradient_sum = {};
};

// The layers of the model under a strategy.
std::vector<LayerConfig> planned_layers(const ModelConfig& model,
                                        std::span<const LayerStrategy> strategy);
// Elements of what is trained, with the gaps between parameters.
std::int64_t parameter_count(std::span<const LayerConfig> layers, bool root_weight);

// What the layers of a model do without a plan.
std::vector<LayerStrategy> default_strategy(const ModelConfig& model);

// On more ranks than these an epoch has so many packets that strategy search simulates them
// approximately.
inline constexpr int kMostExactRanks = 32;

enum class TaskDetail {
  kPhases,  // a task per span of a trace
  // Phases that follow each other without a wait are one task. On more than kMostExactRanks the
  // packets of an exchange from one rank to the ranks of another host are one, too, which is an
  // approximation: they end together.
  kMerged,
};
TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                      TaskDetail detail);

// An epoch falls into stages, each ended by a sum over all ranks that all of them wait for, so that
// the seconds of stages add up. By stage: the layers whose strategy it depends on.
std::vector<std::vector<int>> epoch_stages(const EpochSetting& setting);
// Adds the tasks of one stage alone, merged.
void add_stage_tasks(const EpochSetting& setting, std::span<const LayerStrategy> strategy,
                     int stage, TaskGraph& graph);

// No schedule of these tasks can end earlier: the busiest rank's work, or a network card's bytes.
double lower_bound_seconds(const Topology& topology, const TaskGraph& graph);

}  // namespace atl
