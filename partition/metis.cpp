// METIS multilevel k-way partitioning (Karypis and Kumar, "Multilevel k-way partitioning scheme for
// irregular graphs", JPDC 1998).
#include <metis.h>

#include <limits>

#include "base/error.hpp"
#include "partition/metis_call.hpp"
#include "partition/partitioner.hpp"
#include "partition/scaled_weights.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

static_assert(sizeof(idx_t) == sizeof(std::int32_t) && sizeof(real_t) == sizeof(float),
              "this file expects METIS with 32-bit indices and reals");

// Those that ask METIS for less than `method` does, or for nothing.
const char* lighter_methods(const std::string& method) {
  return method == "metis" ? "communities, random or contiguous" : "random or contiguous";
}

void check_status(int status, const std::string& method) {
  if (status == METIS_OK) return;
  if (status == METIS_ERROR_MEMORY) {
    fail(ErrorKind::kMemory, "METIS ran out of memory; use --method {}", lighter_methods(method));
  }
  fail_option("METIS failed with status {}; use --method {}", status, lighter_methods(method));
}

}  // namespace

std::vector<std::int32_t> cut_metis(const PartitionProblem& problem) {
  const Csr structure = undirected_structure(problem.graph.in_edges, out_edges(problem));
  return cut_level_by_metis({structure.view(), {}, {}, problem.node_weights, problem.constraints},
                            problem);
}

std::vector<std::int32_t> cut_level_by_metis(const GraphLevel& graph,
                                             const PartitionProblem& problem) {
  auto nodes = static_cast<idx_t>(graph.nodes());
  check_metis_limits(graph.nodes(), graph.edges.nnz(), problem.method);
  std::vector<idx_t> row_ptr(graph.edges.row_ptr.begin(), graph.edges.row_ptr.end());
  // METIS adds edge weights up in 32 bits.
  std::vector<idx_t> edge_weights(graph.edge_weights.begin(), graph.edge_weights.end());
  scale_to_int32(edge_weights);

  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  // Volume counts nodes of this graph, which is what is sent only where they are no communities.
  const bool volume = problem.objective == PartitionObjective::kVolume && edge_weights.empty();
  options[METIS_OPTION_OBJTYPE] = volume ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
  options[METIS_OPTION_SEED] = static_cast<idx_t>(problem.seed & 0x7FFFFFFFU);
  options[METIS_OPTION_NUMBERING] = 0;
  // Seeds differ by up to 15 % in halo rows; METIS keeps the best of several cuts.
  options[METIS_OPTION_NCUTS] = problem.cuts;

  auto constraints = static_cast<idx_t>(problem.constraints);
  auto parts = static_cast<idx_t>(problem.parts);
  std::vector<idx_t> weights(graph.node_weights.begin(), graph.node_weights.end());
  std::vector<real_t> shares;
  for (const double share : problem.shares) {
    shares.insert(shares.end(), constraints, static_cast<real_t>(share));
  }
  // With two quantities METIS overshoots by about as much again.
  const double asked = problem.constraints == 1 ? problem.imbalance : 0.6 * problem.imbalance;
  std::vector<real_t> bounds(constraints, static_cast<real_t>(1 + asked));
  std::vector<idx_t> part_of(nodes, 0);
  idx_t objective = 0;
  const MetisCall call;
  check_status(
      METIS_PartGraphKway(&nodes, &constraints, row_ptr.data(),
                          const_cast<idx_t*>(graph.edges.col_idx.data()), weights.data(), nullptr,
                          edge_weights.empty() ? nullptr : edge_weights.data(), &parts,
                          shares.data(), bounds.data(), options, &objective, part_of.data()),
      problem.method);
  return {part_of.begin(), part_of.end()};
}

void check_metis_limits(std::int64_t nodes, std::int64_t entries, const std::string& method) {
  constexpr std::int64_t kLimit = std::numeric_limits<idx_t>::max();
  if (nodes < kLimit && entries <= kLimit) return;
  fail_input(
      "a graph of {} nodes and {} adjacency entries is left to METIS, which here counts in 32 bits "
      "(at most {}); use --method {}",
      nodes, entries, kLimit, lighter_methods(method));
}

}  // namespace atl
