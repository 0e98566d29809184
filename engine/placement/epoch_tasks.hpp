// An epoch of training as tasks for the simulator: the costs of its blocks in the order that the
// program's schedule has (engine/program/schedule.hpp).
#pragma once

#include "engine/placement/epoch_cost.hpp"
#include "engine/placement/simulator.hpp"

namespace atl {

// On more ranks than these an epoch has so many packets that layers search simulates them
// approximately.
inline constexpr int kMostExactRanks = 32;

enum class TaskDetail {
  kPhases,  // a task per span of a trace
  // Phases that follow each other without a wait are one task. On more than kMostExactRanks the
  // packets of an exchange from one rank to the ranks of another host are one, too, which is an
  // approximation: they end together.
  kMerged,
};
// An epoch of the setting's kind. Where messages are late, it is one of several equal epochs.
TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerPlan> layers,
                      TaskDetail detail);
void add_epoch_tasks(const EpochSetting& setting, const EpochCosts& costs,
                     std::span<const int> pieces, TaskDetail detail, TaskGraph& graph);

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
// Adds the tasks of one stage alone, merged.
void add_stage_tasks(const EpochSetting& setting, const EpochCosts& costs,
                     std::span<const int> stage, TaskGraph& graph);

// Figures of the last epoch: seconds that each rank computes, and the contents of all packets.
std::vector<double> computing_seconds(const TaskGraph& graph);
struct PacketSums {
  double bytes = 0;
  double rows = 0;
  double group_bytes = 0;  // of conversions, besides
};
PacketSums packet_sums(const TaskGraph& graph);
// No schedule of these tasks can end earlier: the busiest rank's work, or a network card's bytes.
double lower_bound_seconds(const Topology& topology, const TaskGraph& graph);

}  // namespace atl
