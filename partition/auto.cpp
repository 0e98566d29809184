// Method `auto`: what was measured to cut best for the size of the graph (docs/partition.md).
#include <array>

#include "base/parallel.hpp"
#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

class AutoPartitioner : public Partitioner {
 public:
  std::vector<std::int32_t> partition(const PartitionProblem& problem) const override {
    const Multilevel multilevel(problem);
    const bool counts_rows = problem.objective == PartitionObjective::kVolume;
    const bool takes_one = !multilevel.detailed() && !(multilevel.compared() && counts_rows);
    if (takes_one) return multilevel.cut();
    const auto metis = make_metis_partitioner();
    if (multilevel.is_small() || !counts_rows) return metis->partition(problem);
    // Two cuts at once, or one after the other. Each is made by one thread, however many there are.
    // Searching them before they are combined takes half as long again for 0.7 % fewer rows.
    std::array<std::vector<std::int32_t>, 2> cuts;
    do_both([&](int i) {
      cuts[i] = i == 0 ? multilevel.cut(/*climb=*/false) : metis->partition(problem);
    });
    if (multilevel.detailed()) return multilevel.combine(std::move(cuts[0]), std::move(cuts[1]));
    for (std::vector<std::int32_t>& cut : cuts) multilevel.search(cut);
    return multilevel.rows(cuts[1]) < multilevel.rows(cuts[0]) ? cuts[1] : cuts[0];
  }
};

}  // namespace

std::unique_ptr<Partitioner> make_auto_partitioner() { return std::make_unique<AutoPartitioner>(); }

}  // namespace atl
