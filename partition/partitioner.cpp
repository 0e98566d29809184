#include "partition/partitioner.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

std::vector<std::string> partition_methods() { return {"metis", "random", "contiguous"}; }

std::unique_ptr<Partitioner> make_partitioner(const std::string& method) {
  if (method == "metis") return make_metis_partitioner();
  if (method == "random") return make_random_partitioner();
  if (method == "contiguous") return make_contiguous_partitioner();
  fail_option("--method: '{}' is unknown; allowed are {}", method,
              fmt::join(partition_methods(), ", "));
}

std::vector<std::int32_t> partition_graph(const GraphView& graph, int parts,
                                          const PartitionOptions& options,
                                          std::span<const std::uint8_t> split) {
  const auto partitioner = make_partitioner(options.method);
  const PartitionProblem problem = make_partition_problem(graph, parts, options, split);
  if (parts == 1) return std::vector<std::int32_t>(graph.nodes(), 0);
  std::vector<std::int32_t> part_of = partitioner->partition(problem);
  repair_empty_parts(problem, part_of);
  validate_partition(problem, part_of);
  return part_of;
}

void repair_empty_parts(const PartitionProblem& problem, std::span<std::int32_t> part_of) {
  std::vector<std::vector<std::int32_t>> members(problem.parts);
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    const std::int32_t part = part_of[v];
    if (part < 0 || part >= problem.parts) return;  // validate_partition says which
    members[part].push_back(static_cast<std::int32_t>(v));
  }
  for (int part = 0; part < problem.parts; ++part) {
    if (!members[part].empty()) continue;
    const auto largest =
        std::ranges::max_element(members, {}, [](const auto& nodes) { return nodes.size(); });
    if (largest->size() < 2) return;
    const std::int32_t moved = largest->back();
    largest->pop_back();
    members[part].push_back(moved);
    part_of[moved] = part;
  }
}

std::vector<std::int64_t> part_loads(const PartitionProblem& problem,
                                     std::span<const std::int32_t> part_of) {
  const std::int64_t constraints = problem.constraints;
  std::vector<std::int64_t> loads(problem.parts * constraints, 0);
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    for (std::int64_t c = 0; c < constraints; ++c) {
      loads[part_of[v] * constraints + c] += problem.node_weights[v * constraints + c];
    }
  }
  return loads;
}

void validate_partition(const PartitionProblem& problem, std::span<const std::int32_t> part_of) {
  constexpr const char* kAdvice = "try another --seed or --method";
  const std::int64_t nodes = problem.graph.nodes();
  if (static_cast<std::int64_t>(part_of.size()) != nodes) {
    fail_option("the partitioner placed {} of {} nodes; {}", part_of.size(), nodes, kAdvice);
  }
  std::vector<std::int64_t> sizes(problem.parts, 0);
  for (std::int64_t v = 0; v < nodes; ++v) {
    if (part_of[v] < 0 || part_of[v] >= problem.parts) {
      fail_option("the partitioner put node {} into part {}; allowed are 0 to {}; {}", v,
                  part_of[v], problem.parts - 1, kAdvice);
    }
    ++sizes[part_of[v]];
  }
  const auto empty = std::ranges::find(sizes, 0);
  if (empty != sizes.end()) {
    fail_option("the partitioner left part {} of {} empty; {}", empty - sizes.begin(),
                problem.parts, kAdvice);
  }
  const std::int64_t constraints = problem.constraints;
  std::vector<std::int64_t> total(constraints, 0);
  std::vector<std::int64_t> heaviest_node(constraints, 0);
  for (std::int64_t i = 0; i < nodes * constraints; ++i) {
    total[i % constraints] += problem.node_weights[i];
    heaviest_node[i % constraints] =
        std::max<std::int64_t>(heaviest_node[i % constraints], problem.node_weights[i]);
  }
  const std::vector<std::int64_t> loads = part_loads(problem, part_of);
  for (std::int64_t i = 0; i < problem.parts * constraints; ++i) {
    const std::int64_t part = i / constraints;
    const std::int64_t c = i % constraints;
    const double share = problem.shares[part] * static_cast<double>(total[c]);
    const double bound = (1 + problem.imbalance) * share + static_cast<double>(heaviest_node[c]);
    if (static_cast<double>(loads[i]) > bound) {
      fail_option(
          "part {} of {} weighs {} where its share is {:.0f} and at most {:.0f} is allowed "
          "(--imbalance {} plus one node); raise --imbalance, balance something else, or {}",
          part, problem.parts, loads[i], share, bound, problem.imbalance, kAdvice);
    }
  }
}

}  // namespace atl
