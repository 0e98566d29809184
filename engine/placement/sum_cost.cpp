#include "engine/placement/sum_cost.hpp"

#include <algorithm>

#include "engine/exchange/gradient_steps.hpp"
#include "engine/placement/cost_model.hpp"

namespace atl {

void StepLoad::send(int from, int to, double bytes) {
  const Link& link = topology_.link(from, to);
  slowest_ = std::max(slowest_, (counts_latency_ ? link.latency_s : 0) + bytes / link.bytes_per_s);
  cards_.add(from, to, bytes);
}

namespace {

// Ranks with the same place; empty unless there are several places of equally many ranks, and
// several at each.
std::vector<std::vector<int>> groups_by(const Topology& topology, int Device::*place) {
  std::vector<std::vector<int>> groups = ranks_by(topology, place);
  std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
  const bool even = std::ranges::all_of(
      groups, [&](const std::vector<int>& group) { return group.size() == groups[0].size(); });
  if (!even || groups.size() < 2 || groups[0].size() < 2) groups.clear();
  return groups;
}

}  // namespace

double sum_seconds(const Topology& topology, double bytes, const SumRoute& route) {
  // The steps of an all-reduce among many ranks take long to write down: two all-to-alls of even
  // blocks.
  if (route.is_all_reduce()) {
    StepLoad load(topology);
    topology.for_each_pair(
        [&](int from, int to) { load.send(from, to, bytes / topology.ranks()); });
    return 2 * load.seconds();
  }
  std::vector<StepLoad> loads;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const auto steps =
        sum_steps(route, rank, topology.ranks(), static_cast<std::size_t>(bytes / kFloatBytes));
    while (loads.size() < steps.size()) loads.emplace_back(topology);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const SumStep& step = steps[s];
      for (std::size_t m = 0; m < step.members.size(); ++m) {
        const bool adds = step.kind == SumStep::Kind::kAdd;
        const ReduceBlock& block = adds ? step.blocks[m] : step.own_block();
        if (m == step.own || block.count == 0) continue;
        loads[s].send(rank, step.members[m], kFloatBytes * static_cast<double>(block.count));
      }
    }
  }
  double seconds = 0;
  for (const StepLoad& load : loads) seconds += load.seconds();
  return seconds;
}

std::vector<SumRoute> other_sum_routes(const Topology& topology, double bytes) {
  std::vector<SumRoute> routes;
  if (topology.ranks() == 1) return routes;
  for (int Device::*place : {&Device::island, &Device::host}) {
    const SumRoute route{groups_by(topology, place), -1};
    if (!route.is_all_reduce() && std::ranges::find(routes, route) == routes.end()) {
      routes.push_back(route);
    }
  }
  SumRoute fastest{{}, 0};
  double least = sum_seconds(topology, bytes, fastest);
  for (int rank = 1; rank < topology.ranks(); ++rank) {
    const double seconds = sum_seconds(topology, bytes, {{}, rank});
    if (seconds >= least) continue;
    least = seconds;
    fastest.server = rank;
  }
  routes.push_back(fastest);
  return routes;
}

}  // namespace atl
