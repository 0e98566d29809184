#include "partition/incremental.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "partition/climb.hpp"
#include "partition/descent.hpp"
#include "partition/island_prices.hpp"
#include "partition/multilevel.hpp"
#include "partition/priced_rows.hpp"

namespace atl {

namespace {

// Rows that a placed cut loses to refinement at most: one with more than so many times what is
// allowed is not refined. On arxiv by years, it lost up to a fifth.
constexpr double kMostGain = 1.3;

// An objective in which only some of the nodes look for a better part.
template <typename Objective>
class NearObjective {
 public:
  NearObjective(Objective& objective, const std::vector<std::uint8_t>& looks)
      : objective_(objective), looks_(looks) {}

  bool may_gain(std::int32_t node) const { return looks_[node] != 0 && objective_.may_gain(node); }
  Proposal best(std::int32_t node, const PartLoads& loads, bool any) const {
    return objective_.best(node, loads, any);
  }
  void move(std::int32_t node, int to) { objective_.move(node, to); }

 private:
  Objective& objective_;
  const std::vector<std::uint8_t>& looks_;
};

// Limits of the parts, and none of what is nowhere: no node goes there.
PartLoads loads_with_nowhere(const PartitionProblem& problem,
                             std::span<const std::int32_t> part_of) {
  std::vector<double> limits = load_limits(problem, problem.imbalance);
  limits.insert(limits.end(), problem.constraints, 0.0);
  return {problem.constraints, problem.node_weights, std::move(limits), part_of};
}

// The part that the node goes to.
int best_place(std::int32_t node, const HaloRows& rows, const PartLoads& loads) {
  const auto near = rows.near(node);
  const int parts = loads.parts() - 1;
  int best = -1;
  double most = -1;
  int emptiest = 0;
  for (int part = 0; part < parts; ++part) {
    if (loads.fullness(part) < loads.fullness(emptiest)) emptiest = part;
    if (!loads.fits(node, part)) continue;
    const double score = near[part] * (1 - loads.fullness(part));
    if (score > most || (score == most && loads.fullness(part) < loads.fullness(best))) {
      most = score;
      best = part;
    }
  }
  return best < 0 ? emptiest : best;
}

// Nodes without edges go back where they were while that part is below its share; they are what is
// left to even out the parts with.
void place_loose_nodes(const PartitionProblem& problem, std::span<const std::int32_t> loose,
                       std::span<const std::int32_t> before, HaloRows& rows, PartLoads& loads,
                       std::span<std::int32_t> part_of) {
  const double share = 1 / (1 + problem.imbalance);  // of the limit
  for (const std::int32_t node : loose) {
    int to = static_cast<std::size_t>(node) < before.size() ? before[node] : -1;
    if (to < 0 || !loads.fits(node, to) || loads.fullness(to) > share) {
      to = best_place(node, rows, loads);
    }
    loads.move(node, part_of[node], to);
    rows.move(node, to);
  }
}

// The nodes that came or are touched, and their neighbours.
std::vector<std::uint8_t> nodes_that_look(const GraphLevel& graph, const CutBefore& before) {
  const auto nodes = static_cast<std::size_t>(graph.nodes());
  std::vector<std::uint8_t> looks(nodes, 0);
  for (std::size_t v = 0; v < nodes; ++v) {
    if (v < before.part_of.size() && before.touched[v] == 0) continue;
    looks[v] = 1;
    graph.for_each_neighbour(static_cast<std::int32_t>(v),
                             [&](std::int32_t u, std::int64_t) { looks[u] = 1; });
  }
  return looks;
}

template <typename Objective>
void improve_near(const PartitionProblem& problem, Objective& objective, PartLoads& loads,
                  const std::vector<std::uint8_t>& looks, double least, bool climbs,
                  std::span<std::int32_t> part_of) {
  NearObjective near(objective, looks);
  Descent(near, loads, part_of).run(least);
  if (!climbs) return;
  const GraphLevel graph = finest_level(problem);
  // A second one takes a tenth of the command's time for a row in 2,500 (arxiv, 1 % more nodes).
  Climb(near, loads, graph, part_of).run(1, least, problem.seed);
}

// Islands count in the numbers that parts had before --part-order.
std::vector<std::int32_t> extend_numbered(const PartitionProblem& problem,
                                          const PartitionOptions& options, const CutBefore& before,
                                          double most_rows) {
  if (options.part_order.empty()) return extend_cut(problem, before, most_rows);
  PartitionProblem of_cut = problem;
  std::vector<std::int32_t> part_of;
  for (std::size_t p = 0; p < options.part_order.size(); ++p) {
    of_cut.shares[options.part_order[p]] = problem.shares[p];
  }
  for (const std::int32_t part : before.part_of) part_of.push_back(options.part_order[part]);
  part_of = extend_cut(of_cut, {part_of, before.touched, before.whole}, most_rows);
  renumber_parts(options.part_order, part_of);
  return part_of;
}

// Whether METIS's quick cut is one that the method of the options would improve to its own.
bool has_quick_cut(const PartitionProblem& problem, const Multilevel& multilevel) {
  const std::array methods = {"auto", "metis", "communities"};
  return multilevel.detailed() && problem.refine != Refinement::kOff && problem.islands.empty() &&
         std::ranges::find(methods, problem.method) != methods.end();
}

}  // namespace

void CycleCount::add(std::int32_t one, std::int32_t other) {
  if (one == other) return;
  ++edges_;
  const std::int32_t a = connected_.root(one);
  const std::int32_t b = connected_.root(other);
  if (a == b) return;
  ++joined_;
  connected_.join(std::max(a, b), std::min(a, b));
}

std::int64_t independent_cycles(const GraphView& graph) {
  CycleCount cycles(graph.nodes());
  for (std::int32_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) {
      if (!graph.symmetric || u < v) cycles.add(u, v);
    }
  }
  return cycles.count();
}

