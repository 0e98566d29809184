#include "engine/placement/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.hpp"

namespace atl {

namespace {

// The least speed that transfers leave to computing.
constexpr double kLeastSpeed = 0.05;

bool slows(const Device& device) {
  return device.progress_s_per_byte > 0 || device.polling_share > 0;
}

}  // namespace

Simulator::Simulator(const Topology& topology, double tolerance, double network_speed)
    : topology_(topology),
      tolerance_(tolerance),
      network_speed_(network_speed),
      slows_(std::any_of(topology.devices.begin(), topology.devices.end(), slows)),
      shares_(topology, tolerance) {
  sort_into_streams();
}

void Simulator::sort_into_streams() {
  const int ranks = topology_.ranks();
  host_streams_.resize(topology_.hosts.size());
  std::map<std::tuple<int, int, double>, std::int32_t> known;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const FairShares::Flow flow = shares_.flow(from, to);
      std::int32_t stream = -1;
      if (flow.send >= 0) {
        const std::int32_t next = shares_.flows();
        stream = known.try_emplace({flow.send, flow.receive, flow.limit}, next).first->second;
        if (stream == next) {
          shares_.add(flow, 0);
          for (const int rank : {from, to}) {
            const int host = topology_.device(rank).host;
            host_streams_[static_cast<std::size_t>(host)].push_back(stream);
          }
        }
      }
      stream_of_.push_back(stream);
    }
  }
  streams_.resize(static_cast<std::size_t>(shares_.flows()));
}

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
  timers_.clear();
  for (Stream& stream : streams_) {
    stream.served = stream.rate = 0;
    stream.ends.clear();
  }
  active_.clear();
  shares_.count_none();
  streams_at_s_ = 0;
  stream_end_s_ = kNever;
  if (slows_) {
    transfers_.assign(ranks * streams_.size(), 0);
    inside_.assign(ranks, 0);
    under_way_.assign(ranks, 0);
  }
  rates_stale_ = speeds_stale_ = false;
}

void Simulator::make_ready(TaskId id) {
  const SimTask& task = graph_->task(id);
  times_.start_s[static_cast<std::size_t>(id)] = now_s_;
  if (task.kind == TaskKind::kTransfer) {
    double posted_s = task.queues ? 0 : now_s_;
    for (const TaskId earlier : graph_->dependencies(id)) {
      if (!task.queues || graph_->task(earlier).kind == TaskKind::kTransfer) continue;
      posted_s = std::max(posted_s, times_.end_s[static_cast<std::size_t>(earlier)]);
    }
    const double latency_s = topology_.link(task.rank, task.destination).latency_s;
    timers_.push({std::max(now_s_, posted_s + latency_s), id, false});
  } else {
    timers_.push({now_s_ + task.seconds, id, true});
  }
}

void Simulator::start_transfer(TaskId id) {
  const SimTask& task = graph_->task(id);
  if (task.bytes <= 0) {
    ended_.push_back(id);
    return;
  }
  count_transfer(task, 1);
  const int stream = stream_of(task);
  if (stream < 0) {
    timers_.push(
        {now_s_ + task.bytes / topology_.link(task.rank, task.destination).bytes_per_s, id, true});
    return;
  }
  Stream& own = streams_[static_cast<std::size_t>(stream)];
  if (own.ends.empty()) active_.push_back(stream);
  const double bytes = task.bytes / task.packets;
  const double end = own.served + bytes;
  own.ends.push({end, id, true, end - tolerance_ * bytes});
}

void Simulator::count_transfer(const SimTask& task, int change) {
  const int stream = stream_of(task);
  if (stream >= 0) {
    advance_streams();
    shares_.count(stream, change * task.packets);
    rates_stale_ = true;
  }
  if (!slows_) return;
  speeds_stale_ = true;
  const auto count = [&](int rank, int packets) {
    const auto r = static_cast<std::size_t>(rank);
    under_way_[r] += change * packets;
    if (stream < 0) {
      inside_[r] += change * topology_.link(task.rank, task.destination).bytes_per_s;
    } else {
      transfers_[r * streams_.size() + static_cast<std::size_t>(stream)] += change * packets;
    }
  };
  count(task.rank, task.packets);
  for (int p = 0; p < task.packets; ++p) count(task.destination + p, 1);
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
  computing_[r].since_s = now_s_;
  computing_[r].end_s = now_s_ + computing_[r].left_s / computing_[r].speed;
}

