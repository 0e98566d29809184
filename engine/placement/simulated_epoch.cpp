#include "engine/placement/simulated_epoch.hpp"

#include <string_view>

namespace atl {

namespace {

template <typename Figure>
double mean_of(std::span<const SimulatedEpoch> epochs, const Figure& figure) {
  double sum = 0;
  for (const SimulatedEpoch& epoch : epochs) sum += epoch.kind.share * figure(epoch);
  return sum;
}

}  // namespace

std::vector<SimulatedEpoch> simulate_epochs(const EpochSetting& setting,
                                            std::span<const LayerPlan> layers, TaskDetail detail,
                                            std::optional<double> share) {
  Simulator simulator(setting.topology, /*tolerance=*/0, setting.corrections.network_speed());
  std::vector<SimulatedEpoch> epochs;
  for (const EpochKind& kind : messages_of(setting, share).kinds) {
    TaskGraph tasks = epoch_tasks(setting.of_kind(kind), layers, detail);
    TaskTimes times = simulator.run(tasks);
    epochs.push_back({kind, std::move(tasks), std::move(times)});
  }
  return epochs;
}

TaskGraph evaluation_tasks(const TaskGraph& epoch) {
  TaskGraph evaluation(epoch.ranks());
  for (TaskId id = 0; id < epoch.size(); ++id) {
    SimTask task = epoch.task(id);
    const std::string_view name = task.name;
    if (std::string_view(task.direction) == "backward") break;
    const bool of_training = task.kind == TaskKind::kDelay ||
                             name == to_string(Phase::kInputDropout) ||
                             name == to_string(Phase::kNormStatistics);
    if (of_training) task.seconds = 0;
    evaluation.add(task, epoch.dependencies(id));
  }
  return evaluation;
}

double mean_seconds(std::span<const SimulatedEpoch> epochs) {
  return mean_of(epochs, [](const auto& epoch) { return epoch_seconds(epoch.tasks, epoch.times); });
}

PacketSums mean_packet_sums(std::span<const SimulatedEpoch> epochs) {
  return {mean_of(epochs, [](const auto& epoch) { return packet_sums(epoch.tasks).bytes; }),
          mean_of(epochs, [](const auto& epoch) { return packet_sums(epoch.tasks).rows; }),
          mean_of(epochs, [](const auto& epoch) { return packet_sums(epoch.tasks).group_bytes; })};
}

double mean_lower_bound_seconds(const Topology& topology, std::span<const SimulatedEpoch> epochs,
                                double network_speed) {
  return mean_of(epochs, [&](const auto& epoch) {
    return lower_bound_seconds(topology, epoch.tasks, network_speed);
  });
}

}  // namespace atl