void place_nodes(const GraphLevel& graph, std::span<const std::int32_t> nodes, HaloRows& rows,
                 PartLoads& loads, std::span<std::int32_t> part_of,
                 const std::function<void(std::int32_t, int)>& placed) {
  const int nowhere = loads.parts() - 1;
  // Neighbours in parts, then the lower id. What has become too low is left behind.
  std::priority_queue<std::pair<std::int64_t, std::int32_t>> queue;
  std::vector<std::int64_t> known(part_of.size(), 0);
  for (const std::int32_t node : nodes) {
    graph.for_each_neighbour(
        node, [&](std::int32_t u, std::int64_t) { known[node] += part_of[u] != nowhere ? 1 : 0; });
    queue.emplace(known[node], -node);
  }
  while (!queue.empty()) {
    const auto [count, minus_node] = queue.top();
    queue.pop();
    const std::int32_t node = -minus_node;
    if (part_of[node] != nowhere || count < known[node]) continue;
    const int to = best_place(node, rows, loads);
    if (placed) placed(node, to);
    loads.move(node, nowhere, to);
    rows.move(node, to);
    graph.for_each_neighbour(node, [&](std::int32_t u, std::int64_t) {
      if (part_of[u] == nowhere) queue.emplace(++known[u], -u);
    });
  }
}

std::vector<std::int32_t> extend_cut(const PartitionProblem& problem, const CutBefore& before,
                                     double most_rows) {
  const Activity activity("extending the cut");
  const GraphLevel graph = finest_level(problem);
  const std::vector<Nets> directions = nets_of(problem);
  const auto nowhere = static_cast<std::int32_t>(problem.parts);
  std::vector<std::int32_t> part_of(before.part_of.begin(), before.part_of.end());
  part_of.resize(static_cast<std::size_t>(graph.nodes()), nowhere);
  std::vector<std::int32_t> came;
  std::vector<std::int32_t> loose;
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    const auto node = static_cast<std::int32_t>(v);
    if (graph.degree(node) == 0) {
      part_of[v] = nowhere;
      loose.push_back(node);
    } else if (part_of[v] == nowhere) {
      came.push_back(node);
    }
  }
  const std::vector<std::uint8_t> looks = nodes_that_look(graph, before);
  bool refines = problem.refine != Refinement::kOff;
  const auto least_of = [](std::int64_t cost) {
    return Multilevel::kUsual.least_gain * static_cast<double>(cost);
  };
  {
    HaloRows rows(directions, part_of, problem.parts + 1);
    PartLoads loads = loads_with_nowhere(problem, part_of);
    place_nodes(graph, came, rows, loads, part_of);
    place_loose_nodes(problem, loose, before.part_of, rows, loads, part_of);
    const std::int64_t placed = rows.rows();
    refines = refines && static_cast<double>(placed) <= kMostGain * most_rows;
    if (refines && problem.islands.empty()) {
      improve_near(problem, rows, loads, looks, least_of(placed),
                   Multilevel::detailed(graph.entries()), part_of);
    }
  }
  // All rows alike would bring back rows between islands.
  if (refines && !problem.islands.empty()) {
    IslandPrices prices(problem.islands);
    PricedRows rows(directions, part_of, problem.parts, prices);
    PartLoads loads = limited_loads(problem, part_of);
    improve_near(problem, rows, loads, looks, least_of(rows.cost()), /*climbs=*/false, part_of);
  }
  repair_empty_parts(problem, part_of);
  rebalance(problem, part_of);
  return part_of;
}

