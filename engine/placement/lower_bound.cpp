#include <algorithm>

#include "engine/placement/epoch_tasks.hpp"

namespace atl {

double lower_bound_seconds(const Topology& topology, const TaskGraph& graph) {
  std::vector<double> computing(static_cast<std::size_t>(graph.ranks()), 0);
  std::vector<double> sent(topology.hosts.size(), 0);
  std::vector<double> received(topology.hosts.size(), 0);
  for (const SimTask& task : graph.tasks()) {
    if (task.kind == TaskKind::kCompute) {
      computing[static_cast<std::size_t>(task.rank)] += task.seconds;
    } else if (task.kind == TaskKind::kTransfer) {
      const auto host = [&](int rank) {
        return static_cast<std::size_t>(topology.devices[static_cast<std::size_t>(rank)].host);
      };
      if (host(task.rank) == host(task.destination)) continue;
      sent[host(task.rank)] += task.bytes;
      received[host(task.destination)] += task.bytes;
    }
  }
  double bound = *std::max_element(computing.begin(), computing.end());
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    bound = std::max({bound, sent[h] / topology.hosts[h].send_bytes_per_s,
                      received[h] / topology.hosts[h].receive_bytes_per_s});
  }
  return bound;
}

}  // namespace atl
