// Partitioners that ignore the edges: ranges of ids, and ranges of a random permutation.
#include <numeric>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "partition/partitioner.hpp"
#include "partition/random_permutation.hpp"

namespace atl {

namespace {

// Cuts `order` into consecutive ranges so that the weight up to the end of range p comes as close
// to the sum of the first p + 1 shares as whole nodes allow; every range gets at least one node.
std::vector<std::int32_t> cut_order(const PartitionProblem& problem,
                                    std::span<const std::int32_t> order, const char* method) {
  if (problem.constraints != 1) {
    fail_option(
        "--balance edges,train: --method {} can balance one quantity only; use --method "
        "metis, or --balance cost, nodes or edges",
        method);
  }
  const auto nodes = static_cast<std::int64_t>(order.size());
  const double total =
      std::accumulate(problem.node_weights.begin(), problem.node_weights.end(), 0.0);
  std::vector<std::int32_t> part_of(nodes);
  double placed = 0;
  double target = 0;
  std::int64_t next = 0;
  for (int part = 0; part < problem.parts; ++part) {
    target += problem.shares[part] * total;
    const std::int64_t last = nodes - (problem.parts - 1 - part);  // one node for each part to come
    const std::int64_t first = next;
    while (next < last) {
      const double weight = problem.node_weights[order[next]];
      const bool wanted = part == problem.parts - 1 || placed + weight / 2 <= target;
      if (next > first && !wanted) break;
      placed += weight;
      part_of[order[next++]] = part;
    }
  }
  return part_of;
}

}  // namespace

std::vector<std::int32_t> cut_contiguous(const PartitionProblem& problem) {
  std::vector<std::int32_t> order(problem.graph.nodes());
  std::iota(order.begin(), order.end(), 0);
  return cut_order(problem, order, "contiguous");
}

std::vector<std::int32_t> cut_random(const PartitionProblem& problem) {
  const RandomKey key{problem.seed, RandomStream::kPartition, 0, 0};
  return cut_order(problem, random_permutation(problem.graph.nodes(), key), "random");
}

}  // namespace atl
