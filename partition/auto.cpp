// Method `auto`: what was measured to cut best for the size of the graph (docs/partition.md).
#include <array>

#include "base/parallel.hpp"
#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

std::vector<std::int32_t> cut_auto(const PartitionProblem& problem) {
  const Multilevel multilevel(problem);
  const bool counts_rows = problem.objective == PartitionObjective::kVolume;
  const bool takes_one = !multilevel.detailed() && !(multilevel.compared() && counts_rows);
  if (takes_one) return multilevel.cut();
  if (multilevel.is_small() || !counts_rows) return cut_metis(problem);
  // Two cuts at once, or one after the other. Each is made by one thread, however many there are.
  // Searching them before they are combined takes half as long again for 0.7 % fewer rows.
  std::array<std::vector<std::int32_t>, 2> cuts;
  do_both([&](int i) { cuts[i] = i == 0 ? multilevel.cut(/*climb=*/false) : cut_metis(problem); });
  if (multilevel.detailed()) return multilevel.combine(std::move(cuts[0]), std::move(cuts[1]));
  for (std::vector<std::int32_t>& cut : cuts) multilevel.search(cut);
  return multilevel.rows(cuts[1]) < multilevel.rows(cuts[0]) ? cuts[1] : cuts[0];
}

}  // namespace atl
