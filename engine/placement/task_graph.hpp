// One epoch as tasks of a discrete-event simulation: what runs on which rank in which order, what
// travels between which ranks, and what waits for what.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/topology.hpp"

namespace atl {

using TaskId = int;

enum class TaskKind : std::uint8_t {
  kCompute,   // occupies its rank; the computing tasks of a rank run in the order of their ids
  kTransfer,  // occupies links; runs beside computing
};

struct Task {
  TaskKind kind = TaskKind::kCompute;
  const char* name = "";       // string literal: the name of the span in a trace of a real epoch
  const char* direction = "";  // "forward", "backward" or ""
  int layer = -1;
  int rank = -1;             // compute: where; transfer: the sender
  int destination = -1;      // transfer: the receiver
  double seconds = 0;        // compute: alone on its rank
  double bytes = 0;          // transfer
  int dependency_begin = 0;  // into TaskGraph::dependencies
  int dependency_end = 0;
};

struct TaskGraph {
  int ranks = 0;
  std::vector<Task> tasks;
  std::vector<TaskId> dependencies;  // all of them earlier tasks

  // Returns the id of the task, which starts when all of `after` have ended.
  TaskId add(Task task, std::span<const TaskId> after);
};

struct TaskTimes {
  std::vector<double> start_s;  // by task
  std::vector<double> end_s;
  double makespan_s = 0;
};

// Runs the tasks on the machine. Transfers under way at the same time share links and hosts by
// max-min fairness; computing slows down by what transfers of its rank take from the processor.
class Simulator {
 public:
  explicit Simulator(const Topology& topology);
  // Valid until the next call.
  const TaskTimes& run(const TaskGraph& graph);
};

}  // namespace atl
