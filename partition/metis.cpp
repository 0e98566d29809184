// METIS multilevel k-way partitioning (Karypis and Kumar, "Multilevel k-way partitioning scheme for
// irregular graphs", JPDC 1998).
#include <metis.h>

#include <limits>

#include "base/error.hpp"
#include "partition/partitioner.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

static_assert(sizeof(idx_t) == sizeof(std::int32_t) && sizeof(real_t) == sizeof(float),
              "this file expects METIS with 32-bit indices and reals");

class MetisPartitioner : public Partitioner {
 public:
  std::vector<std::int32_t> partition(const PartitionProblem& problem) const override;
};

void check_status(int status) {
  if (status == METIS_OK) return;
  if (status == METIS_ERROR_MEMORY) {
    fail(ErrorKind::kMemory, "METIS ran out of memory; use --method random or contiguous");
  }
  fail_option("METIS failed with status {}; use --method random or contiguous", status);
}

std::vector<std::int32_t> MetisPartitioner::partition(const PartitionProblem& problem) const {
  Csr structure = undirected_structure(problem.graph);
  auto nodes = static_cast<idx_t>(problem.graph.nodes());
  check_metis_limits(problem.graph.nodes(), structure.view().nnz());
  std::vector<idx_t> row_ptr(structure.row_ptr.begin(), structure.row_ptr.end());
  structure.row_ptr = {};

  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  const bool volume = problem.objective == PartitionObjective::kVolume;
  options[METIS_OPTION_OBJTYPE] = volume ? METIS_OBJTYPE_VOL : METIS_OBJTYPE_CUT;
  options[METIS_OPTION_SEED] = static_cast<idx_t>(problem.seed & 0x7FFFFFFFU);
  options[METIS_OPTION_NUMBERING] = 0;
  // Seeds differ by up to 15 % in halo rows; METIS keeps the best of several cuts.
  options[METIS_OPTION_NCUTS] = problem.cuts;

  auto constraints = static_cast<idx_t>(problem.constraints);
  auto parts = static_cast<idx_t>(problem.parts);
  std::vector<idx_t> weights(problem.node_weights.begin(), problem.node_weights.end());
  std::vector<real_t> shares;
  for (const double share : problem.shares) {
    shares.insert(shares.end(), constraints, static_cast<real_t>(share));
  }
  // With two quantities METIS overshoots by about as much again.
  const double asked = problem.constraints == 1 ? problem.imbalance : 0.6 * problem.imbalance;
  std::vector<real_t> bounds(constraints, static_cast<real_t>(1 + asked));
  std::vector<idx_t> part_of(nodes, 0);
  idx_t objective = 0;
  check_status(METIS_PartGraphKway(&nodes, &constraints, row_ptr.data(), structure.col_idx.data(),
                                   weights.data(), nullptr, nullptr, &parts, shares.data(),
                                   bounds.data(), options, &objective, part_of.data()));
  return {part_of.begin(), part_of.end()};
}

}  // namespace

void check_metis_limits(std::int64_t nodes, std::int64_t entries) {
  constexpr std::int64_t kLimit = std::numeric_limits<idx_t>::max();
  if (nodes < kLimit && entries <= kLimit) return;
  fail_input(
      "the graph has {} nodes and {} adjacency entries, METIS here counts in 32 bits (at most "
      "{}); use --method random or contiguous",
      nodes, entries, kLimit);
}

std::unique_ptr<Partitioner> make_metis_partitioner() {
  return std::make_unique<MetisPartitioner>();
}

}  // namespace atl
