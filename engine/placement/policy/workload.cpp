#include "engine/placement/policy/workload.hpp"

#include <algorithm>
#include <cstring>

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

namespace {

class WorkloadCounter {
 public:
  WorkloadCounter(const Topology& topology, const TaskGraph& graph, int layers)
      : topology_(topology),
        graph_(graph),
        layers_(layers),
        channels_(2 * size(layers + 1), {.cards = CardLoad(topology)}) {
    load_.ranks = graph.ranks();
    load_.slots = layers + 1;
    const std::size_t ranks = size(load_.ranks), slots = size(load_.slots);
    load_.groups.resize(ranks * slots);
    load_.pair_seconds.resize(slots * ranks * ranks);
    load_.computing = computing_seconds(graph);
    load_.card_seconds.resize(topology.hosts.size());
    for (Channel& channel : channels_) {
      channel.inside.resize(ranks);
      channel.window.resize(ranks);
      channel.senders.resize(ranks);
    }
    since_send_.resize(ranks);
  }

  Workload count() {
    for (TaskId id = 0; id < graph_.size(); ++id) {
      const SimTask& task = graph_.task(id);
      if (task.kind == TaskKind::kCompute) count_compute(id, task);
      if (task.kind == TaskKind::kTransfer) count_transfer(task);
      if (task.kind == TaskKind::kDelay) {
        for (int r = 0; r < load_.ranks; ++r) group(r, task).collective += task.seconds;
      }
    }
    for (std::size_t c = 0; c < channels_.size(); ++c) count_arrivals(c);
    sum_up();
    return std::move(load_);
  }

 private:
  // One layer and direction.
  struct Channel {
    CardLoad cards;
    std::vector<double> inside = {};             // by receiver: seconds of messages in its host
    std::vector<double> window = {};             // by rank
    std::vector<std::vector<int>> senders = {};  // by receiver
  };

  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  Channel& channel(const SimTask& task) {
    const bool backward = std::strcmp(task.direction, "backward") == 0;
    return channels_[size(2 * slot_of(task, layers_) + (backward ? 1 : 0))];
  }
  GroupLoad& group(int rank, const SimTask& task) { return group(rank, slot_of(task, layers_)); }
  GroupLoad& group(int rank, int slot) { return load_.groups[size(rank * load_.slots + slot)]; }
  std::size_t host(int rank) const { return size(topology_.device(rank).host); }

  void count_compute(TaskId id, const SimTask& task) {
    const std::size_t r = size(task.rank);
    for (const TaskId before : graph_.dependencies(id)) {
      if (graph_.task(before).kind != TaskKind::kTransfer) continue;
      channel(graph_.task(before)).window[r] += since_send_[r];
      since_send_[r] = 0;
      break;
    }
    since_send_[r] += task.seconds;
    group(task.rank, task).compute += task.seconds;
  }

  void count_transfer(const SimTask& task) {
    since_send_[size(task.rank)] = 0;
    const Link& link = topology_.link(task.rank, task.destination);
    const double alone = task.bytes / link.bytes_per_s;
    const int slot = slot_of(task, layers_);
    Channel& packets = channel(task);
    GroupLoad& from = group(task.rank, task);
    GroupLoad& to = group(task.destination, task);
    load_.pair_seconds[size((slot * load_.ranks + task.rank) * load_.ranks + task.destination)] +=
        link.latency_s + alone;
    packets.senders[size(task.destination)].push_back(task.rank);
    if (!packets.cards.add(task.rank, task.destination, task.bytes)) {
      from.sent_inside += alone;
      to.received_inside += alone;
      packets.inside[size(task.destination)] += alone;
      return;
    }
    from.sent_outside +=
        std::max(alone, task.bytes / topology_.host_of(task.rank).send_bytes_per_s);
    to.received_outside +=
        std::max(alone, task.bytes / topology_.host_of(task.destination).receive_bytes_per_s);
  }

  // Seconds until rank `r` has all messages of a channel.
  double arrival(const Channel& packets, int r) const {
    const std::size_t h = host(r);
    double seconds = packets.inside[size(r)];
    for (const int from : packets.senders[size(r)]) {
      if (host(from) == h) continue;
      seconds = std::max({seconds, packets.cards.sent_s(host(from)), packets.cards.received_s(h)});
    }
    return seconds;
  }

  void count_arrivals(std::size_t c) {
    const Channel& packets = channels_[c];
    for (int r = 0; r < load_.ranks; ++r) {
      if (packets.senders[size(r)].empty()) continue;
      GroupLoad& load = group(r, static_cast<int>(c / 2));
      const double seconds = arrival(packets, r);
      load.arrival += seconds;
      load.window += packets.window[size(r)];
      load.exposed += std::max(0.0, seconds - packets.window[size(r)]);
    }
    for (std::size_t h = 0; h < topology_.hosts.size(); ++h) {
      load_.card_seconds[h] += std::max(packets.cards.sent_s(h), packets.cards.received_s(h));
    }
  }

  void sum_up() {
    load_.lower_bound = lower_bound_seconds(topology_, graph_);
    const auto takes = [&](int r, int slot) {
      const GroupLoad& load = group(r, slot);
      return load.compute + load.collective + load.exposed;
    };
    for (int r = 0; r < load_.ranks; ++r) {
      double sum = 0;
      for (int slot = 0; slot < load_.slots; ++slot) sum += takes(r, slot);
      load_.slowest_rank = std::max(load_.slowest_rank, sum);
    }
    for (int slot = 0; slot < load_.slots; ++slot) {
      double slowest = 0;
      for (int r = 0; r < load_.ranks; ++r) slowest = std::max(slowest, takes(r, slot));
      load_.slowest_steps += slowest;
    }
  }

  const Topology& topology_;
  const TaskGraph& graph_;
  int layers_;
  Workload load_;
  std::vector<Channel> channels_;   // [2 * slot + backward]
  std::vector<double> since_send_;  // by rank: computed since its last messages
};

}  // namespace

Workload count_workload(const Topology& topology, const TaskGraph& graph, int layers) {
  return WorkloadCounter(topology, graph, layers).count();
}

int layers_of(const TaskGraph& graph) {
  int layers = 0;
  for (const SimTask& task : graph.tasks()) layers = std::max(layers, task.layer + 1);
  return layers;
}

}  // namespace atl
