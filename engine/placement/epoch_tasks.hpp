// An epoch of training as tasks for the simulator: the costs of its blocks in the order that the
// program's schedule has (engine/program/schedule.hpp).
#pragma once

#include "engine/placement/simulator.hpp"
#include "engine/placement/task_writer.hpp"

namespace atl {

// An epoch of the setting's kind. Where messages are late, it is one of several equal epochs.
TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerPlan> layers,
                      TaskDetail detail);
// The same of these pieces of it alone. The graph is the writer's.
const TaskGraph& write_tasks(const EpochSetting& setting, const EpochCosts& costs,
                             std::span<const int> pieces, TaskWriter& writer);

// When the ranks have computed an epoch of the graph.
double epoch_end_seconds(const TaskGraph& graph, const TaskTimes& times, int epoch);
// How long an epoch takes: all of the graph; of several epochs, one of the second half of them in
// the mean, because in the first ones the wire is not as busy as it will be.
double epoch_seconds(const TaskGraph& graph, const TaskTimes& times);

// An epoch falls into stages, each ended by a sum over all ranks that all of them wait for, so that
// the seconds of stages add up, unless messages are late. Calls visit(stage) for each of them, a
// stage being some of these pieces.
template <typename Visit>
void for_each_stage(const EpochCosts& costs, std::span<const int> pieces, const Visit& visit) {
  std::size_t first = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (p + 1 < pieces.size() && !costs.piece(pieces[p]).ends_stage()) continue;
    visit(pieces.subspan(first, p + 1 - first));
    first = p + 1;
  }
}

// Figures of the last epoch: seconds that each rank computes, and the contents of all packets.
std::vector<double> computing_seconds(const TaskGraph& graph);
struct PacketSums {
  double bytes = 0;
  double rows = 0;
  double group_bytes = 0;  // of conversions, besides
};
PacketSums packet_sums(const TaskGraph& graph);
// No schedule of these tasks can end earlier: the busiest rank's work, or a network card's bytes.
double lower_bound_seconds(const Topology& topology, const TaskGraph& graph,
                           double network_speed = 1);

}  // namespace atl
