#include "engine/placement/group_plans.hpp"

#include <algorithm>
#include <set>

namespace atl {

namespace {

// 1 where groups of them can't be.
int ranks_at(const Topology& topology, int Device::*place) {
  return std::max(1, ranks_of_each(places_of(topology, place)));
}

void add_rates(std::vector<RateAtColumns>& sum, const std::vector<RateAtColumns>& rates) {
  for (RateAtColumns& rate : sum) rate.per_s += rate_at(rates, rate.columns);
}

Device device_of_group(std::span<const Device> devices) {
  Device group = devices.front();
  for (const Device& device : devices.subspan(1)) {
    group.memory_bytes += device.memory_bytes;
    add_rates(group.spmm_bytes_per_s, device.spmm_bytes_per_s);
    add_rates(group.gemm_flop_per_s, device.gemm_flop_per_s);
    group.elementwise_bytes_per_s += device.elementwise_bytes_per_s;
    group.quantize_bytes_per_s += device.quantize_bytes_per_s;
  }
  return group;
}

// Bytes of an epoch's packets by where they go.
struct PacketRoutes {
  double between_hosts = 0;
  double within_hosts = 0;
};

PacketRoutes packet_routes(const Topology& topology, std::span<const SimulatedEpoch> epochs) {
  PacketRoutes routes;
  for (const SimulatedEpoch& epoch : epochs) {
    const TaskGraph& graph = epoch.tasks;
    for (TaskId id = graph.epoch_begin(graph.epochs() - 1); id < graph.size(); ++id) {
      const SimTask& task = graph.task(id);
      if (task.kind != TaskKind::kTransfer) continue;
      const bool within = topology.device(task.rank).host == topology.device(task.destination).host;
      (within ? routes.within_hosts : routes.between_hosts) += epoch.kind.share * task.bytes;
    }
  }
  return routes;
}

Json summary_of(GroupPlans& plans) {
  const SearchResult& found = plans.found();
  const PacketRoutes routes =
      packet_routes(plans.space().topology(), plans.space().simulated(found.choice));
  Json summary = {{"group_ranks", plans.ranks_per_part()},
                  {"ms", 1000 * found.cost.seconds},
                  {"bytes_between_hosts", plans.space().steps() * routes.between_hosts},
                  {"bytes_within_hosts", plans.space().steps() * routes.within_hosts}};
  if (found.cost.missing_bytes > 0) summary["missing_bytes"] = found.cost.missing_bytes;
  return summary;
}

}  // namespace

std::vector<std::int64_t> places_of(const Topology& topology, int Device::*place) {
  std::vector<std::int64_t> places;
  for (const Device& device : topology.devices) places.push_back(device.*place);
  return places;
}

std::vector<int> group_sizes(const Topology& topology) {
  const std::set<int> sizes = {1, ranks_at(topology, &Device::island),
                               ranks_at(topology, &Device::host), topology.ranks()};
  return {sizes.begin(), sizes.end()};
}

Topology group_topology(const Topology& topology, int ranks_per_part) {
  const RankMap map(topology.ranks() / ranks_per_part, ranks_per_part);
  ATOLL_ASSERT(map.ranks() == topology.ranks(), "groups of {} of {} ranks", ranks_per_part,
               topology.ranks());
  Topology groups{.devices = {}, .hosts = topology.hosts, .links = {}};
  for (int part = 0; part < map.parts(); ++part) {
    groups.devices.push_back(
        device_of_group(std::span(topology.devices)
                            .subspan(static_cast<std::size_t>(map.rank_of(part)),
                                     static_cast<std::size_t>(ranks_per_part))));
    for (int to = 0; to < map.parts(); ++to) {
      groups.links.push_back(topology.link(map.rank_of(part), map.rank_of(to)));
    }
  }
  return groups;
}

GroupPlans::GroupPlans(const Topology& topology, ModelConfig model, int ranks_per_part,
                       Setting setting)
    : model_(std::make_unique<ModelConfig>(std::move(model))),
      cuts_(std::make_unique<std::vector<CutCandidate>>(std::move(setting.cuts))) {
  model_->column_share.ranks = ranks_per_part;
  space_ = std::make_unique<PlanSpace>(topology, *model_, *cuts_, std::move(setting.bits),
                                       std::move(setting.corrections), setting.start_bits,
                                       setting.messages);
}

BestPlan best_plan(std::span<GroupPlans> all, const Topology& topology, const PlanRequest& request,
                   const std::map<int, std::string>& refused) {
  BestPlan best;
  for (std::size_t g = 1; g < all.size(); ++g) {
    if (is_better(all[g].found().cost, all[best.place].found().cost)) best.place = g;
  }
  GroupPlans& chosen = all[best.place];
  require_memory(chosen.found());
  best.plan = make_plan(chosen.space(), topology, request, chosen.found());
  set_default(best.plan, all.front().found().start);
  if (all.size() + refused.size() == 1) return best;
  Json groups = Json::array();
  for (GroupPlans& plans : all) groups.push_back(summary_of(plans));
  for (const auto& [size, why] : refused) {
    groups.push_back({{"group_ranks", size}, {"refused", why}});
  }
  best.plan.search["groups"] = groups;
  return best;
}

}  // namespace atl
