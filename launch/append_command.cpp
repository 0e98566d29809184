// `atoll append`: what is new, gone or changed of a dataset becomes a delta beside it.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/text.hpp"
#include "datasets/append.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

void run_append(const AppendOptions& options) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const AppendReport report = append_dataset(options);
  const DatasetInfo& info = report.info;
  print("{}: {} nodes, {} edges\n", info.name, info.nodes, info.edges);
  fmt::print("nodes: {} added, {} removed, features of {} changed\n", report.nodes_added,
             report.nodes_removed, report.features_changed);
  const std::string replaced =
      report.entries_replaced > 0
          ? fmt::format(", {} removed and added again", report.entries_replaced)
          : "";
  fmt::print(
      "edges: {} added, {} removed{}{}, {} known already ({}); {} self-loops {}, {} duplicates "
      "merged\n",
      report.entries_added, report.entries_removed, replaced,
      info.directed ? "" : " (an edge counts in each direction)", report.entries_known,
      info.weighted ? "their weights were added" : "left as they were", report.self_loops,
      report.self_loops_kept ? "kept" : "dropped", report.duplicates);
  fmt::print("written to {}\n", options.out.string());
}

}  // namespace

void add_append_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("append", "Let a dataset grow: new nodes and edges in a folder beside it");
  command->footer(
      "The new folder holds what changed and where its base lies; all commands read it as a "
      "dataset.\n"
      "Ids stay: new nodes get the next ones, and removed nodes keep theirs, without edges, label\n"
      "and split. Files are .npy or text, as of an import (docs/growing.md).\n"
      "Examples:\n"
      "  atoll append data/mine --nodes x.npy --edges edges.npy --labels y.npy --out data/mine@2\n"
      "  atoll append data/mine --edges edges.csv.gz --out data/mine@2\n"
      "  atoll append data/mine@2 --remove-nodes gone.txt --change-features ids.npy,rows.npy "
      "--out data/mine@3");
  const auto options = std::make_shared<AppendOptions>();
  command->add_option("dataset", options->data, "Dataset folder that grows; it is not changed")
      ->required();
  command->add_option("--out", options->out, "Dataset folder to make; must not exist")->required();
  command->add_option("--name", options->name, "Name of the set; default: that of the folder");
  command
      ->add_option("--nodes", options->nodes,
                   "New nodes: a file with a row of features for each, or, where nodes have no "
                   "features, how many")
      ->type_name("FILE|NUMBER");
  const auto file = [&](const char* name, std::filesystem::path& value, const char* text) {
    command->add_option(name, value, text)->type_name("FILE");
  };
  file("--labels", options->labels, "Their labels, in the form of the dataset's; default: none");
  file("--node-types", options->node_types, "Their types, if nodes have some");
  file("--node-ids", options->node_ids,
       "Their ids, one per line, if the dataset has a node_ids.txt");
  command
      ->add_option(
          "--split", options->split,
          "Their roles: a file (0 train, 1 valid, 2 test, 255 none), or what is drawn from "
          "those with labels, as 0.6,0.2,0.2 or per-class:20,500,1000; default: none")
      ->type_name("FILE|TEXT");
  command->add_option("--seed", options->seed, "Seed of --split")->check(seed_number());
  file("--edges", options->edges,
       "New edges: an array [2, E] of sources and targets, or text with an edge per line");
  file("--edge-weights", options->edge_weights, "Their weights, if edges are an array");
  file("--edge-types", options->edge_types, "Their relations, if edges are an array");
  file("--edge-features", options->edge_features, "Their features, if edges have some");
  command->add_flag("--keep-self-loops", options->keep_self_loops,
                    "Keep edges u -> u; default: as the dataset was imported");
  command
      ->add_option("--remove-nodes", options->remove_nodes,
                   "Nodes that lose their edges, label and split: a file of ids, or numbers and "
                   "ranges such as 0,5,10-19")
      ->type_name("FILE|TEXT");
  file("--remove-edges", options->remove_edges,
       "Edges that go, as --edges; of all relations, unless it is text that names them");
  command
      ->add_option("--change-features", options->change_features,
                   "Nodes, as --remove-nodes, and a file with the rows of features that they get")
      ->type_name("IDS,ROWS");
  command->callback([options] { run_append(*options); });
}

}  // namespace atl
