// The second cut, which knows that a marginal node costs more than a central one: its row is packed
// or waited for, and its neighbours' rows are unpacked.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "partition/partitioner.hpp"

namespace atl {

std::vector<std::uint8_t> find_marginal(const GraphView& graph,
                                        std::span<const std::int32_t> part_of) {
  std::vector<std::uint8_t> marginal(graph.nodes(), 0);
  for (std::int64_t v = 0; v < graph.nodes(); ++v) {
    for (const std::int32_t u : graph.in_edges.row(v)) {
      if (part_of[u] != part_of[v]) marginal[u] = marginal[v] = 1;
    }
  }
  return marginal;
}

std::vector<std::int32_t> weigh_marginal(const PartitionProblem& problem,
                                         std::span<const std::uint8_t> marginal, double cost) {
  constexpr double kFinest = 100;  // costs are fractions, weights are whole
  const std::int64_t constraints = problem.constraints;
  std::vector<std::int32_t> weights = problem.node_weights;
  double sum = 0;
  for (std::size_t v = 0; v < marginal.size(); ++v) {
    sum += weights[v * constraints] * (marginal[v] != 0 ? 1 + cost : 1);
  }
  // Rounding up may add one per node.
  const double most = static_cast<double>(kMostWeight) - static_cast<double>(marginal.size());
  const double scale = std::min(kFinest, std::max(1.0, most) / std::max(1.0, sum));
  for (std::size_t v = 0; v < marginal.size(); ++v) {
    std::int32_t& weight = weights[v * constraints];
    weight = static_cast<std::int32_t>(
        std::ceil(weight * (marginal[v] != 0 ? 1 + cost : 1) * scale - 1e-6));
  }
  return weights;
}

double marginal_balance(const PartitionProblem& problem, std::span<const std::int32_t> part_of,
                        double cost) {
  const std::vector<std::uint8_t> marginal = find_marginal(problem.graph, part_of);
  std::vector<double> loads(problem.parts, 0.0);
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    loads[part_of[v]] +=
        problem.node_weights[v * problem.constraints] * (marginal[v] != 0 ? 1 + cost : 1);
  }
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  double worst = 0;
  for (int part = 0; part < problem.parts; ++part) {
    worst = std::max(worst, loads[part] / (problem.shares[part] * sum));
  }
  return worst;
}

void recut_with_marginal_cost(const Partitioner& partitioner, double cost,
                              PartitionProblem& problem, std::vector<std::int32_t>& part_of) {
  const double first = marginal_balance(problem, part_of, cost);
  auto plain = std::exchange(problem.node_weights,
                             weigh_marginal(problem, find_marginal(problem.graph, part_of), cost));
  auto second_cut = cut_graph(partitioner, problem);
  const bool valid = within_bounds(problem, second_cut);
  std::swap(plain, problem.node_weights);
  if (!valid || marginal_balance(problem, second_cut, cost) >= first) return;
  problem.node_weights = std::move(plain);  // those with the marginal cost
  part_of = std::move(second_cut);
}

}  // namespace atl
