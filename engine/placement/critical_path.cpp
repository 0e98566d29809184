#include "engine/placement/critical_path.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.hpp"
#include "base/json.hpp"

namespace atl {

namespace {

// When the last epoch begins: with the end of the one before it.
double last_begin_seconds(const TaskGraph& graph, const TaskTimes& times) {
  const int last = graph.epochs() - 1;
  return last == 0 ? 0 : epoch_end_seconds(graph, times, last - 1);
}

// Adds those of the last simulated epoch to what was done, times the share of such epochs.
void add_path(const SimulatedEpoch& epoch, std::map<std::string, double>& seconds) {
  const auto& [kind, graph, times] = epoch;
  const double begin = last_begin_seconds(graph, times);
  for (const TaskId id : critical_path(graph, times)) {
    const SimTask& task = graph.task(id);
    const auto t = static_cast<std::size_t>(id);
    const double inside = times.end_s[t] - std::max(times.start_s[t], begin);
    if (inside < 0) continue;
    const std::string what = task.kind == TaskKind::kCompute
                                 ? fmt::format("rank {} {}", task.rank, task.name)
                             : task.kind == TaskKind::kTransfer
                                 ? fmt::format("packets {} -> {}", task.rank, task.destination)
                                 : std::string(task.name);
    seconds[what] += kind.share * inside;
  }
}

}  // namespace

std::vector<TaskId> critical_path(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<TaskId> path;
  if (graph.size() == 0) return path;
  const auto end = [&](TaskId id) { return times.end_s[static_cast<std::size_t>(id)]; };
  // The task before each on its rank.
  std::vector<TaskId> before(static_cast<std::size_t>(graph.size()), -1);
  std::vector<TaskId> last(static_cast<std::size_t>(graph.ranks()), -1);
  TaskId latest = 0;
  for (TaskId id = 0; id < graph.size(); ++id) {
    // Packets for an epoch that is not simulated end nothing.
    const bool counts = graph.epochs() == 1 || graph.task(id).kind != TaskKind::kTransfer;
    if (counts && end(id) > end(latest)) latest = id;
    if (graph.task(id).kind != TaskKind::kCompute) continue;
    before[static_cast<std::size_t>(id)] =
        std::exchange(last[static_cast<std::size_t>(graph.task(id).rank)], id);
  }
  for (TaskId id = latest; id >= 0;) {
    path.push_back(id);
    // It waited for the task that ended last.
    TaskId waited = before[static_cast<std::size_t>(id)];
    for (const TaskId earlier : graph.dependencies(id)) {
      if (waited < 0 || end(earlier) > end(waited)) waited = earlier;
    }
    id = waited;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<PathShare> path_shares(std::span<const SimulatedEpoch> epochs) {
  std::map<std::string, double> seconds;
  for (const SimulatedEpoch& epoch : epochs) add_path(epoch, seconds);
  std::vector<PathShare> shares;
  for (const auto& [what, s] : seconds) shares.push_back({what, s});
  std::ranges::stable_sort(shares, std::greater(), &PathShare::seconds);
  return shares;
}

std::string chrome_trace(const TaskGraph& graph, const TaskTimes& times) {
  std::string text = "{\"traceEvents\": [";
  const char* separator = "\n";
  const auto write = [&](const Json& event) {
    text += separator + event.dump();
    separator = ",\n";
  };
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    write({{"name", "process_name"},
           {"ph", "M"},
           {"pid", rank},
           {"args", {{"name", fmt::format("rank {} (predicted)", rank)}}}});
  }
  const double begin = last_begin_seconds(graph, times);
  for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    const auto t = static_cast<std::size_t>(id);
    Json arguments = Json::object();
    if (task.layer >= 0) arguments["layer"] = task.layer;
    if (task.direction[0] != '\0') arguments["direction"] = task.direction;
    const bool travels = task.kind == TaskKind::kTransfer;
    if (travels) {
      arguments.update({{"source", task.rank},
                        {"destination", task.destination},
                        {"bytes", static_cast<std::int64_t>(task.bytes)}});
    }
    // Packets that overlap lie on lanes of their own, at their receiver; a collective at all ranks.
    const auto write_at = [&](int rank) {
      write({{"name", task.name},
             {"ph", "X"},
             {"ts", (times.start_s[t] - begin) * 1e6},
             {"dur", (times.end_s[t] - times.start_s[t]) * 1e6},
             {"pid", rank},
             {"tid", travels ? 2 + task.rank : 0},
             {"args", arguments}});
    };
    if (travels || task.rank >= 0) {
      write_at(travels ? task.destination : task.rank);
    } else {
      for (int rank = 0; rank < graph.ranks(); ++rank) write_at(rank);
    }
  }
  return text + "\n]}\n";
}

}  // namespace atl
