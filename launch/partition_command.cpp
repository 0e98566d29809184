// `atoll partition`: cuts a dataset into parts, writes their shards and prints how good the cut is.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "datasets/partition_folder.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/partition_flags.hpp"
#include "launch/planned_graph.hpp"
#include "launch/validators.hpp"
#include "partition/quality.hpp"

namespace atl {
namespace {

struct PartitionArguments {
  std::string dataset;
  int parts = 0;
  PartitionFlags flags;
  std::uint64_t seed = 1;
  std::int64_t split_index = 0;
  bool json = false;
  std::string shape_out;
};

// Sum of what parts of one island receive from parts of others; as PartitionQuality::forward_rows.
std::int64_t rows_between(const std::vector<int>& islands, const std::vector<std::int64_t>& rows) {
  std::vector<std::size_t> island_of;
  for (std::size_t i = 0; i < islands.size(); ++i) island_of.insert(island_of.end(), islands[i], i);
  const std::size_t parts = island_of.size();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (island_of[i / parts] != island_of[i % parts]) sum += rows[i];
  }
  return sum;
}

void run_partition(const PartitionArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const Dataset dataset = Dataset::open(arguments.dataset);
  const PartitionOptions options = arguments.flags.resolve(arguments.seed, arguments.split_index);
  const auto [folder, partition, quality] = ensure_partition(dataset, arguments.parts, options);
  const PartitionQuality figures = parse_quality(quality, folder / "quality.json");
  if (!arguments.shape_out.empty()) {
    write_json(arguments.shape_out, to_json(shape_of(dataset.info(), options, figures)));
  }
  if (arguments.json) {
    const Json document = {
        {"folder", folder.string()}, {"partition", partition}, {"quality", quality}};
    fmt::print("{}", json_text(document));
    return;
  }
  fmt::print("{}\n", to_text(figures));
  if (!options.islands.empty()) {
    fmt::print("halo rows between islands: {} forward, {} backward\n",
               rows_between(options.islands, figures.forward_rows),
               rows_between(options.islands, figures.backward_rows));
  }
  fmt::print("cut in {:.2f} s, {:.2f} s with shards; in {}\n",
             json_field<double>(partition, "partition_seconds", folder / "partition.json"),
             json_field<double>(partition, "total_seconds", folder / "partition.json"),
             folder.string());
}

}  // namespace

void add_partition_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("partition", "Cut a dataset into parts, one per rank of a later training");
  command->footer(
      "The parts are written to DIR/parts; `atoll train` finds them there, or makes them itself.\n"
      "Examples:\n"
      "  atoll partition data/arxiv --parts 4\n"
      "  atoll partition data/arxiv --parts 4 --objective cut --balance nodes\n"
      "  atoll partition data/arxiv --parts 3 --weights 2,1,1   (a first rank twice as fast)\n"
      "  atoll partition data/arxiv --parts 8 --islands 4,4     (two hosts with four ranks each)\n"
      "  atoll partition data/huge --parts 64 --method contiguous");
  const auto arguments = std::make_shared<PartitionArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  command->add_option("--parts", arguments->parts, "Number of parts")->required();
  add_partition_flags(*command, arguments->flags);
  command->add_option("--seed", arguments->seed, "Seed of metis and random")->check(seed_number());
  command->add_option("--split-index", arguments->split_index,
                      "Which split's training nodes edges,train balances");
  command->add_option("--shape-out", arguments->shape_out,
                      "Also write the counts that atoll plan --shape needs instead of the dataset");
  command->add_flag("--json", arguments->json, "Print JSON instead of tables");
  command->callback([arguments] { run_partition(*arguments); });
}

}  // namespace atl
