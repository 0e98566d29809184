// --refine strong: several cuts from different seeds, combined by pairs (as populations of cuts are
// in Sanders and Schulz, "Distributed evolutionary graph partitioning", ALENEX 2012).
#include <array>
#include <utility>

#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

void combine_with_other_starts(const PartitionProblem& problem,
                               std::vector<std::int32_t>& part_of) {
  constexpr int kPairs = 2;
  PartitionProblem usual = problem;
  usual.method = "auto";
  usual.refine = Refinement::kOn;
  const Multilevel thorough(usual, Multilevel::kThorough);
  if (!thorough.detailed() || problem.objective != PartitionObjective::kVolume) return;
  const Activity activity("combining several cuts");
  const auto start = [&](int number) {
    PartitionProblem seeded = usual;
    seeded.seed = mixed_bits(problem.seed, static_cast<std::uint64_t>(number));
    return cut_graph(cut_auto, seeded);
  };
  std::array<std::vector<std::int32_t>, kPairs> cuts;
  do_both([&](int pair) {
    std::vector<std::int32_t> first = pair == 0 ? part_of : start(2 * pair);
    cuts[pair] = thorough.combine(std::move(first), start(2 * pair + 1));
  });
  std::vector<std::int32_t> combined = thorough.combine(std::move(cuts[0]), std::move(cuts[1]));
  thorough.refine(combined);
  thorough.even_out(combined);
  rebalance(problem, combined);
  // Evening out may have cost more rows than were gained.
  if (!within_bounds(problem, combined)) return;
  if (thorough.rows(combined) <= thorough.rows(part_of)) part_of = std::move(combined);
}

}  // namespace atl