void Simulator::finish(TaskId id) {
  const auto t = static_cast<std::size_t>(id);
  times_.end_s[t] = now_s_;
  const SimTask& task = graph_->task(id);
  if (task.kind == TaskKind::kCompute) {
    Computing& computing = computing_[static_cast<std::size_t>(task.rank)];
    computing.task = -1;
    computing.end_s = kNever;
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
  if (rates_stale_) {
    const std::span<const double> rates = shares_.compute();
    double left_s = kNever;
    for (const std::int32_t i : active_) {
      Stream& stream = streams_[static_cast<std::size_t>(i)];
      stream.rate = network_speed_ * rates[static_cast<std::size_t>(i)];
      left_s = std::min(left_s, (stream.ends.top().at - stream.served) / stream.rate);
    }
    stream_end_s_ = now_s_ + std::max(0.0, left_s);
  }
  if (speeds_stale_) update_speeds();
  rates_stale_ = speeds_stale_ = false;
}

void Simulator::update_speeds() {
  for (std::size_t r = 0; r < computing_.size(); ++r) {
    const Device& device = topology_.devices[r];
    if (!slows(device)) continue;
    double bytes_per_s = inside_[r];
    const std::int32_t* const own = transfers_.data() + r * streams_.size();
    for (const std::int32_t stream : host_streams_[static_cast<std::size_t>(device.host)]) {
      bytes_per_s += own[stream] * streams_[static_cast<std::size_t>(stream)].rate;
    }
    Computing& own_work = computing_[r];
    own_work.left_s -= (now_s_ - own_work.since_s) * own_work.speed;
    own_work.since_s = now_s_;
    const double polling = under_way_[r] > 0 ? device.polling_share : 0;
    own_work.speed = std::max(1 - polling - device.progress_s_per_byte * bytes_per_s, kLeastSpeed);
    if (own_work.task < 0) continue;
    own_work.end_s = now_s_ + std::max(own_work.left_s, 0.0) / own_work.speed;
  }
}

double Simulator::next_event_s() const {
  double next = timers_.empty() ? stream_end_s_ : std::min(stream_end_s_, timers_.top().at);
  for (const Computing& computing : computing_) next = std::min(next, computing.end_s);
  return next;
}

void Simulator::advance_streams() {
  const double step = now_s_ - streams_at_s_;
  if (step <= 0) return;
  streams_at_s_ = now_s_;
  for (const std::int32_t i : active_) {
    Stream& stream = streams_[static_cast<std::size_t>(i)];
    stream.served += step * stream.rate;
  }
}

void Simulator::end_transfers() {
  advance_streams();
  rates_stale_ = true;
  const double same = same_s();
  std::erase_if(active_, [&](std::int32_t i) {
    Stream& stream = streams_[static_cast<std::size_t>(i)];
    // Bytes served add up over the epoch, and so does their rounding.
    const double served = stream.served * (1 + 1e-14) + same * stream.rate;
    if (stream.ends.top().early > served) return false;
    end_transfers(stream, served);
    return stream.ends.empty();
  });
}

void Simulator::end_transfers(Stream& stream, double served) {
  while (!stream.ends.empty() && stream.ends.top().early <= served) {
    const TaskId task = stream.ends.top().task;
    count_transfer(graph_->task(task), -1);
    ended_.push_back(task);
    stream.ends.pop();
  }
}

void Simulator::advance(double to_s) {
  now_s_ = to_s;
  const double until = now_s_ + same_s();
  ended_.clear();
  for (const Computing& computing : computing_) {
    if (computing.end_s <= until) ended_.push_back(computing.task);
  }
  if (stream_end_s_ <= until) end_transfers();
  while (!timers_.empty() && timers_.top().at <= until) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (!timer.ends) {
      start_transfer(timer.task);
      continue;
    }
    const SimTask& task = graph_->task(timer.task);
    if (task.kind == TaskKind::kTransfer) count_transfer(task, -1);
    ended_.push_back(timer.task);
  }
  for (const TaskId id : ended_) finish(id);
}

}  // namespace atl
