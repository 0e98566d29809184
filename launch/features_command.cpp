// `atoll features`: gives a dataset folder features that are made of its graph.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "datasets/made_features.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/stale_partitions.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct FeaturesArguments {
  std::string dataset;
  std::string source;
  std::uint64_t seed = 1;
  bool replace = false;
};

void run_features(const FeaturesArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const Dataset dataset = give_features(arguments.dataset, parse_feature_source(arguments.source),
                                        arguments.seed, arguments.replace);
  const std::int64_t columns = dataset.info().features;
  fmt::print("{}: {} feature{} of each node, {}\n", dataset.info().name, columns,
             columns == 1 ? "" : "s", arguments.source);
  tell_stale_partitions(dataset);
}

}  // namespace

void add_features_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("features", "Give a dataset without features some of its graph");
  command->footer(
      "degree: the logarithm of 1 + the number of neighbours. constant: 1. random:D: standard\n"
      "normal numbers. positional:D: eigenvectors of the graph's Laplacian. edges: the mean of "
      "the\n"
      "features of its edges. Parameters that are\n"
      "trained for each node are an option of the model instead: atoll train --features "
      "trained:D.\n"
      "Other features change the dataset: it is partitioned anew, and runs made before can't be\n"
      "resumed.\n"
      "Examples:\n"
      "  atoll features data/graph degree\n"
      "  atoll features data/graph positional:16 --replace");
  const auto arguments = std::make_shared<FeaturesArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  command->add_option("source", arguments->source, "What the features are")
      ->required()
      ->type_name("{degree,constant,edges,random:D,positional:D}");
  command->add_option("--seed", arguments->seed, "Seed of random and positional")
      ->check(seed_number());
  command->add_flag("--replace", arguments->replace, "Replace the features that the dataset has");
  command->callback([arguments] { run_features(*arguments); });
}

}  // namespace atl
