// `atoll split`: gives a dataset folder a split, or another one.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "datasets/partition_list.hpp"
#include "datasets/resplit.hpp"
#include "datasets/statistics.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct SplitArguments {
  std::string dataset;
  std::string split;
  std::uint64_t seed = 1;
  bool replace = false;
};

void run_split(const SplitArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const Dataset dataset =
      resplit(arguments.dataset, arguments.split, arguments.seed, arguments.replace);
  const auto [train, valid, test] = count_split(dataset, 0);
  fmt::print("{}: {} train, {} valid, {} test, {} none\n", dataset.info().name, train, valid, test,
             dataset.info().nodes - train - valid - test);
  std::size_t stale = 0;
  for (const PartitionEntry& entry : list_partitions(dataset, {}, /*every_byte=*/false)) {
    stale += entry.removable() ? 1 : 0;
  }
  if (stale == 0) return;
  fmt::print(
      "{} partition{} made before {} no longer used; atoll partition {} --prune removes {}\n",
      stale, stale == 1 ? "" : "s", stale == 1 ? "is" : "are", arguments.dataset,
      stale == 1 ? "it" : "them");
}

}  // namespace

void add_split_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("split", "Give a dataset a train / valid / test split");
  command->footer(
      "The split is drawn from the labelled nodes; same seed, same split. Changing it changes the\n"
      "dataset: it is partitioned anew, and runs made before can't be resumed.\n"
      "Examples:\n"
      "  atoll split data/mine --split .6,.2,.2\n"
      "  atoll split data/mine --split per-class:20,500,1000 --seed 2 --replace");
  const auto arguments = std::make_shared<SplitArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  command
      ->add_option("--split", arguments->split,
                   "Shares as 0.6,0.2,0.2, or counts as per-class:20,500,1000")
      ->required();
  command->add_option("--seed", arguments->seed, "Seed of the draw")->check(seed_number());
  command->add_flag("--replace", arguments->replace, "Replace the splits that the dataset has");
  command->callback([arguments] { run_split(*arguments); });
}

}  // namespace atl
