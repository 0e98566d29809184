// `atoll split`: gives a dataset folder a split, or another one, or holds out its edges.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "datasets/resplit.hpp"
#include "datasets/split_links.hpp"
#include "datasets/statistics.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/stale_partitions.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct SplitArguments {
  std::string dataset;
  std::string split;
  std::uint64_t seed = 1;
  bool replace = false;
  bool links = false;
  LinkSplit link_split;
  std::string out;
};

void run_link_split(const SplitArguments& arguments) {
  if (arguments.out.empty()) fail_option("--links: needs --out, the dataset folder to write");
  LinkSplit split = arguments.link_split;
  split.seed = arguments.seed;
  const Dataset dataset = split_links(arguments.dataset, split, arguments.out);
  const auto& [train, valid, test] = dataset.info().links;
  fmt::print("{}: {} edges to train on, {} valid, {} test; {} negatives of each held-out edge\n",
             arguments.out, train, valid, test, split.negatives);
}

void run_split(const SplitArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  if (arguments.links) return run_link_split(arguments);
  const Dataset dataset =
      resplit(arguments.dataset, arguments.split, arguments.seed, arguments.replace);
  const auto [train, valid, test] = count_split(dataset, 0);
  fmt::print("{}: {} train, {} valid, {} test, {} none\n", dataset.info().name, train, valid, test,
             dataset.info().nodes - train - valid - test);
  tell_stale_partitions(dataset);
}

}  // namespace

void add_split_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("split", "Give a dataset a train / valid / test split");
  command->footer(
      "The split is drawn from the labelled nodes; same seed, same split. Changing it changes the\n"
      "dataset: it is partitioned anew, and runs made before can't be resumed.\n"
      "With --links edges are held out to be predicted, and a new dataset is written.\n"
      "Examples:\n"
      "  atoll split data/mine --split .6,.2,.2\n"
      "  atoll split data/mine --split per-class:20,500,1000 --seed 2 --replace\n"
      "  atoll split data/arxiv --links --valid .05 --test .1 --out data/arxiv-links");
  const auto arguments = std::make_shared<SplitArguments>();
  command->add_option("dataset", arguments->dataset, "Dataset folder")->required();
  CLI::Option* amounts = command->add_option(
      "--split", arguments->split, "Shares as 0.6,0.2,0.2, or counts as per-class:20,500,1000");
  command->add_option("--seed", arguments->seed, "Seed of the draw")->check(seed_number());
  CLI::Option* replace =
      command->add_flag("--replace", arguments->replace, "Replace the splits that the dataset has");
  CLI::Option* links =
      command
          ->add_flag("--links", arguments->links,
                     "Hold out edges for link prediction: --out gets the graph without them")
          ->excludes(amounts)
          ->excludes(replace);
  LinkSplit& link_split = arguments->link_split;
  const auto of_links = [&](const char* name, auto& value, const char* text) {
    return command->add_option(name, value, text)->needs(links);
  };
  of_links("--valid", link_split.valid, "Share of the edges that is held out for validation")
      ->check(number_within(Limits<double>{0, 1}));
  of_links("--test", link_split.test, "Share of the edges that is held out for tests")
      ->check(number_within(Limits<double>{0, 1}));
  of_links("--negatives", link_split.negatives,
           "Pairs that are no edges, drawn for each held-out edge to be ranked against; 0: none")
      ->check(number_within(Limits<std::int64_t>{0, 100000}));
  of_links("--out", arguments->out, "Dataset folder to write");
  command->callback([arguments] {
    if (arguments->split.empty() && !arguments->links) {
      fail_option("atoll split: give --split, or --links with --out");
    }
    run_split(*arguments);
  });
}

}  // namespace atl
