// Epochs in stages as a plan sees them: which layers each rank has, and how long an epoch takes in
// which nodes flow through the ranks in chunks (docs/stages.md).
#pragma once

#include <span>
#include <vector>

#include "engine/placement/memory_model.hpp"
#include "engine/placement/search.hpp"
#include "engine/placement/simulated_epoch.hpp"
#include "engine/program/stages.hpp"

namespace atl {

struct StageSetting {
  const Topology& topology;
  const ModelConfig& model;
  const PartitionQuality& uncut;  // the graph as one part
  const PhaseCorrections& corrections;
  int chunks = 1;
};

struct StagePlan {
  StageCut cut;
  std::vector<LayerPlan> layers;  // of which the bits, the same for all, were chosen
  SimulatedEpoch epoch;           // that reads rows of the last one
  std::vector<double> bytes;      // of memory, by rank: values, buffers and data, about
  double missing_bytes = 0;

  double network_speed = 1;
  SumRoute gradient_sum;

  PlanCost cost() const { return {epoch.times.makespan_s, missing_bytes}; }
};

// A stage on each rank, in the order of the ranks: the slowest one is as fast as it can be where
// layers stay whole, each at its rank's own rates. Messages have those of the widths `bits` with
// which an epoch is fastest. Throws Error{kOption} for models that stages don't allow.
StagePlan find_stage_plan(const StageSetting& setting, std::span<const int> bits);

}  // namespace atl
