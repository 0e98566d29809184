// `atoll program`: what a model runs in a pass, operation by operation, and what that takes.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/text.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/placement/memory_model.hpp"
#include "launch/command.hpp"
#include "launch/planned_graph.hpp"
#include "launch/program_listing.hpp"
#include "launch/train_flags.hpp"
#include "partition/quality.hpp"

namespace atl {
namespace {

struct ProgramArguments {
  TrainFlags flags;
  std::string pass = "training";
  std::optional<int> parts;
  std::optional<int> part;
  bool json = false;
};

// Part `part` of a cut that is there: this command makes none.
RankShape shape_of_part(const Dataset& dataset, const ProgramArguments& arguments,
                        const Recomputation& recomputation) {
  const int parts = *arguments.parts;
  const int part = *arguments.part;
  if (part >= parts) {
    fail_option("--part {}: there are {} parts; allowed are 0 to {}", part, parts, parts - 1);
  }
  const PartitionOptions options = arguments.flags.resolve_partition();
  if (!has_partition(dataset, parts, options)) {
    fail_option(
        "--parts {}: no cut into {} parts with these options in {}; atoll partition {} --parts {} "
        "makes one, --list says which there are",
        parts, parts, parts_folder(dataset, options).string(), dataset.folder().string(), parts);
  }
  const Partition found = ensure_partition(dataset, parts, options);
  const PartitionQuality quality = parse_quality(found.quality, found.folder / "quality.json");
  const PartQuality& own = quality.parts[static_cast<std::size_t>(part)];
  return {.rows = row_counts(quality, part, &recomputation).held,
          .marginal = own.nodes - own.central,
          .edges = own.edges,
          .marginal_edges = own.marginal_edges,
          .weighted = dataset.info().weighted};
}

RankShape shape_of_graph(const DatasetInfo& info) {
  return {.rows = {.inner = info.nodes}, .edges = info.edges, .weighted = info.weighted};
}

void run_program_command(const ProgramArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const TrainOptions options = arguments.flags.resolve();
  if (arguments.parts.has_value() != arguments.part.has_value()) {
    fail_option("--parts and --part belong together: the number of parts, and which of them");
  }
  const Dataset dataset = Dataset::open(arguments.flags.dataset);
  const DatasetInfo& info = dataset.info();
  if (info.features == 0 || outputs_of(info) == 0) {
    fail_input("dataset {} has {} features and {} classes; a model needs both", info.name,
               info.features, outputs_of(info));
  }
  const ModelConfig model =
      options.model.sized(info.features, outputs_of(info), arguments.parts.value_or(1));
  const RankShape shape = arguments.parts ? shape_of_part(dataset, arguments, model.recomputation)
                                          : shape_of_graph(info);
  const Pass pass = arguments.pass == "training" ? Pass::kTraining : Pass::kEvaluation;
  const ProgramListing listing(model, pass, shape);
  if (arguments.json) {
    Json document = {{"dataset", info.name},
                     {"model", model.kind},
                     {"pass", arguments.pass},
                     {"dtype", to_string(model.dtype)},
                     {"parts", arguments.parts.value_or(1)},
                     {"part", arguments.part.value_or(0)}};
    document.update(listing.to_json());
    fmt::print("{}", json_text(document));
    return;
  }
  print("{} on {}, {} in {}: {} nodes and {} edges", model.kind, info.name, arguments.pass,
        to_string(model.dtype), shape.rows.inner, shape.edges);
  if (arguments.parts) {
    fmt::print(" of part {} of {}, {} halo rows forward and {} backward", *arguments.part,
               *arguments.parts, shape.rows.forward_halo, shape.rows.backward_halo);
    if (shape.rows.computed > 0) fmt::print(", {} computed here", shape.rows.computed);
  }
  fmt::print("\n\n");
  print_lines(listing.to_text());
}

}  // namespace

void add_program_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "program", "List what a model runs, operation by operation, and what each takes");
  command->footer(
      "Rows, columns, work, messages and memory are counted, not measured: nothing is trained.\n"
      "Examples:\n"
      "  atoll program data/arxiv --model gcn --layers 3\n"
      "  atoll program data/arxiv --model sage --norm batch --pass evaluation\n"
      "  atoll program data/arxiv --order aggregate-first --parts 4 --part 0\n"
      "  atoll program data/arxiv --dtype bf16 --json");
  const auto arguments = std::make_shared<ProgramArguments>();
  add_model_flags(*command, arguments->flags);
  add_cut_flags(*command, arguments->flags);
  command->add_option("--pass", arguments->pass, "training or evaluation")
      ->check(CLI::IsMember({"training", "evaluation"}))
      ->group("Program");
  command
      ->add_option("--parts", arguments->parts,
                   "Number of parts of a cut that exists; without it the whole graph on one rank")
      ->check(CLI::Range(1, kMaxParts))
      ->group("Program");
  command->add_option("--part", arguments->part, "Which of them, from 0")
      ->check(CLI::Range(0, kMaxParts - 1))
      ->group("Program");
  command->add_flag("--json", arguments->json, "Print one JSON object")->group("Program");
  command->callback([arguments] { run_program_command(*arguments); });
}

}  // namespace atl
