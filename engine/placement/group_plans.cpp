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

Json summary_of(const PlanCost& cost, const PacketRoutes& routes, int steps = 1) {
  Json summary = {{"ms", 1000 * cost.seconds},
                  {"bytes_between_hosts", steps * routes.between_hosts},
                  {"bytes_within_hosts", steps * routes.within_hosts}};
  if (cost.missing_bytes > 0) summary["missing_bytes"] = cost.missing_bytes;
  return summary;
}

Json summary_of(GroupPlans& plans) {
  const PlanSpace& space = plans.space();
  const PacketRoutes routes =
      packet_routes(space.topology(), space.simulated(plans.found().choice));
  Json summary = summary_of(plans.found().cost, routes, space.steps());
  summary["group_ranks"] = plans.ranks_per_part();
  return summary;
}

Json summary_of(const StageChoice& stages, const Topology& topology) {
  Json summary = {{"refused", stages.refused}};
  if (stages.found) {
    summary = summary_of(stages.found->cost(),
                         packet_routes(topology, std::span(&stages.found->epoch, 1)));
  }
  summary["stages"] = true;
  return summary;
}

Plan plan_in_stages(const StageChoice& stages, const Topology& topology) {
  const StagePlan& found = *stages.found;
  Plan plan;
  plan.ranks = plan.group_ranks = topology.ranks();
  plan.partition = stages.partition;
  plan.layers = found.layers;
  plan.gradient_sum = found.gradient_sum;
  plan.stages = {found.cut.first_layer, stages.chunks, stages.stale_from};
  plan.predicted_ms = 1000 * found.cost().seconds;
  Json decisions = Json::array();
  for (int stage = 0; stage < found.cut.stages(); ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const int end = stage + 1 < found.cut.stages() ? found.cut.first_layer[s + 1]
                                                   : static_cast<int>(plan.layers.size());
    decisions.push_back(
        {{"decision", fmt::format("stage {}", stage)},
         {"choice", fmt::format("layers {} to {}", found.cut.first_layer[s], end - 1)}});
  }
  decisions.push_back(
      {{"decision", "bits"}, {"choice", fmt::format("{}", found.layers.front().bits)}});
  plan.search = {{"strategy", "a dynamic program over layers"},
                 {"evaluations", stages.widths},
                 {"decisions", decisions}};
  describe_epochs(plan, topology, std::span(&found.epoch, 1), {.kinds = {EpochKind{}}}, 1, 1,
                  found.network_speed);
  return plan;
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

bool StageChoice::are_better_than(const PlanCost& others) const {
  // Stages change what is computed, so they have to be faster by so much.
  constexpr double kGain = 1.1;
  if (!found) return false;
  const PlanCost cost = found->cost();
  return is_fixed || is_better({kGain * cost.seconds, cost.missing_bytes}, others);
}

BestPlan best_plan(std::span<GroupPlans> all, const Topology& topology, const PlanRequest& request,
                   const std::map<int, std::string>& refused, const StageChoice& stages) {
  std::size_t place = 0;
  for (std::size_t g = 1; g < all.size(); ++g) {
    if (is_better(all[g].found().cost, all[place].found().cost)) place = g;
  }
  GroupPlans& chosen = all[place];
  const SearchResult& found = chosen.found();
  const bool in_stages = stages.are_better_than(found.cost);
  require_memory(in_stages ? stages.found->cost() : found.cost);
  BestPlan best{place, in_stages ? plan_in_stages(stages, topology)
                                 : make_plan(chosen.space(), topology, request, found)};
  set_default(best.plan, all.front().found().start);
  if (all.size() + refused.size() == 1 && !stages.any()) return best;
  Json groups = Json::array();
  for (GroupPlans& plans : all) groups.push_back(summary_of(plans));
  for (const auto& [size, why] : refused) {
    groups.push_back({{"group_ranks", size}, {"refused", why}});
  }
  if (stages.any()) groups.push_back(summary_of(stages, topology));
  best.plan.search["groups"] = groups;
  return best;
}

}  // namespace atl
