// `atoll program`: what a model runs in a pass, operation by operation, and what that takes.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/text.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/placement/memory_model.hpp"
#include "engine/training/option_table.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/planned_graph.hpp"
#include "launch/program_listing.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"
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
                        const TrainJob& job, const ModelConfig& model) {
  const int parts = *arguments.parts;
  const int part = *arguments.part;
  if (part >= parts) {
    fail_option("--part {}: there are {} parts; allowed are 0 to {}", part, parts, parts - 1);
  }
  if (!has_partition(dataset, parts, job.partition)) {
    const std::string place = parts_folder(dataset, job.partition).string();
    const std::string& plan = arguments.flags.plan;
    if (!plan.empty()) {
      fail_option(
          "--plan {}: its cut into {} parts is not in {}; atoll train {} --plan {} makes it", plan,
          parts, place, dataset.folder().string(), plan);
    }
    fail_option(
        "--parts {}: no cut into {} parts with these options in {}; atoll partition {} --parts {} "
        "makes one, --list says which there are",
        parts, parts, place, dataset.folder().string(), parts);
  }
  const Partition found = ensure_partition(dataset, parts, job.partition);
  const PartitionQuality quality = parse_quality(found.quality, found.folder / "quality.json");
  const bool covers = covers_messages(model, model_program(model, Pass::kEvaluation));
  // The first of the ranks that hold it.
  const int each = model.column_share.ranks;
  RankShape shape = rank_counts(quality, part * each, covers, &model.recomputation, each).shape;
  shape.weighted = dataset.info().weighted;
  return shape;
}

// By layer, of the messages; none if they are exact.
std::vector<int> layer_bits(const TrainOptions& options) {
  return exchange_mode(options.exchange).takes_bits() ? options.message_bits.bits.widths
                                                      : std::vector<int>{};
}

RankShape shape_of_graph(const DatasetInfo& info) {
  return {.rows = {.inner = info.nodes, .edges = info.edges}, .weighted = info.weighted};
}

// The job of the options, as the plan changes it if there is one. That also says of how many parts.
TrainJob listed_job(ProgramArguments& arguments, const DatasetInfo& info) {
  TrainJob job = arguments.flags.unplanned_job();
  if (arguments.flags.plan.empty()) {
    if (arguments.parts.has_value() != arguments.part.has_value()) {
      fail_option("--parts and --part belong together: the number of parts, and which of them");
    }
    return job;
  }
  const Plan plan = read_plan(arguments.flags.plan);
  if (plan.model.contains("blocks")) {
    fail_option(
        "--plan {}: made for steps on blocks, each of other sizes; allowed are plans for "
        "the whole graph",
        arguments.flags.plan);
  }
  if (!arguments.parts) arguments.parts = plan.ranks / plan.group_ranks;
  if (!arguments.part) arguments.part = 0;
  require_plan_fits(plan, arguments.flags.plan, info.checksum, *arguments.parts * plan.group_ranks,
                    planned_options(job.options), layer_count(job.options.model));
  follow_plan(plan, arguments.flags.plan_choice(), job);
  return job;
}

void run_program_command(ProgramArguments arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const Dataset dataset = Dataset::open(arguments.flags.dataset);
  const DatasetInfo& info = dataset.info();
  const TrainJob job = listed_job(arguments, info);
  ModelConfig model = model_for(info, job.options.model, arguments.parts.value_or(1));
  model.column_share.ranks = job.options.group_ranks.number;
  const RankShape shape =
      arguments.parts ? shape_of_part(dataset, arguments, job, model) : shape_of_graph(info);
  const Pass pass = arguments.pass == "training" ? Pass::kTraining : Pass::kEvaluation;
  const ProgramListing listing(model, pass, shape, layer_bits(job.options));
  if (arguments.json) {
    Json document = {{"dataset", info.name},
                     {"model", model_name(model)},
                     {"pass", arguments.pass},
                     {"dtype", to_string(model.dtype)},
                     {"parts", arguments.parts.value_or(1)},
                     {"part", arguments.part.value_or(0)}};
    if (!arguments.flags.plan.empty()) document["plan"] = arguments.flags.plan;
    document.update(listing.to_json());
    fmt::print("{}", json_text(document));
    return;
  }
  const std::string& plan = arguments.flags.plan;
  print("{} on {}, {} in {}{}: {} nodes and {} edges", model_name(model), info.name, arguments.pass,
        to_string(model.dtype), plan.empty() ? "" : " by " + plan, shape.rows.inner,
        shape.rows.edges);
  if (shape.rows.part > 0) {
    fmt::print(", the share of one of {} ranks that hold {} nodes", model.column_share.ranks,
               shape.rows.part);
  }
  if (arguments.parts) {
    fmt::print(" of part {} of {}, {} halo rows forward and {} backward", *arguments.part,
               *arguments.parts, shape.rows.arriving(Direction::kForward),
               shape.rows.arriving(Direction::kBackward));
    if (shape.rows.forward_sums > 0) fmt::print(", {} sums to send", shape.rows.forward_sums);
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
      "  atoll program data/arxiv --plan plan.json --part 2\n"
      "  atoll program data/arxiv --dtype bf16 --json");
  const auto arguments = std::make_shared<ProgramArguments>();
  add_model_flags(*command, arguments->flags);
  add_cut_flags(*command, arguments->flags);
  add_plan_flag(*command, arguments->flags);
  const HelpGroup program(*command, "Program");
  program.add_option("--pass", arguments->pass, "training or evaluation")
      ->check(one_of({"training", "evaluation"}));
  program
      .add_option(
          "--parts", arguments->parts,
          "Number of parts of a cut that exists; without it the whole graph on one rank, or "
          "the parts of --plan")
      ->check(CLI::Range(1, kMaxParts));
  program.add_option("--part", arguments->part, "Which of them, from 0, the default with --plan")
      ->check(CLI::Range(0, kMaxParts - 1));
  program.add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments] { run_program_command(*arguments); });
}

}  // namespace atl
