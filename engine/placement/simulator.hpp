// Discrete-event simulation of one epoch: who computes, what travels, who waits.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
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
// bytes of a rank travel, its computing is slower by Device::progress_s_per_byte and polling_share.
class Simulator {
 public:
  // The topology must outlive it. A transfer between hosts ends as soon as no more than `tolerance`
  // of its bytes are left when another one ends: on large machines, where thousands of transfers
  // end one by one, their rates then change less often. 0: exact. network_speed: of transfers
  // between hosts, times the rates of the topology.
  explicit Simulator(const Topology& topology, double tolerance = 0, double network_speed = 1);

  // Valid until the next call. Deterministic.
  const TaskTimes& run(const TaskGraph& graph);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  // The task that a rank is at.
  struct Computing {
    TaskId task = -1;   // -1: it waits, and end_s is kNever
    double left_s = 0;  // alone, at `since_s`
    double since_s = 0;
    double speed = 1;
    double end_s = kNever;  // at this speed
  };
  // When something happens to a task: its transfer starts, or it ends.
  struct Timer {
    double at;
    TaskId task;
    bool ends;
    double early = 0;  // of a transfer between hosts: when it may end with others
    bool operator>(const Timer& other) const {
      return at != other.at ? at > other.at : task > other.task;
    }
  };
  // The earliest is at the top. Keeps its memory when cleared.
  class Timers {
   public:
    bool empty() const { return heap_.empty(); }
    const Timer& top() const { return heap_.front(); }
    void push(const Timer& timer) {
      heap_.push_back(timer);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
    void pop() {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
    }
    void clear() { heap_.clear(); }

   private:
    std::vector<Timer> heap_;
  };
  // Transfers that always have the same rate, because they pass the same cards and their links are
  // equally fast: one ends when `served` bytes of each have gone since the beginning.
  struct Stream {
    double served = 0;
    double rate = 0;  // bytes/s of each transfer
    Timers ends;
  };

  void sort_into_streams();
  void prepare(const TaskGraph& graph);
  void make_ready(TaskId task);
  void start_transfer(TaskId task);
  void start_computing(int rank);
  void finish(TaskId task);
  // A transfer starts (1) or has ended (-1).
  void count_transfer(const SimTask& task, int change);
  void advance_streams();
  void end_transfers();
  void end_transfers(Stream& stream, double served);
  void update_rates();
  void update_speeds();
  double next_event_s() const;
  // The time after an event in which others end with it: rounding must not make events of its own.
  // In an epoch of hours the clock itself is coarser than 1e-12 s.
  double same_s() const { return 1e-12 + 1e-15 * now_s_; }
  void advance(double to_s);
  int stream_of(const SimTask& task) const {
    return stream_of_[static_cast<std::size_t>(task.rank * topology_.ranks() + task.destination)];
  }

  const Topology& topology_;
  double tolerance_;
  double network_speed_;
  bool slows_;         // transfers take from computing
  FairShares shares_;  // a flow per stream
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
  Timers timers_;                         // delays, latencies, transfers inside a host
  std::vector<std::int32_t> stream_of_;   // by pair of ranks; -1: inside a host
  std::vector<std::vector<std::int32_t>> host_streams_;  // by host: those that pass its card
  std::vector<Stream> streams_;
  std::vector<std::int32_t> active_;  // streams with transfers under way, in `ends`
  double streams_at_s_ = 0;           // when their `served` was brought up to date
  double stream_end_s_ = 0;           // when the first of their transfers ends
  // Transfers of each rank, [rank * streams + stream], bytes/s inside its host, and how many there
  // are of both: what slows its computing. Empty where nothing does.
  std::vector<std::int32_t> transfers_;
  std::vector<double> inside_;
  std::vector<std::int32_t> under_way_;
  bool rates_stale_ = false;
  bool speeds_stale_ = false;
  std::vector<TaskId> ended_;  // scratch
};

}  // namespace atl
