// Why an epoch takes as long as it does: the chain of tasks that leaves no gap.
#pragma once

#include <string>
#include <vector>

#include "engine/placement/simulated_epoch.hpp"

namespace atl {

// The tasks of the chain that ends last, in order: each starts when the one before it ends. Of
// several epochs it ends with the work of the last one.
std::vector<TaskId> critical_path(const TaskGraph& graph, const TaskTimes& times);

// Seconds of the path in one epoch, the last of several, by what was done: "rank 1 spmm central",
// "packets 0 -> 2", "all-reduce", most first. Of all kinds of epochs: the mean.
struct PathShare {
  std::string what;
  double seconds = 0;
};
std::vector<PathShare> path_shares(std::span<const SimulatedEpoch> epochs);

// The simulated epoch, the last one of several, in Chrome trace format, named as the traces of real
// epochs are. Messages that are late arrive behind its end.
std::string chrome_trace(const TaskGraph& graph, const TaskTimes& times);

}  // namespace atl
