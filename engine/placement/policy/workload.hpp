// The work, messages and waits of each rank under a plan, layer by layer: counted from the tasks of
// an epoch, without simulating it.
#pragma once

#include <vector>

#include "engine/placement/task_graph.hpp"
#include "engine/placement/topology.hpp"

namespace atl {

// Tasks of one rank in one layer, both directions together. Seconds.
struct GroupLoad {
  double compute = 0;
  double collective = 0;    // that all ranks wait for
  double sent_inside = 0;   // messages to ranks of its host, one after another
  double sent_outside = 0;  // its bytes over the host's card alone, or its links where slower
  double received_inside = 0;
  double received_outside = 0;
  double arrival = 0;  // of all messages, if every rank sent at once and cards were shared
  double window = 0;   // what it computes between its own messages and the first it waits for
  double exposed = 0;  // arrival beyond the window
};

struct Workload {
  int ranks = 0;
  int slots = 0;                     // layers, and the last one for what lies outside of them
  std::vector<GroupLoad> groups;     // [rank * slots + slot]
  std::vector<double> pair_seconds;  // [(slot * ranks + from) * ranks + to], alone on the machine
  std::vector<double> computing;     // by rank
  std::vector<double> card_seconds;  // by host: the fuller direction
  double lower_bound = 0;
  double slowest_rank = 0;   // greatest sum over slots of what a rank computes and waits for
  double slowest_steps = 0;  // sum over slots of the greatest

  const GroupLoad& group(int rank, int slot) const {
    return groups[static_cast<std::size_t>(rank) * static_cast<std::size_t>(slots) +
                  static_cast<std::size_t>(slot)];
  }
};

// `graph` by phase (TaskDetail::kPhases); tasks name layers below `layers`, or none.
Workload count_workload(const Topology& topology, const TaskGraph& graph, int layers);

// Layers that the tasks name: one more than the greatest.
int layers_of(const TaskGraph& graph);
// Slot of a task in a workload of `layers` layers.
inline int slot_of(const SimTask& task, int layers) { return task.layer < 0 ? layers : task.layer; }

}  // namespace atl
