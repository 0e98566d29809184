#include "engine/placement/plan_search.hpp"

#include <algorithm>

#include "engine/placement/critical_path.hpp"
#include "engine/placement/epoch_tasks.hpp"

namespace atl {

namespace {

// So many evaluations take a fraction of a second at most where epochs are simulated exactly.
constexpr std::uint64_t kFewChoices = 2000;
constexpr std::uint64_t kFewApproximateChoices = 500;

double ms(double seconds) { return 1000 * seconds; }

// The saving of every decision that differs from the default: the epoch without it, less the epoch
// with it.
Json explain_decisions(PlanSpace& space, const SearchResult& found) {
  Json decisions = Json::array();
  const std::vector<int> start = space.start();
  for (int d = 0; d < space.decisions(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    Json decision = {{"decision", space.decision_name(d)},
                     {"choice", space.option_name(d, found.choice[i])}};
    if (found.choice[i] != start[i]) {
      std::vector<int> without = found.choice;
      without[i] = start[i];
      const PlanCost cost = space.evaluate(without);
      decision["instead_of"] = space.option_name(d, start[i]);
      decision["saves_ms"] = ms(cost.seconds - found.cost.seconds);
      if (cost.missing_bytes > 0) decision["saves_bytes"] = cost.missing_bytes;
    }
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

// Sums over all ranks and the steps of an epoch, which takes so many times as long as one of them.
Json messages_json(std::span<const SimulatedEpoch> epochs, const ExpectedMessages& expected,
                   int steps, double times) {
  Json kinds = Json::array();
  for (const SimulatedEpoch& epoch : epochs) {
    kinds.push_back({{"share_of_epochs", epoch.kind.share},
                     {"share", epoch.kind.messages},
                     {"rows", steps * packet_sums(epoch.tasks).rows},
                     {"bytes", steps * packet_sums(epoch.tasks).bytes},
                     {"ms", times * ms(epoch_seconds(epoch.tasks, epoch.times))}});
  }
  const PacketSums mean = mean_packet_sums(epochs);
  return {{"rows", steps * mean.rows},
          {"bytes", steps * mean.bytes},
          {"group_bytes", steps * mean.group_bytes},
          {"share", expected.mean_share()},
          {"is_bound", expected.is_bound},
          {"epochs", kinds}};
}

}  // namespace

std::vector<std::string> plan_searches() {
  std::vector<std::string> names = search_strategies();
  names.insert(names.begin(), {"auto", "none"});
  return names;
}

SearchResult find_plan(PlanSpace& space, const PlanRequest& request) {
  std::string name = request.search;
  if (name == "auto") {
    const bool exact = space.topology().ranks() <= kMostExactRanks;
    const std::uint64_t few = exact ? kFewChoices : kFewApproximateChoices;
    name = count_choices(space) <= few ? "exhaustive" : "greedy";
  }
  SearchResult found;
  if (name == "none") {
    found.choice = space.start();
    found.cost = found.start = space.evaluate(found.choice);
    found.evaluations = 1;
  } else {
    found = search(name, space, request.options);
  }
  return found;
}

void require_memory(const PlanCost& cost) {
  if (cost.missing_bytes > 0) {
    fail(ErrorKind::kMemory,
         "no plan fits into the memory of the topology: the best one misses {:.1f} MB; use more "
         "ranks, a smaller --hidden or fewer --layers (plans count all values in memory, whatever "
         "--memory says)",
         cost.missing_bytes / 1e6);
  }
}

void set_default(Plan& plan, const PlanCost& cost) {
  plan.default_ms = ms(cost.seconds);
  plan.search.erase("default_missing_bytes");
  if (cost.missing_bytes > 0) plan.search["default_missing_bytes"] = cost.missing_bytes;
}

void describe_epochs(Plan& plan, const Topology& topology, std::span<const SimulatedEpoch> epochs,
                     const ExpectedMessages& expected, int steps, double times,
                     double network_speed) {
  plan.lower_bound_ms = steps * ms(mean_lower_bound_seconds(topology, epochs, network_speed));
  plan.messages = messages_json(epochs, expected, steps, times);
  Json path = Json::array();
  for (const PathShare& share : path_shares(epochs)) {
    path.push_back({{"what", share.what}, {"ms", times * ms(share.seconds)}});
  }
  plan.search["critical_path"] = path;
}

Plan make_plan(PlanSpace& space, const Topology& topology, const PlanRequest& request,
               const SearchResult& found) {
  Plan plan;
  plan.ranks = topology.ranks();
  plan.group_ranks = space.ranks_per_part();
  plan.partition = space.cut(found.choice).options;
  plan.layers = space.layers(found.choice);
  plan.gradient_sum = space.gradient_sum(found.choice);
  const std::vector<SimulatedEpoch> epochs = space.simulated(found.choice);
  plan.predicted_ms = ms(found.cost.seconds);
  const int steps = space.steps();
  const FactorPlan factors = space.gradient_sync(found.choice);
  Json weights = Json::array();
  for (const WeightChoice& weight : factors.weights) weights.push_back(weight.sentence);
  plan.search = {{"strategy", request.search},
                 {"evaluations", found.evaluations},
                 {"optimal", found.complete},
                 {"decisions", explain_decisions(space, found)},
                 {"gradients", {{"summary", factors.summary}, {"weights", weights}}}};
  describe_epochs(plan, topology, epochs, space.expected(), steps, space.times_of(found.choice),
                  space.network_speed());
  if (steps > 1) plan.search["steps"] = steps;
  set_default(plan, found.start);
  return plan;
}

}  // namespace atl
