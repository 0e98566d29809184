#include "engine/placement/epoch_tasks.hpp"

#include <algorithm>

namespace atl {

// Epochs of late messages behind the first one. Where the wire is what an epoch waits for, it is
// busy from one end to the other only after some of them, and each is a few percent longer or
// shorter than the one before.
constexpr int kLateEpochs = 12;

const TaskGraph& write_tasks(const EpochSetting& setting, const EpochCosts& costs,
                             std::span<const int> pieces, TaskWriter& writer) {
  writer.begin(setting);
  const int epochs = setting.kind.late ? 1 + kLateEpochs : 1;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    if (epoch > 0) writer.begin_epoch();
    for (const int piece : pieces) writer.add(costs.piece(piece));
  }
  return writer.graph();
}

TaskGraph epoch_tasks(const EpochSetting& setting, std::span<const LayerPlan> layers,
                      TaskDetail detail) {
  ProgramsByOrder programs(setting.model, setting.topology.ranks(), setting.arrival,
                           setting.on_blocks());
  EpochCosts costs(setting.topology, programs, setting.corrections);
  TaskWriter writer(setting.topology, detail);
  return write_tasks(setting, costs, costs.pieces(setting, 0, layers, 0), writer);
}

double epoch_end_seconds(const TaskGraph& graph, const TaskTimes& times, int epoch) {
  const TaskId end = epoch + 1 < graph.epochs() ? graph.epoch_begin(epoch + 1) : graph.size();
  double last = 0;
  for (TaskId id = graph.epoch_begin(epoch); id < end; ++id) {
    if (graph.task(id).kind == TaskKind::kTransfer) continue;
    last = std::max(last, times.end_s[static_cast<std::size_t>(id)]);
  }
  return last;
}

double epoch_seconds(const TaskGraph& graph, const TaskTimes& times) {
  if (graph.epochs() == 1) return times.makespan_s;
  const int last = graph.epochs() - 1;
  const int before = last / 2;
  return (epoch_end_seconds(graph, times, last) - epoch_end_seconds(graph, times, before)) /
         (last - before);
}

std::vector<double> computing_seconds(const TaskGraph& graph) {
  std::vector<double> seconds(static_cast<std::size_t>(graph.ranks()), 0);
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kCompute) {
      seconds[static_cast<std::size_t>(task.rank)] += task.seconds;
    }
  }
  return seconds;
}

PacketSums packet_sums(const TaskGraph& graph) {
  PacketSums sums;
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    (task.in_group ? sums.group_bytes : sums.bytes) += task.bytes;
    sums.rows += task.rows;
  }
  return sums;
}

double lower_bound_seconds(const Topology& topology, const TaskGraph& graph, double network_speed) {
  CardLoad cards(topology);
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kTransfer) cards.add(task.rank, task.destination, task.bytes);
  }
  return std::max(std::ranges::max(computing_seconds(graph)), cards.seconds() / network_speed);
}

}  // namespace atl
