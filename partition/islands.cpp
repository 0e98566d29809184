// Cuts for machines whose links differ: first into islands of parts with fast links among
// themselves, then each island into its parts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "partition/partitioner.hpp"

namespace atl {

namespace {

// Two cuts, one inside the other, are each allowed so much that both together stay in the bound.
double stage_imbalance(const PartitionProblem& problem) {
  return std::sqrt(1 + problem.imbalance) - 1;
}

PartitionProblem problem_of_islands(const PartitionProblem& problem) {
  PartitionProblem outer = problem;
  outer.islands.clear();
  outer.parts = static_cast<int>(problem.islands.size());
  outer.imbalance = stage_imbalance(problem);
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
  inner.parts = size;
  inner.objective = problem.objective;
  inner.constraints = problem.constraints;
  for (const std::int32_t node : members) {
    const auto weights = problem.node_weights.begin() + node * problem.constraints;
    inner.node_weights.insert(inner.node_weights.end(), weights, weights + problem.constraints);
  }
  const auto share = problem.shares.begin() + first;
  inner.shares = normalised_shares({share, share + size}, size);
  inner.imbalance = stage_imbalance(problem);
  inner.seed = problem.seed;
  inner.cuts = problem.cuts;
  return inner;
}

}  // namespace

std::vector<std::int32_t> cut_islands(const Partitioner& partitioner,
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

}  // namespace atl
