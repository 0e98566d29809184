// Method `auto`: what was measured to cut best for the size of the graph (docs/partition.md).
#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

class AutoPartitioner : public Partitioner {
 public:
  std::vector<std::int32_t> partition(const PartitionProblem& problem) const override {
    const Multilevel multilevel(problem);
    if (!multilevel.detailed()) return multilevel.cut();
    const auto metis = make_metis_partitioner();
    if (multilevel.is_small() || problem.objective == PartitionObjective::kCut) {
      return metis->partition(problem);
    }
    std::vector<std::int32_t> by_metis = metis->partition(problem);
    std::vector<std::int32_t> by_communities = multilevel.cut();
    return multilevel.rows_after_descent(by_metis) <= multilevel.rows_after_descent(by_communities)
               ? by_metis
               : by_communities;
  }
};

}  // namespace

std::unique_ptr<Partitioner> make_auto_partitioner() { return std::make_unique<AutoPartitioner>(); }

}  // namespace atl
