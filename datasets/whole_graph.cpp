#include "datasets/whole_graph.hpp"

#include "base/elapsed.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "datasets/partition_folder.hpp"
#include "partition/quality.hpp"

namespace atl {

bool fits_into_memory(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  const std::int64_t label_bytes = info.task == Task::kMultiLabel   ? info.classes
                                   : info.task == Task::kRegression ? 4 * info.classes
                                                                    : 4;
  const std::int64_t matrix = 16 * info.nodes + (info.weighted ? 8 : 4) * info.edges;
  // The local graph, and what building it takes: a structure to order, and a transpose of directed
  // graphs.
  const std::int64_t graph = (info.directed ? 5 : 2) * matrix + 32 * info.nodes;
  const std::int64_t edge_arrays =
      info.edges * ((info.relations > 0 ? 2 : 0) + 4 * info.edge_features);
  const std::int64_t rows = info.nodes * (4 * info.features + label_bytes + info.splits);
  // Training takes at least as much again as the features.
  return graph + edge_arrays + 2 * rows < available_memory_bytes();
}

WholeGraph whole_graph(const Dataset& dataset, const PartitionOptions& options) {
  constexpr double kLong = 5;  // seconds
  check_partition_options(dataset.info().nodes, 1, options);
  const SteadyTime start = steady_now();
  dataset.validate();
  WholeGraph whole;
  LocalGraph local;
  {
    const GraphView graph = dataset.graph();
    const auto split = partition_split(dataset, options);
    const std::vector<std::int32_t> part_of = partition_graph(graph, 1, options, split);
    LocalGraphBuilder builder(graph, part_of, 1, options.node_order);
    local = builder.build(0);
    whole.quality = to_json(measure_quality(builder, split, normalised_shares(options.weights, 1)));
  }
  whole.shard = Shard::copy(dataset, std::move(local));
  const double seconds = seconds_since(start);
  if (seconds > kLong) {
    log::info(
        "{} read and ordered in {:.0f} s; after `atoll partition {} --parts 1` it lies on "
        "disk in that order",
        dataset.info().name, seconds, dataset.folder().string());
  }
  return whole;
}

}  // namespace atl
