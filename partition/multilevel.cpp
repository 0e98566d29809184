#include "partition/multilevel.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "partition/climb.hpp"
#include "partition/cut_weight.hpp"
#include "partition/descent.hpp"
#include "partition/island_prices.hpp"
#include "partition/peak_prices.hpp"
#include "partition/priced_rows.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

constexpr std::uint64_t kSeedStep = 1000;  // between seeds of one cut

// Per node below, the value that `above` has for its community; gathered() is the reverse.
std::vector<std::int32_t> taken_apart(const Communities& communities,
                                      const std::vector<std::int32_t>& above) {
  std::vector<std::int32_t> below(communities.of.size());
  parallel_for(static_cast<std::int64_t>(below.size()), 1 << 14,
               [&](std::int64_t v) { below[v] = above[communities.of[v]]; });
  return below;
}

std::vector<std::int32_t> gathered(const Communities& communities,
                                   const std::vector<std::int32_t>& below) {
  std::vector<std::int32_t> above(static_cast<std::size_t>(communities.count));
  for (std::size_t v = 0; v < below.size(); ++v) above[communities.of[v]] = below[v];
  return above;
}

}  // namespace

GraphLevel finest_level(const PartitionProblem& problem) {
  const CsrView in{problem.graph.in_edges.row_ptr, problem.graph.in_edges.col_idx, {}};
  return {in, out_edges(problem), {}, problem.node_weights, problem.constraints};
}

std::vector<Nets> nets_of(const PartitionProblem& problem) {
  const GraphLevel graph = finest_level(problem);
  if (problem.graph.symmetric) return {{graph.edges, graph.edges, /*with_itself=*/true}};
  return {{graph.reversed, graph.edges, /*with_itself=*/true},
          {graph.edges, graph.reversed, /*with_itself=*/true}};
}

std::vector<double> load_limits(const PartitionProblem& problem, double imbalance) {
  std::vector<double> limits = load_shares(problem);
  for (double& limit : limits) limit *= 1 + imbalance;
  return limits;
}

PartLoads limited_loads(const PartitionProblem& problem, std::span<const std::int32_t> part_of) {
  return {problem.constraints, problem.node_weights, load_limits(problem, problem.imbalance),
          part_of};
}

std::int64_t Multilevel::nodes_of_last_level(int parts) {
  constexpr std::int64_t kNodes = 5000;
  constexpr std::int64_t kNodesPerPart = 64;
  return std::max(kNodes, kNodesPerPart * parts);
}

Multilevel::Multilevel(const PartitionProblem& problem, Effort effort)
    : problem_(problem), effort_(effort), last_level_(nodes_of_last_level(problem.parts)) {
  finest_ = finest_level(problem);
  detailed_ = detailed(finest_.entries());
  compared_ = compared(finest_.entries());
}

std::vector<std::int32_t> Multilevel::cut(bool climb) const {
  std::vector<Level> levels = coarsen({}, problem_.seed);
  // The graph itself may have loops, duplicates and edges in one direction only.
  if (levels.empty()) return cut_metis(problem_);
  std::vector<std::int32_t> part_of = cut_last(levels.back());
  return uncoarsen(std::move(levels), std::move(part_of),
                   climb ? Search::kClimb : Search::kDescent);
}

std::vector<Multilevel::Level> Multilevel::coarsen(std::vector<std::int32_t> part_of,
                                                   std::uint64_t seed) const {
  // Small steps keep what only a few nodes have in common; large graphs have no time for them.
  const double growth = detailed_ ? 8 : 1e9;
  const int rounds = detailed_ ? 3 : 2;
  const std::vector<std::int64_t> total = total_weights(problem_);
  std::vector<Level> levels;
  while (true) {
    const GraphLevel graph = levels.empty() ? finest_ : levels.back().graph.level();
    if (graph.nodes() <= last_level_) break;
    const Activity activity("finding communities");
    std::vector<std::int64_t> bounds;
    for (const std::int64_t sum : total) {
      const auto weight = static_cast<double>(sum);
      const double bound = std::min(2 * weight / static_cast<double>(last_level_),
                                    growth * weight / static_cast<double>(graph.nodes()));
      bounds.push_back(static_cast<std::int64_t>(bound) + 1);
    }
    Level next;
    next.communities = find_communities(graph, bounds, part_of, rounds, seed + levels.size());
    // A graph that hardly shrinks any more won't reach the target.
    if (next.communities.count * 20 > graph.nodes() * 19) break;
    next.graph = contract(graph, next.communities);
    if (detailed_ && problem_.objective == PartitionObjective::kVolume) {
      next.rows = contracted_rows(levels, next.communities.of);
    }
    if (!part_of.empty()) part_of = gathered(next.communities, part_of);
    levels.push_back(std::move(next));
  }
  return levels;
}

