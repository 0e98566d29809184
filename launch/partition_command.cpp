// `atoll partition`: cuts a dataset into parts, writes their shards and prints how good the cut is.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "datasets/partition_folder.hpp"
#include "datasets/partition_growth.hpp"
#include "datasets/partition_list.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/partition_flags.hpp"
#include "launch/planned_graph.hpp"
#include "launch/validators.hpp"
#include "partition/quality.hpp"

namespace atl {
namespace {

struct PartitionArguments {
  std::string dataset;
  std::optional<int> parts;
  std::string from;
  double drift = kUsualDrift;
  bool list = false;
  bool prune = false;
  bool dry_run = false;
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

void run_list(const Dataset& dataset, const PartitionOptions& options, bool json) {
  const auto entries = list_partitions(dataset, options, /*every_byte=*/false);
  if (json) {
    fmt::print("{}", json_text(to_json(entries)));
  } else if (entries.empty()) {
    fmt::print("no partitions in {}\n", parts_folder(dataset, options).string());
  } else {
    fmt::print("{}", to_text(entries));
  }
}

void run_prune(const Dataset& dataset, const PartitionOptions& options, bool dry_run) {
  std::int64_t bytes = 0;
  int removed = 0;
  std::vector<PartitionEntry> entries = list_partitions(dataset, options, /*every_byte=*/true);
  const auto communities = list_communities(dataset, options, /*every_byte=*/true);
  entries.insert(entries.end(), communities.begin(), communities.end());
  for (const PartitionEntry& entry : entries) {
    if (entry.stale.empty()) continue;
    const std::string folder = entry.folder.string();
    if (!entry.removable()) {
      fmt::print("left alone: {}: {}; but it {}\n", folder, entry.stale, entry.kept);
      continue;
    }
    if (!dry_run) remove_partition(entry);
    fmt::print("{} {} ({}): {}\n", dry_run ? "would remove" : "removed", folder,
               format_bytes(entry.bytes), entry.stale);
    bytes += entry.bytes;
    ++removed;
  }
  fmt::print("{} {} folder{}, {}\n", dry_run ? "would remove" : "removed", removed,
             removed == 1 ? "" : "s", format_bytes(bytes));
}

// How a partition grew, and whether it is one that --from found there already.
void print_growth(const Partition& partition, bool from) {
  const auto steps = growth_steps(partition.description, partition.folder / "partition.json");
  if (!steps.empty()) {
    fmt::print("{}{}\n", to_text(steps.back()),
               steps.size() > 1 ? fmt::format("; step {}", steps.size()) : "");
  } else if (from) {
    fmt::print("cut from nothing before; remove the folder to let it grow from --from\n");
  }
}

void run_partition(const PartitionArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const Dataset dataset = Dataset::open(arguments.dataset);
  const PartitionOptions options = arguments.flags.resolve(arguments.seed, arguments.split_index);
  if (arguments.list) return run_list(dataset, options, arguments.json);
  if (arguments.prune) return run_prune(dataset, options, arguments.dry_run);
  if (!arguments.parts && arguments.from.empty()) {
    fail_option("--parts is required, or --from, --list or --prune; see atoll partition --help");
  }
  if (!arguments.shape_out.empty()) check_result_file(arguments.shape_out, "--shape-out");
  // Most cuts look at no split, and then nobody else would notice.
  if (arguments.split_index != 0) {
    dataset.split(arguments.split_index);
    if (options.balance != PartitionBalance::kEdgesTrain) {
      fail_option(
          "--split-index: {} found with --balance {}, which looks at no split; allowed with {}",
          arguments.split_index, arguments.flags.balance, to_string(PartitionBalance::kEdgesTrain));
    }
  }
  const Partition made =
      arguments.from.empty()
          ? ensure_partition(dataset, *arguments.parts, options)
          : grow_partition(dataset, arguments.parts, options, arguments.from, arguments.drift);
  const auto& [folder, partition, quality] = made;
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
  print_growth(made, !arguments.from.empty());
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
      "  atoll partition data/huge --parts 64 --method communities\n"
      "  atoll partition data/arxiv --parts 4 --method file --parts-file parts.npy   (made "
      "elsewhere)\n"
      "  atoll partition data/grown --from data/arxiv --parts 4   (which is larger since)\n"
      "  atoll partition data/arxiv --list\n"
      "  atoll partition data/arxiv --prune --dry-run");
  const auto arguments = std::make_shared<PartitionArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  CLI::Option* parts = command->add_option("--parts", arguments->parts, "Number of parts")
                           ->check(CLI::Range(1, kMaxParts));
  CLI::Option* list =
      command->add_flag("--list", arguments->list, "Only say which partitions there are")
          ->excludes(parts);
  CLI::Option* prune =
      command
          ->add_flag(
              "--prune", arguments->prune,
              "Only remove partitions, and communities of train --blocks, that are damaged, of "
              "an older version of the program or of the dataset before it changed, and "
              "what interrupted cuts left")
          ->excludes(parts)
          ->excludes(list);
  CLI::Option* from =
      command
          ->add_option("--from", arguments->from,
                       "Extend this partition of the dataset before it grew: its folder, or that "
                       "dataset's, which has one with these options. Nodes kept their ids; new "
                       "ones follow")
          ->type_name("DIR")
          ->excludes(list)
          ->excludes(prune);
  command
      ->add_option("--drift", arguments->drift,
                   "With --from: cut anew above so many times the halo rows that a fresh cut is "
                   "expected to have")
      ->check(CLI::Range(kLeastDrift, kMostDrift))
      ->needs(from);
  command->add_flag("--dry-run", arguments->dry_run, "With --prune: say what it would remove")
      ->needs(prune);
  add_partition_flags(*command, arguments->flags);
  command->add_option("--seed,--partition-seed", arguments->seed, "Seed of the cut")
      ->check(seed_number());
  command->add_option("--split-index", arguments->split_index,
                      "Which split's training nodes edges,train balances");
  command->add_option("--shape-out", arguments->shape_out,
                      "Also write the counts that atoll plan --shape needs instead of the dataset");
  command->add_flag("--json", arguments->json, "Print JSON instead of tables");
  command->callback([arguments] { run_partition(*arguments); });
}

}  // namespace atl
