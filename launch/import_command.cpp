// atoll import: graph files of the usual formats become a dataset folder.
#include <chrono>
#include <memory>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/import.hpp"
#include "datasets/made_features.hpp"
#include "datasets/snapshots.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/validators.hpp"

namespace atl {

namespace {

struct ImportArguments {
  std::string format;
  ImportOptions options;
  std::string split;
  std::string task;
  std::string features;
  std::int64_t nodes = -1;
  std::int64_t classes = -1;
  SnapshotOptions snapshots;
  std::string snapshots_from;
};

void run_snapshots(const ImportArguments& arguments) {
  SnapshotOptions snapshots = arguments.snapshots;
  if (!arguments.snapshots_from.empty()) snapshots.from = std::stoll(arguments.snapshots_from);
  const auto made = import_snapshots(arguments.format, arguments.options, snapshots);
  for (const Snapshot& snapshot : made) {
    print("{}: {} nodes, {} edges{}\n", snapshot.folder.string(), snapshot.info.nodes,
          snapshot.info.edges, snapshot.was_there ? " (was there already)" : "");
  }
  print("ids: line i of {}, counted from 0, is the id of node i in the source\n", kNodeIdsFile);
}

void run_import(ImportArguments arguments) {
  ImportOptions& options = arguments.options;
  if (!arguments.split.empty()) options.split = parse_split(arguments.split);
  if (!arguments.task.empty()) {
    try {
      options.task = parse_task(arguments.task, "--task");
    } catch (const Error& error) {
      throw Error(ErrorKind::kOption, error.what());
    }
  }
  if (!arguments.features.empty()) {
    options.features = parse_feature_source(arguments.features);
    require_made(options.features);
  }
  if (arguments.nodes >= 0) options.nodes = arguments.nodes;
  if (arguments.classes >= 0) options.classes = arguments.classes;
  if (!arguments.snapshots.years.empty()) return run_snapshots(arguments);
  const auto start = std::chrono::steady_clock::now();
  const ImportReport report = import_dataset(arguments.format, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const DatasetInfo& info = report.info;
  print(
      "{}: {} nodes, {} edges ({} in the source; {} self-loops {}, {} duplicates merged), {} "
      "features, {} {}, {} split{}\n",
      info.name, info.nodes, info.edges, info.edges_source, report.self_loops,
      options.keep_self_loops ? "kept" : "dropped", report.duplicates, info.features, info.classes,
      info.task != Task::kRegression ? "classes"
      : info.classes == 1            ? "number to predict"
                                     : "numbers to predict",
      info.splits, info.splits == 1 ? "" : "s");
  if (info.relations > 0 || info.edge_features > 0 || info.node_types > 0) {
    fmt::print("{} relations, {} features of edges, {} node types\n", info.relations,
               info.edge_features, info.node_types);
  }
  fmt::print("edges: {}\n",
             info.directed ? "source -> target, as they are: a node reads the rows of its sources"
                           : "in both directions: a node reads the rows of all its neighbours");
  if (options.renumber) {
    print("ids: line i of {}, counted from 0, is the id of node i in the source\n", kNodeIdsFile);
  }
  if (info.task == Task::kLinkPrediction) {
    fmt::print("links: {} train, {} valid, {} test\n", info.links[0], info.links[1], info.links[2]);
  }
  fmt::print("written to {} in {:.1f} s, peak memory {}\n", options.out.string(), seconds.count(),
             format_bytes(peak_resident_bytes()));
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Make a dataset folder from graph files");
  ImportOptions& options = arguments->options;
  command->add_option("format", arguments->format, "What the files are")
      ->required()
      ->type_name(fmt::format("{{{}}}", fmt::join(import_formats(), ",")));
  command->add_option("source", options.source, "Folder, file, or folder/prefix")->required();
  command->add_option("--out", options.out, "Dataset folder to make; must not exist")->required();
  command->add_option("--name", options.name, "Name of the set; default: from the source");
  command->add_flag("--directed", options.directed,
                    "Keep edges as they are, source -> target; else both directions are stored");
  command->add_flag("--keep-self-loops", options.keep_self_loops, "Keep edges u -> u");
  command->add_flag("--reverse-relations", options.reverse_relations,
                    "Add every edge's reverse as a relation of its own; the graph is directed");
  const auto column = [&](const char* name, std::string& value, const std::string& what) {
    command->add_option(name, value, what)->type_name("NAME|NUMBER");
  };
  column("--source-column", options.source_column,
         "edges: the column of the source, by its name in the first line or its number from 1");
  column("--target-column", options.target_column, "edges: the column of the target");
  column("--weight-column", options.weight_column,
         "edges: the column of the weight; none: none is");
  column("--relation-column", options.relation_column, "edges: the column of the relation");
  column("--id-column", options.id_column,
         "Text of nodes: the column of their ids; none: rows are in the order of the nodes");
  column("--label-column", options.label_column, "labels.csv: the column of the label");
  command->add_flag("--renumber", options.renumber,
                    "edges, npy: ids may be any numbers or words; writes them to node_ids.txt");
  command->add_flag("--row-normalize", options.row_normalize, "Scale feature rows to sum 1");
  command
      ->add_option("--features", arguments->features,
                   "Features where the files have none: degree (its logarithm), constant (1), "
                   "random:D, positional:D (D columns; docs/formats.md), or edges: the mean of "
                   "the features of a node's edges")
      ->type_name("{degree,constant,random:D,positional:D,edges}");
  command->add_option("--split", arguments->split,
                      "Make a split: 0.6,0.2,0.2 or per-class:20,500,1000");
  command->add_option(
      "--split-name", options.split_name,
      "ogb: which of the set's own splits, a folder of split/; default: the only one");
  command->add_option("--seed", options.seed, "Seed of --split and --features")
      ->check(seed_number());
  command->add_option("--task", arguments->task, "What labels are, where the files don't tell")
      ->type_name("{single-label,multi-label,binary,regression}");
  CLI::Option* snapshots =
      command
          ->add_option("--snapshots", arguments->snapshots.years,
                       "Make OUT@YEAR for each number in this file, which has one per node: the "
                       "first one whole, the others as what they add (docs/growing.md); "
                       "node_year: that of an OGB set")
          ->type_name("FILE");
  command
      ->add_option("--snapshots-from", arguments->snapshots_from,
                   "The first snapshot: with all nodes up to this year; default: the smallest")
      ->check(number_within(Limits<std::int64_t>{}))
      ->type_name("INT")
      ->needs(snapshots);
  command
      ->add_option("--nodes", arguments->nodes, "Number of nodes, for formats that don't state it")
      ->check(number_within(Limits<std::int64_t>{1, kMaxNodes}));
  command
      ->add_option("--classes", arguments->classes,
                   "Number of classes; default: the largest label + 1, where that is plausible")
      ->check(CLI::Range(std::int64_t{1}, kMaxClasses));
  command->footer(
      "Examples:\n"
      "  atoll import ogb downloads/ogbn_arxiv --out data/arxiv\n"
      "  atoll import planetoid planetoid/ind.cora --row-normalize --out data/cora\n"
      "  atoll import npy arrays.npz --directed --out data/mine        (x, edge_index, y, "
      "masks)\n"
      "  atoll import edges graph.csv.gz --directed --out data/graph\n"
      "  atoll import edges triples.txt --relation-column 2 --reverse-relations --out data/kg\n"
      "  atoll import edges citations.csv --source-column citing --target-column cited "
      "--renumber "
      "--out data/papers\n"
      "  atoll import gnn-benchmark amazon_photo.npz --split per-class:20,500,1000 --out "
      "data/photo\n"
      "  atoll import ogb downloads/ogbn_arxiv --snapshots node_year --snapshots-from 2014 "
      "--out data/arxiv");
  command->callback([arguments] {
    if (launcher_info().rank == 0) run_import(*arguments);  // under mpirun one process is enough
  });
}

}  // namespace atl
