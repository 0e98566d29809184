#include "partition/partitioner.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "base/own_names.hpp"
#include "base/parallel.hpp"
#include "partition/multilevel.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

// One way to cut.
struct Method {
  std::string name;
  std::function<Partitioner(const PartitionOptions&)> make;
  bool refines = false;  // unless options say otherwise
};

Method without_options(const std::string& name, const Partitioner& cut, bool refines) {
  return {name, [cut](const PartitionOptions&) { return cut; }, refines};
}

// In the order of help texts; those that a program has added come last.
std::vector<Method>& all_methods() {
  static std::vector<Method> methods{without_options("auto", cut_auto, true),
                                     without_options("metis", cut_metis, true),
                                     without_options("communities", cut_communities, true),
                                     without_options("random", cut_random, false),
                                     without_options("contiguous", cut_contiguous, false),
                                     {"file", cut_file, false}};
  return methods;
}

const Method* find_method(const std::string& name) {
  const auto found = std::ranges::find(all_methods(), name, &Method::name);
  return found == all_methods().end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> partition_methods() {
  std::vector<std::string> names;
  for (const Method& method : all_methods()) names.push_back(method.name);
  return names;
}

void add_partition_methods(const std::vector<PartitionMethod>& methods) {
  for (const PartitionMethod& method : methods) {
    check_own_name("partitioner", method.name, partition_methods());
    if (method.cut == nullptr) {
      fail_option("partitioner '{}' of this program has no function that cuts", method.name);
    }
    all_methods().push_back(without_options(method.name, method.cut, false));
  }
}

Refinement default_refinement(const std::string& method) {
  const Method* known = find_method(method);
  return known != nullptr && known->refines ? Refinement::kOn : Refinement::kOff;
}

Refinement effective_refinement(const PartitionOptions& options) {
  if (options.objective == PartitionObjective::kVolume) return options.refine;
  return options.method == "file" ? std::min(options.refine, Refinement::kOn) : Refinement::kOff;
}

void check_partition_method(const std::string& method) {
  if (find_method(method) != nullptr) return;
  fail_option("--method: '{}' is unknown; allowed are {}", method,
              fmt::join(partition_methods(), ", "));
}

Partitioner make_partitioner(const PartitionOptions& options) {
  check_partition_method(options.method);
  return find_method(options.method)->make(options);
}

int cutting_threads(std::int64_t nodes) {
  constexpr std::int64_t kThreadedNodes = 20'000;
  return nodes < kThreadedNodes ? 1 : parallel_threads();
}

std::vector<std::int32_t> partition_graph(const GraphView& graph, int parts,
                                          const PartitionOptions& options,
                                          std::span<const std::uint8_t> split) {
  const ParallelThreads threads(cutting_threads(graph.nodes()));
  const Partitioner partitioner = make_partitioner(options);
  PartitionProblem problem = make_partition_problem(graph, parts, options, split);
  if (parts == 1) return std::vector<std::int32_t>(graph.nodes(), 0);
  const std::vector<double> shares = problem.shares;
  for (std::size_t p = 0; p < options.part_order.size(); ++p) {
    problem.shares[options.part_order[p]] = shares[p];
  }
  std::vector<std::int32_t> part_of = cut_graph(partitioner, problem);
  if (options.marginal_cost > 0) {
    recut_with_marginal_cost(partitioner, options.marginal_cost, problem, part_of);
  }
  problem.shares = shares;
  renumber_parts(options.part_order, part_of);
  validate_partition(problem, part_of);
  return part_of;
}

std::vector<std::int32_t> cut_graph(const Partitioner& partitioner,
                                    const PartitionProblem& problem) {
  if (problem.parts == 1) return std::vector<std::int32_t>(problem.graph.nodes(), 0);
  std::vector<std::int32_t> part_of =
      problem.islands.empty() ? partitioner(problem) : cut_islands(partitioner, problem);
  validate_assignment(problem, part_of);
  repair_empty_parts(problem, part_of);
  // Islands were refined already: all rows alike would bring back rows between them.
  const bool refines = problem.refine != Refinement::kOff && problem.islands.empty();
  if (refines) {
    const Multilevel multilevel(problem);
    multilevel.refine(part_of);
    multilevel.even_out(part_of);
  }
  rebalance(problem, part_of);
  if (refines && problem.refine == Refinement::kStrong) combine_with_other_starts(problem, part_of);
  return part_of;
}

void renumber_parts(std::span<const int> order, std::span<std::int32_t> part_of) {
  if (order.empty()) return;
  std::vector<std::int32_t> place(order.size());
  for (std::size_t p = 0; p < order.size(); ++p) place[order[p]] = static_cast<std::int32_t>(p);
  for (std::int32_t& part : part_of) part = place[part];
}

CsrView out_edges(const PartitionProblem& problem) {
  if (problem.graph.symmetric) return {};
  if (!problem.reversed) {
    const CsrView in = problem.graph.in_edges;
    problem.reversed = std::make_shared<const Csr>(transpose(CsrView{in.row_ptr, in.col_idx, {}}));
  }
  return problem.reversed->view();
}

std::vector<std::int64_t> total_weights(const PartitionProblem& problem) {
  std::vector<std::int64_t> total(static_cast<std::size_t>(problem.constraints), 0);
  for (std::size_t i = 0; i < problem.node_weights.size(); ++i) {
    total[i % total.size()] += problem.node_weights[i];
  }
  return total;
}

std::vector<double> load_shares(const PartitionProblem& problem) {
  const std::vector<std::int64_t> total = total_weights(problem);
  std::vector<double> shares;
  for (const double share : problem.shares) {
    for (const std::int64_t sum : total) shares.push_back(share * static_cast<double>(sum));
  }
  return shares;
}

std::vector<double> load_bounds(const PartitionProblem& problem) {
  constexpr double kRounding = 0.001;  // METIS weighs parts in single precision
  std::vector<std::int32_t> heaviest_node(static_cast<std::size_t>(problem.constraints), 0);
  for (std::size_t i = 0; i < problem.node_weights.size(); ++i) {
    std::int32_t& heaviest = heaviest_node[i % heaviest_node.size()];
    heaviest = std::max(heaviest, problem.node_weights[i]);
  }
  std::vector<double> bounds = load_shares(problem);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] =
        (1 + problem.imbalance + kRounding) * bounds[i] + heaviest_node[i % heaviest_node.size()];
  }
  return bounds;
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