void check_growth_options(const PartitionOptions& options) {
  for (const char* method : {"random", "contiguous", "file"}) {
    if (options.method != method) continue;
    fail_option(
        "--method: {} found with --from; allowed are methods that cut along edges, such as auto, "
        "metis and communities: a cut by {} is as soon made anew",
        method, method);
  }
  if (options.objective != PartitionObjective::kVolume) {
    fail_option("--objective: {} found with --from; allowed is volume: cuts grow by halo rows",
                to_string(options.objective));
  }
  if (options.marginal_cost != 0) {
    fail_option("--marginal-cost: {} found with --from; allowed is 0: it makes two cuts of its own",
                options.marginal_cost);
  }
}

std::vector<std::int32_t> quick_cut(const PartitionProblem& problem) {
  // Fewer edges leave more to chance, and time for it.
  constexpr std::int64_t kFewEntries = 1'000'000;
  const Activity activity("cutting quickly by METIS");
  const Multilevel multilevel(problem);
  const bool few = finest_level(problem).entries() <= kFewEntries;
  PartitionProblem quick = problem;
  quick.objective = PartitionObjective::kCut;
  quick.cuts = 1;
  const std::vector<Nets> directions = nets_of(problem);
  std::vector<std::int32_t> best;
  std::int64_t least = 0;
  for (std::uint64_t i = 0; i < (few ? 4 : 2); ++i) {
    quick.seed = problem.seed + i;
    std::vector<std::int32_t> part_of = cut_metis(quick);
    repair_empty_parts(problem, part_of);
    HaloRows rows(directions, part_of, problem.parts);
    PartLoads loads = limited_loads(problem, part_of);
    Descent(rows, loads, std::span(part_of)).run(0);
    const std::int64_t count = rows.rows();
    if (!best.empty() && count >= least) continue;
    least = count;
    best = std::move(part_of);
  }
  if (few) multilevel.search(best);
  rebalance(problem, best);
  return best;
}

std::string to_string(GrownBy grown_by) {
  switch (grown_by) {
    case GrownBy::kExtended:
      return "extended";
    case GrownBy::kQuick:
      return "quick";
    case GrownBy::kAnew:
      return "anew";
  }
  return "";
}

GrownCut grow_cut(const GraphView& graph, int parts, const PartitionOptions& options,
                  std::span<const std::uint8_t> split, const CutBefore& before, double drift) {
  check_growth_options(options);
  const ParallelThreads threads(cutting_threads(graph.nodes()));
  const PartitionProblem problem = make_partition_problem(graph, parts, options, split);
  GrownCut grown;
  grown.whole = before.whole;
  if (parts == 1) {
    grown.part_of.assign(static_cast<std::size_t>(graph.nodes()), 0);
    return grown;
  }
  const Multilevel multilevel(problem);
  const std::int64_t cycles = independent_cycles(graph);
  grown.estimate = before.whole.cycles == 0 ? 0
                                            : before.whole.rows * static_cast<double>(cycles) /
                                                  static_cast<double>(before.whole.cycles);
  grown.part_of = extend_numbered(problem, options, before, drift * grown.estimate);
  grown.rows = grown.extended_rows = multilevel.rows(grown.part_of);
  bool holds = within_bounds(problem, grown.part_of);
  const auto serves = [&] {
    return holds && static_cast<double>(grown.rows) <= drift * grown.estimate;
  };
  const auto offer = [&](std::vector<std::int32_t> part_of, GrownBy by) {
    const std::int64_t rows = multilevel.rows(part_of);
    if (holds && rows >= grown.rows) return;
    holds = within_bounds(problem, part_of);
    grown.part_of = std::move(part_of);
    grown.rows = rows;
    grown.by = by;
  };
  if (!serves() && has_quick_cut(problem, multilevel)) {
    std::vector<std::int32_t> quick = quick_cut(problem);
    grown.estimate = kOfQuickRows * static_cast<double>(multilevel.rows(quick));
    grown.whole = {grown.estimate, cycles};
    offer(std::move(quick), GrownBy::kQuick);
  }
  if (!serves()) {
    std::vector<std::int32_t> anew = partition_graph(graph, parts, options, split);
    grown.whole = {static_cast<double>(multilevel.rows(anew)), cycles};
    offer(std::move(anew), GrownBy::kAnew);
  }
  validate_partition(problem, grown.part_of);
  for (std::size_t v = 0; v < before.part_of.size(); ++v) {
    grown.moved += grown.part_of[v] != before.part_of[v] ? 1 : 0;
  }
  return grown;
}

}  // namespace atl
