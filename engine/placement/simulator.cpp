#include "engine/placement/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What transfers can take from computing at most.
constexpr double kLeastSpeed = 0.05;

}  // namespace

Simulator::Simulator(const Topology& topology) : topology_(topology), shares_(topology) {}

const TaskTimes& Simulator::run(const TaskGraph& graph) {
  ATOLL_ASSERT(graph.ranks() == topology_.ranks());
  graph_ = &graph;
  prepare(graph);
  for (TaskId task = 0; task < graph.size(); ++task) {
    if (waits_for_[static_cast<std::size_t>(task)] == 0 &&
        graph.task(task).kind != TaskKind::kCompute) {
      make_ready(task);
    }
  }
  for (int rank = 0; rank < graph.ranks(); ++rank) start_computing(rank);
  for (;;) {
    update_rates();
    const double next = next_event_s();
    if (next == kNever) break;
    advance(next);
  }
  times_.makespan_s = now_s_;
  for (const double end : times_.end_s) ATOLL_ASSERT(end >= 0, "a task can't be reached");
  return times_;
}

void Simulator::prepare(const TaskGraph& graph) {
  const auto tasks = static_cast<std::size_t>(graph.size());
  const auto ranks = static_cast<std::size_t>(graph.ranks());
  now_s_ = 0;
  times_.start_s.assign(tasks, -1);
  times_.end_s.assign(tasks, -1);
  waits_for_.assign(tasks, 0);
  successor_begin_.assign(tasks + 1, 0);
  queue_end_.assign(ranks + 1, 0);
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto id = static_cast<TaskId>(t);
    const auto dependencies = graph.dependencies(id);
    waits_for_[t] = static_cast<std::int32_t>(dependencies.size());
    for (const TaskId earlier : dependencies) ++successor_begin_[static_cast<std::size_t>(earlier)];
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kCompute) ++queue_end_[static_cast<std::size_t>(task.rank)];
  }
  // Counting sort: from counts to ends, and, as entries are put in backwards, to begins.
  const auto accumulate = [](std::vector<std::int32_t>& counts) {
    std::int32_t sum = 0;
    for (std::int32_t& count : counts) count = sum += count;
    return static_cast<std::size_t>(sum);
  };
  successors_.resize(accumulate(successor_begin_));
  queue_.resize(accumulate(queue_end_));
  std::vector<std::int32_t>& begin = queue_next_;
  begin = queue_end_;
  for (TaskId id = graph.size() - 1; id >= 0; --id) {
    for (const TaskId earlier : graph.dependencies(id)) {
      successors_[static_cast<std::size_t>(--successor_begin_[static_cast<std::size_t>(earlier)])] =
          id;
    }
    const SimTask& task = graph.task(id);
    if (task.kind != TaskKind::kCompute) continue;
    queue_[static_cast<std::size_t>(--begin[static_cast<std::size_t>(task.rank)])] = id;
  }
  computing_.assign(ranks, {});
  timers_ = {};
  travelling_.clear();
  flows_.clear();
  left_bytes_.clear();
  rates_.clear();
  rates_stale_ = false;
}

void Simulator::make_ready(TaskId id) {
  const SimTask& task = graph_->task(id);
  times_.start_s[static_cast<std::size_t>(id)] = now_s_;
  const double delay = task.kind == TaskKind::kTransfer
                           ? topology_.link(task.rank, task.destination).latency_s
                           : task.seconds;
  timers_.push({now_s_ + delay, id});
}

void Simulator::start_computing(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  if (computing_[r].task >= 0 || queue_next_[r] == queue_end_[r]) return;
  const TaskId next = queue_[static_cast<std::size_t>(queue_next_[r])];
  if (waits_for_[static_cast<std::size_t>(next)] > 0) return;
  ++queue_next_[r];
  times_.start_s[static_cast<std::size_t>(next)] = now_s_;
  computing_[r].task = next;
  computing_[r].left_s = graph_->task(next).seconds;
}

void Simulator::finish(TaskId id) {
  const auto t = static_cast<std::size_t>(id);
  times_.end_s[t] = now_s_;
  const SimTask& task = graph_->task(id);
  if (task.kind == TaskKind::kCompute) {
    computing_[static_cast<std::size_t>(task.rank)].task = -1;
    start_computing(task.rank);
  }
  for (std::int32_t s = successor_begin_[t]; s < successor_begin_[t + 1]; ++s) {
    const TaskId later = successors_[static_cast<std::size_t>(s)];
    if (--waits_for_[static_cast<std::size_t>(later)] > 0) continue;
    if (graph_->task(later).kind == TaskKind::kCompute) {
      start_computing(graph_->task(later).rank);
    } else {
      make_ready(later);
    }
  }
}

void Simulator::update_rates() {
  if (!rates_stale_) return;
  rates_stale_ = false;
  shares_.compute(flows_, rates_);
  for (Computing& computing : computing_) computing.speed = 1;
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    for (const int rank : {flows_[f].from, flows_[f].to}) {
      const auto r = static_cast<std::size_t>(rank);
      computing_[r].speed -= topology_.devices[r].progress_s_per_byte * rates_[f];
    }
  }
  for (Computing& computing : computing_) computing.speed = std::max(computing.speed, kLeastSpeed);
}

double Simulator::next_event_s() const {
  double next = timers_.empty() ? kNever : timers_.top().at_s;
  for (const Computing& computing : computing_) {
    if (computing.task >= 0) next = std::min(next, now_s_ + computing.left_s / computing.speed);
  }
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    next = std::min(next, now_s_ + left_bytes_[f] / rates_[f]);
  }
  return next;
}

void Simulator::advance(double to_s) {
  // What would end so soon after the event ends with it: rounding must not make events of its own.
  constexpr double kSame = 1e-12;
  const double step = to_s - now_s_;
  now_s_ = to_s;
  ended_.clear();
  for (Computing& computing : computing_) {
    if (computing.task < 0) continue;
    computing.left_s -= step * computing.speed;
    if (computing.left_s <= kSame) ended_.push_back(computing.task);
  }
  std::size_t kept = 0;
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    left_bytes_[f] -= step * rates_[f];
    if (left_bytes_[f] <= kSame * rates_[f]) {
      ended_.push_back(travelling_[f]);
      rates_stale_ = true;
      continue;
    }
    travelling_[kept] = travelling_[f];
    flows_[kept] = flows_[f];
    rates_[kept] = rates_[f];
    left_bytes_[kept++] = left_bytes_[f];
  }
  travelling_.resize(kept);
  flows_.resize(kept);
  rates_.resize(kept);
  left_bytes_.resize(kept);
  while (!timers_.empty() && timers_.top().at_s <= now_s_ + kSame) {
    const TaskId id = timers_.top().task;
    timers_.pop();
    const SimTask& task = graph_->task(id);
    if (task.kind == TaskKind::kDelay || task.bytes <= 0) {
      ended_.push_back(id);
      continue;
    }
    travelling_.push_back(id);
    flows_.push_back(shares_.flow(task.rank, task.destination));
    rates_.push_back(0);
    left_bytes_.push_back(task.bytes);
    rates_stale_ = true;
  }
  for (const TaskId id : ended_) finish(id);
}

}  // namespace atl
