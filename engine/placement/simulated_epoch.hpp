// The epochs of a training as they are simulated, one of each kind.
#pragma once

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

struct SimulatedEpoch {
  EpochKind kind;
  TaskGraph tasks;
  TaskTimes times;
};
// As the setting has them, whatever its kind. share: see expected_messages().
std::vector<SimulatedEpoch> simulate_epochs(const EpochSetting& setting,
                                            std::span<const LayerPlan> layers, TaskDetail detail,
                                            std::optional<double> share = std::nullopt);

// The tasks of an evaluation, as those of the epoch's forward pass: norms have their statistics
// then, and nothing is dropped. epoch: of exact messages, TaskDetail::kPhases.
TaskGraph evaluation_tasks(const TaskGraph& epoch);

// Means over all epochs.
double mean_seconds(std::span<const SimulatedEpoch> epochs);
PacketSums mean_packet_sums(std::span<const SimulatedEpoch> epochs);
double mean_lower_bound_seconds(const Topology& topology, std::span<const SimulatedEpoch> epochs,
                                double network_speed = 1);

}  // namespace atl
