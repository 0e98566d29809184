// Cuts for machines whose links differ: into islands of parts with fast links among themselves.
#include <algorithm>
#include <numeric>
#include <utility>

#include "partition/assignment.hpp"
#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

// How much of the allowed imbalance the cut into islands may use; the cuts inside get the rest. The
// rows between islands are the dear ones, and freedom is what lowers them: on arxiv in two islands
// of four parts, 0.9 leaves 5 % fewer than even halves do.
constexpr double kOuterPart = 0.9;
double outer_imbalance(const PartitionProblem& problem) { return kOuterPart * problem.imbalance; }
double inner_imbalance(const PartitionProblem& problem) {
  return (1 + problem.imbalance) / (1 + outer_imbalance(problem)) - 1;
}

PartitionProblem problem_of_islands(const PartitionProblem& problem) {
  PartitionProblem outer = problem;
  outer.islands.clear();
  outer.parts = static_cast<int>(problem.islands.size());
  outer.imbalance = outer_imbalance(problem);
  outer.shares.clear();
  auto share = problem.shares.begin();
  for (const int size : problem.islands) {
    outer.shares.push_back(std::accumulate(share, share + size, 0.0));
    share += size;
  }
  return outer;
}

// Every island gets at least as many nodes as it has parts, from the one with most to spare.
void fill_islands(const std::vector<int>& islands,
                  std::vector<std::vector<std::int32_t>>& members) {
  const auto spare = [&](std::size_t island) {
    return static_cast<std::int64_t>(members[island].size()) - islands[island];
  };
  for (std::size_t island = 0; island < islands.size(); ++island) {
    while (spare(island) < 0) {
      std::size_t giver = 0;
      for (std::size_t other = 1; other < islands.size(); ++other) {
        if (spare(other) > spare(giver)) giver = other;
      }
      members[island].push_back(members[giver].back());
      members[giver].pop_back();
    }
    std::ranges::sort(members[island]);
  }
}

// The edges among `members`, which are ascending; `local` is scratch, -1 for every node.
Csr subgraph(const GraphView& graph, std::span<const std::int32_t> members,
             std::vector<std::int32_t>& local) {
  for (std::size_t i = 0; i < members.size(); ++i) local[members[i]] = static_cast<std::int32_t>(i);
  Csr csr;
  for (const std::int32_t node : members) {
    for (const std::int32_t u : graph.in_edges.row(node)) {
      if (local[u] >= 0) csr.col_idx.push_back(local[u]);
    }
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  for (const std::int32_t node : members) local[node] = -1;
  return csr;
}

// Nodes keep the weights that they have in the whole graph.
PartitionProblem problem_inside(const PartitionProblem& problem, const Csr& structure,
                                std::span<const std::int32_t> members, int first, int size) {
  PartitionProblem inner;
  inner.graph = {structure.view(), problem.graph.symmetric};
  inner.method = problem.method;
  inner.parts = size;
  inner.objective = problem.objective;
  inner.constraints = problem.constraints;
  for (const std::int32_t node : members) {
    const auto weights = problem.node_weights.begin() + node * problem.constraints;
    inner.node_weights.insert(inner.node_weights.end(), weights, weights + problem.constraints);
  }
  const auto share = problem.shares.begin() + first;
  inner.shares = normalised_shares({share, share + size}, size);
  inner.imbalance = inner_imbalance(problem);
  inner.seed = problem.seed;
  inner.cuts = problem.cuts;
  inner.refine = problem.refine;
  return inner;
}

// First into islands, then each island into its parts.
std::vector<std::int32_t> cut_twice(const Partitioner& partitioner,
                                    const PartitionProblem& problem) {
  std::vector<std::int32_t> part_of = cut_graph(partitioner, problem_of_islands(problem));
  std::vector<std::vector<std::int32_t>> members(problem.islands.size());
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    members[part_of[v]].push_back(static_cast<std::int32_t>(v));
  }
  fill_islands(problem.islands, members);
  std::vector<std::int32_t> local(part_of.size(), -1);
  int first = 0;
  for (std::size_t island = 0; island < members.size(); ++island) {
    const int size = problem.islands[island];
    const auto& nodes = members[island];
    const Csr structure = subgraph(problem.graph, nodes, local);
    const auto inner =
        cut_graph(partitioner, problem_inside(problem, structure, nodes, first, size));
    for (std::size_t i = 0; i < nodes.size(); ++i) part_of[nodes[i]] = first + inner[i];
    first += size;
  }
  return part_of;
}

// Rows that part `to` receives from part `from` in both directions, [to * parts + from].
std::vector<std::int64_t> count_rows(const PartitionProblem& problem,
                                     std::span<const std::int32_t> part_of) {
  const LocalGraphBuilder builder(problem.graph, part_of, problem.parts);
  std::vector<std::int64_t> rows;
  for (int to = 0; to < problem.parts; ++to) {
    for (int from = 0; from < problem.parts; ++from) {
      rows.push_back(builder.halo_rows(Direction::kForward, from, to) +
                     builder.halo_rows(Direction::kBackward, from, to));
    }
  }
  return rows;
}

// [parts * parts]: 1 between islands, 0 inside.
std::vector<double> island_costs(const std::vector<int>& islands) {
  std::vector<int> island_of;
  for (std::size_t i = 0; i < islands.size(); ++i) {
    island_of.insert(island_of.end(), islands[i], static_cast<int>(i));
  }
  std::vector<double> costs;
  for (const int to : island_of) {
    for (const int from : island_of) costs.push_back(to == from ? 0 : 1);
  }
  return costs;
}

// A flat cut whose parts are gathered into islands: as the cut numbers them, or, where parts have
// equal shares and may be exchanged, with the fewest rows between islands.
std::vector<std::int32_t> cut_and_gather(const Partitioner& partitioner,
                                         const PartitionProblem& problem) {
  PartitionProblem flat = problem;
  flat.islands.clear();
  std::vector<std::int32_t> part_of = cut_graph(partitioner, flat);
  const auto [least, most] = std::ranges::minmax(problem.shares);
  if (least < most) return part_of;
  const PartOrder best =
      best_part_order(count_rows(flat, part_of), island_costs(problem.islands), problem.parts);
  renumber_parts(best.order, part_of);
  return part_of;
}

double rows_between(const PartitionProblem& problem, std::span<const std::int32_t> part_of) {
  std::vector<int> order(problem.parts);
  std::iota(order.begin(), order.end(), 0);
  return order_cost(count_rows(problem, part_of), island_costs(problem.islands), order);
}

}  // namespace

std::vector<std::int32_t> cut_islands(const Partitioner& partitioner,
                                      const PartitionProblem& problem) {
  std::vector<std::int32_t> twice = cut_twice(partitioner, problem);
  std::vector<std::int32_t> gathered = cut_and_gather(partitioner, problem);
  // Empty or overfull parts that a partitioner leaves would spoil the comparison.
  validate_assignment(problem, twice);
  repair_empty_parts(problem, twice);
  rebalance(problem, twice);
  const bool better = rows_between(problem, gathered) < rows_between(problem, twice);
  std::vector<std::int32_t> part_of = better ? std::move(gathered) : std::move(twice);
  // Each cut inside an island knew nothing of rows to others.
  if (problem.refine != Refinement::kOff) Multilevel(problem).refine_islands(part_of);
  return part_of;
}

}  // namespace atl
