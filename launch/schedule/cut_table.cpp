#include "launch/schedule/cut_table.hpp"

#include <fmt/format.h>

#include "base/progress.hpp"
#include "datasets/partition_folder.hpp"
#include "partition/quality.hpp"

namespace atl {

const CutCandidate& CutTable::of(const ScheduledTraining& training, int parts) {
  const std::tuple key(training.dataset.get(), to_json(training.partition).dump(), parts);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.emplace(key, make(training, parts)).first->second;
}

CutCandidate CutTable::make(const ScheduledTraining& training, int parts) {
  const Dataset& dataset = *training.dataset;
  const PartitionOptions& options = training.partition;
  check_partition_options(dataset.info().nodes, parts, options);
  constexpr const char* kName = "as without a plan";
  if (has_partition(dataset, parts, options)) {
    const Partition partition =
        read_partition(partition_folder(dataset, parts, options), dataset, parts, options);
    return {kName, options, parse_quality(partition.quality, partition.folder / "quality.json")};
  }
  const Activity activity(fmt::format("cutting {} into {} parts", dataset.info().name, parts));
  // Partitioners trust every id and value.
  if (checked_.insert(&dataset).second) dataset.validate();
  const std::span<const std::uint8_t> split = partition_split(dataset, options);
  const std::vector<std::int32_t> part_of = partition_graph(dataset.graph(), parts, options, split);
  const LocalGraphBuilder builder(dataset.graph(), part_of, parts);
  ++made_;
  return {kName, options,
          measure_quality(builder, split, normalised_shares(options.weights, parts))};
}

}  // namespace atl
