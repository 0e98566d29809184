// Discrete-event simulation of one epoch: who computes, what travels, who waits.
#pragma once

#include <queue>
#include <vector>

#include "engine/placement/fair_shares.hpp"
#include "engine/placement/task_graph.hpp"

namespace atl {

struct TaskTimes {
  std::vector<double> start_s;  // by task
  std::vector<double> end_s;
  double makespan_s = 0;
};

// A rank computes its tasks one after another, each as soon as what it waits for has ended.
// Transfers start after their link's latency and share links and network cards (FairShares). While
// bytes of a rank travel, its computing is slower by Device::progress_s_per_byte.
class Simulator {
 public:
  // The topology must outlive it.
  explicit Simulator(const Topology& topology);

  // Valid until the next call. Deterministic.
  const TaskTimes& run(const TaskGraph& graph);

 private:
  // What a rank is at.
  struct Computing {
    TaskId task = -1;   // -1: it waits
    double left_s = 0;  // alone
    double speed = 1;
  };
  struct Timer {
    double at_s;
    TaskId task;
    bool operator>(const Timer& other) const {
      return at_s != other.at_s ? at_s > other.at_s : task > other.task;
    }
  };

  void prepare(const TaskGraph& graph);
  void make_ready(TaskId task);
  void start_computing(int rank);
  void finish(TaskId task);
  void update_rates();
  double next_event_s() const;
  void advance(double to_s);

  const Topology& topology_;
  FairShares shares_;
  const TaskGraph* graph_ = nullptr;
  double now_s_ = 0;
  TaskTimes times_;
  std::vector<std::int32_t> waits_for_;        // by task: dependencies that have not ended
  std::vector<std::int32_t> successor_begin_;  // by task, into successors_
  std::vector<TaskId> successors_;
  std::vector<std::int32_t> queue_end_;   // by rank, into queue_
  std::vector<std::int32_t> queue_next_;  // by rank
  std::vector<TaskId> queue_;             // computing tasks, by rank and id
  std::vector<Computing> computing_;      // by rank
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;  // delays, latencies
  // Transfers under way, in parallel.
  std::vector<TaskId> travelling_;
  std::vector<FairShares::Flow> flows_;
  std::vector<double> left_bytes_;
  std::vector<double> rates_;
  bool rates_stale_ = false;
  std::vector<TaskId> ended_;  // scratch
};

}  // namespace atl
