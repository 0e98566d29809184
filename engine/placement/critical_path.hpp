// Why an epoch takes as long as it does: the chain of tasks that leaves no gap.
#pragma once

#include <string>
#include <vector>

#include "engine/placement/simulator.hpp"

namespace atl {

// The tasks of the chain that ends last, in order: each starts when the one before it ends.
std::vector<TaskId> critical_path(const TaskGraph& graph, const TaskTimes& times);

// Seconds of the path by what was done: "rank 1 spmm central", "packets 0 -> 2", "all-reduce", most
// first.
struct PathShare {
  std::string what;
  double seconds = 0;
};
std::vector<PathShare> path_shares(const TaskGraph& graph, const TaskTimes& times);

// The simulated epoch in Chrome trace format, named as the traces of real epochs are.
std::string chrome_trace(const TaskGraph& graph, const TaskTimes& times);

}  // namespace atl