std::vector<ContractedNets> Multilevel::contracted_rows(
    const std::vector<Level>& levels, std::span<const std::int32_t> community_of) const {
  std::vector<ContractedNets> contracted;
  if (levels.empty()) {
    for (const Nets& of : nets_of(problem_)) {
      contracted.push_back(contract_nets(of.pins, of.with_itself, {}, community_of));
    }
  } else {
    for (const ContractedNets& nets : levels.back().rows) {
      contracted.push_back(
          contract_nets(nets.pins.view(), /*with_itself=*/false, nets.weights, community_of));
    }
  }
  return contracted;
}

std::vector<std::int32_t> Multilevel::uncoarsen(std::vector<Level> levels,
                                                std::vector<std::int32_t> part_of,
                                                Search search) const {
  const Activity activity("improving the cut");
  for (; !levels.empty(); levels.pop_back()) {
    improve(levels.back(), part_of, search);
    part_of = taken_apart(levels.back().communities, part_of);
  }
  if (problem_.objective == PartitionObjective::kCut) descend_cut(finest_, part_of);
  return part_of;
}

// The halo rows of a level, with its own nodes for pins.
class Multilevel::LevelNets {
 public:
  explicit LevelNets(const Level& level) {
    for (const ContractedNets& rows : level.rows) {
      nets_of_.push_back(transpose(rows.pins.view(), level.communities.count));
    }
    for (std::size_t i = 0; i < nets_of_.size(); ++i) {
      directions_.push_back({level.rows[i].pins.view(), nets_of_[i].view(),
                             /*with_itself=*/false, level.rows[i].weights});
    }
  }
  LevelNets(const LevelNets&) = delete;
  LevelNets& operator=(const LevelNets&) = delete;
  ~LevelNets() = default;
  std::span<const Nets> directions() const { return directions_; }

 private:
  std::vector<Csr> nets_of_;
  std::vector<Nets> directions_;
};

// METIS knows edges, not rows, and its seeds differ: the best of several cuts by rows.
std::vector<std::int32_t> Multilevel::cut_last(const Level& level) const {
  constexpr int kCuts = 8;
  const Activity activity("cutting communities by METIS");
  const GraphLevel graph = level.graph.level();
  // METIS takes long for a graph that did not shrink.
  if (level.rows.empty() || graph.nodes() > 2 * last_level_)
    return cut_level_by_metis(graph, problem_);
  const LevelNets nets(level);
  PartitionProblem problem = problem_;
  problem.cuts = 1;
  std::vector<std::int32_t> best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < std::max(kCuts, problem_.cuts); ++i) {
    problem.seed = problem_.seed + kSeedStep * static_cast<std::uint64_t>(i);
    std::vector<std::int32_t> part_of = cut_level_by_metis(graph, problem);
    HaloRows rows(nets.directions(), part_of, problem_.parts);
    PartLoads loads(problem_.constraints, graph.node_weights, limits(), part_of);
    Descent(rows, loads, std::span(part_of)).run(0);
    if (const std::int64_t count = rows.rows(); count < least) {
      least = count;
      best = std::move(part_of);
    }
  }
  return best;
}

void Multilevel::improve(const Level& level, std::span<std::int32_t> part_of, Search search) const {
  // On R-MAT in 16 parts 3 leaves 4 % fewer rows than 1 or 2.
  constexpr double kLoosely = 3;
  const GraphLevel graph = level.graph.level();
  if (level.rows.empty()) return descend_cut(graph, part_of);
  const LevelNets nets(level);
  HaloRows rows(nets.directions(), part_of, problem_.parts);
  const double room = search == Search::kLooseClimb ? kLoosely : 1;
  PartLoads loads(problem_.constraints, graph.node_weights,
                  load_limits(problem_, room * problem_.imbalance), part_of);
  const double least = effort_.least_gain * static_cast<double>(rows.rows());
  Descent(rows, loads, part_of).run(0);
  if (search != Search::kDescent)
    Climb(rows, loads, graph, part_of).run(effort_.rounds, least, problem_.seed);
}

void Multilevel::descend_cut(const GraphLevel& graph, std::span<std::int32_t> part_of) const {
  CutWeight weight(graph, part_of, problem_.parts);
  PartLoads loads(problem_.constraints, graph.node_weights, limits(), part_of);
  Descent(weight, loads, part_of).run(0);
}