void validate_assignment(const PartitionProblem& problem, std::span<const std::int32_t> part_of) {
  const std::int64_t nodes = problem.graph.nodes();
  if (static_cast<std::int64_t>(part_of.size()) != nodes) {
    fail_option("the partitioner placed {} of {} nodes; {}", part_of.size(), nodes, kOtherCut);
  }
  for (std::int64_t v = 0; v < nodes; ++v) {
    if (part_of[v] < 0 || part_of[v] >= problem.parts) {
      fail_option("the partitioner put node {} into part {}; allowed are 0 to {}; {}", v,
                  part_of[v], problem.parts - 1, kOtherCut);
    }
  }
}

void validate_partition(const PartitionProblem& problem, std::span<const std::int32_t> part_of,
                        const std::string& advice) {
  validate_assignment(problem, part_of);
  std::vector<std::int64_t> sizes(problem.parts, 0);
  for (const std::int32_t part : part_of) ++sizes[part];
  const auto empty = std::ranges::find(sizes, 0);
  if (empty != sizes.end()) {
    fail_option("the cut left part {} of {} empty; {}", empty - sizes.begin(), problem.parts,
                advice);
  }
  const std::vector<std::int64_t> loads = part_loads(problem, part_of);
  const std::vector<double> bounds = load_bounds(problem);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (static_cast<double>(loads[i]) <= bounds[i]) continue;
    fail_option(
        "part {} of {} weighs {} where at most {:.0f} is allowed (its share, --imbalance {} "
        "and one node); raise --imbalance, balance something else, or {}",
        i / problem.constraints, problem.parts, loads[i], bounds[i], problem.imbalance, advice);
  }
}

}  // namespace atl