std::int64_t Multilevel::rows(std::span<const std::int32_t> part_of) const {
  std::int64_t sum = 0;
  for (const Nets& of : nets_of(problem_)) {
    std::vector<std::int64_t> seen(static_cast<std::size_t>(problem_.parts), -1);  // last net there
    for (std::int64_t n = 0; n < of.pins.rows(); ++n) {
      of.for_each_pin(static_cast<std::int32_t>(n), [&](std::int32_t pin) {
        std::int64_t& last = seen[part_of[pin]];
        sum += last != n ? 1 : 0;
        last = n;
      });
      --sum;
    }
  }
  return sum;
}

void Multilevel::search(std::span<std::int32_t> part_of) const {
  const std::vector<Nets> directions = nets_of(problem_);
  HaloRows rows(directions, part_of, problem_.parts);
  PartLoads loads = limited_loads(problem_, part_of);
  const double least = effort_.least_gain * static_cast<double>(rows.rows());
  Descent(rows, loads, part_of).run(least);
  if (detailed_) Climb(rows, loads, finest_, part_of).run(effort_.rounds, least, problem_.seed);
}

void Multilevel::cycle(std::span<std::int32_t> part_of, std::vector<std::int32_t> cells, Search how,
                       std::uint64_t seed) const {
  std::vector<std::int32_t> above(part_of.begin(), part_of.end());
  std::vector<Level> levels = coarsen(std::move(cells), seed);
  for (const Level& level : levels) above = gathered(level.communities, above);
  std::ranges::copy(uncoarsen(std::move(levels), std::move(above), how), part_of.begin());
  search(part_of);
}

std::vector<std::int32_t> Multilevel::combine(std::vector<std::int32_t> one,
                                              std::vector<std::int32_t> other) const {
  if (rows(other) < rows(one)) std::swap(one, other);
  for (std::size_t v = 0; v < one.size(); ++v) other[v] += problem_.parts * one[v];
  std::vector<std::int32_t> combined = one;
  cycle(combined, std::move(other), Search::kLooseClimb, problem_.seed);
  return rows(combined) <= rows(one) ? combined : one;
}

void Multilevel::refine(std::span<std::int32_t> part_of) const {
  if (problem_.objective != PartitionObjective::kVolume) return;
  // The result of combine() has been searched, and has less to gain.
  const bool combined = problem_.method == "auto" && detailed_ && !is_small();
  const int cycles = combined ? 1 : 2;
  const Activity activity("improving the cut");
  if (!combined) search(part_of);
  for (int i = 1; detailed_ && i <= cycles; ++i) {
    cycle(part_of, {part_of.begin(), part_of.end()}, Search::kDescent,
          problem_.seed + kSeedStep * static_cast<std::uint64_t>(i));
  }
}

// Searches as well would take 20 times as long for another 1 % of the rows between islands.
void Multilevel::refine_islands(std::span<std::int32_t> part_of) const {
  const Activity activity("improving the cut between islands");
  const std::vector<Nets> directions = nets_of(problem_);
  IslandPrices prices(problem_.islands);
  PricedRows rows(directions, part_of, problem_.parts, prices);
  PartLoads loads = limited_loads(problem_, part_of);
  Descent(rows, loads, part_of).run(effort_.least_gain * static_cast<double>(rows.cost()));
}

// Descents at rising pressure leave the fullest part, whatever that costs others; those at a low
// one take back rows that were paid for nothing.
void Multilevel::even_out(std::span<std::int32_t> part_of) const {
  if (!detailed_ || problem_.objective != PartitionObjective::kVolume) return;
  constexpr std::array kPressures = {1, 1, 2, 2, 1, 4, 4, 1, 8, 8, 1};
  const Activity activity("evening out what parts send and receive");
  const std::vector<Nets> directions = nets_of(problem_);
  PeakPrices prices(directions.size(), problem_.parts);
  PricedRows rows(directions, part_of, problem_.parts, prices);
  PartLoads loads = limited_loads(problem_, part_of);
  const auto total = static_cast<double>(prices.total());
  const auto peak = static_cast<double>(prices.peak());
  if (total == 0) return;
  std::vector<std::int32_t> best(part_of.begin(), part_of.end());
  double least = 2;
  for (const int pressure : kPressures) {
    prices.set_pressure(pressure);
    Descent(rows, loads, part_of).run(std::numeric_limits<double>::infinity());
    const double of_total = static_cast<double>(prices.total()) / total;
    const double of_both = of_total + static_cast<double>(prices.peak()) / peak;
    if (of_total > kMostRowsForPeak || of_both >= least) continue;
    least = of_both;
    std::ranges::copy(part_of, best.begin());
  }
  std::ranges::copy(best, part_of.begin());
}

std::vector<std::int32_t> cut_communities(const PartitionProblem& problem) {
  return Multilevel(problem).cut();
}

}  // namespace atl
