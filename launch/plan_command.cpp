// `atoll plan`: searches for the fastest way to train a model on a graph on a machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <ranges>

#include "base/log.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/placement/critical_path.hpp"
#include "engine/placement/group_plans.hpp"
#include "engine/placement/policy/policy_prior.hpp"
#include "engine/training/option_table.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/planned_graph.hpp"
#include "launch/planned_training.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct PlanArguments {
  TrainFlags flags;
  std::vector<std::string> shapes;
  std::string topology;
  std::string search = "auto";
  int evaluations = 2000;
  double budget_s = 0;
  std::uint64_t search_seed = 1;
  std::string prior;  // "": what serves best
  std::string bits = "32";
  std::string out = "plan.json";
  std::string trace;
  std::vector<std::string> measured;
};

// The figures of --measured by how many ranks held a part in the run: slices of columns take other
// times than whole rows.
class MeasuredRuns {
 public:
  MeasuredRuns() = default;
  MeasuredRuns(const std::vector<std::string>& folders, const ModelConfig& model,
               const Topology& topology) {
    std::map<int, std::string> folder_of;
    for (const std::string& folder : folders) {
      const TracedRun run = read_traced_run(folder);
      if (!is_run_of(run, model)) {
        fail_input("{}: a run of {} with {} layers, but the plan is for {} with {}{}", folder,
                   model_name(run.model), layer_count(run.model), model_name(model),
                   layer_count(model),
                   model_name(run.model) == model_name(model) ? ", other ones" : "");
      }
      const int ranks = run.model.column_share.ranks;
      const auto [place, is_new] = folder_of.emplace(ranks, folder);
      if (!is_new) {
        fail_option(
            "--measured {}: the ranks of a part are {}, as in {}; allowed is one run for each "
            "number",
            folder, ranks, place->second);
      }
      runs_.emplace(ranks, measured_by(run, topology));
    }
  }

  // That of groups of this size; where there was no such run, of the smallest.
  const Measured& of_groups(int size) const {
    static const Measured kNothing;
    if (runs_.empty()) return kNothing;
    const auto found = runs_.find(size);
    return found != runs_.end() ? found->second : runs_.begin()->second;
  }

 private:
  std::map<int, Measured> runs_;
};

// The input of planning: model, cuts, and what the plan says of the graph.
struct PlanInput {
  ModelConfig model;
  MeasuredRuns measured;
  std::map<int, std::vector<CutCandidate>> cuts;  // by how many ranks hold a part
  std::map<int, std::string> refused;             // why others are not among them
  std::optional<CutCandidate> uncut;              // where layers may be in stages
  std::string refused_stages;                     // why they may not; empty: nobody asked
  int steps = 1;                                  // of an epoch
  bool on_blocks = false;                         // rather than on the whole graph
  Plan plan;
};

// The numbers of ranks that may hold a part together. What was asked for fails where it can't be;
// where a plan decides, what can't be is left out, and said.
class AllowedGroups {
 public:
  // usual: without a plan, so what `search` "none" looks at where nothing was asked for.
  AllowedGroups(const GroupRanks& asked, int usual, const std::string& search,
                const TrainOptions& options, const Topology& topology)
      : asked_(asked), options_(options), topology_(topology) {
    if (decides() && search == "none") asked_ = {.number = usual};
  }

  bool decides() const { return asked_.by == GroupRanks::By::kAuto; }
  std::vector<int> sizes() const {
    if (decides()) return group_sizes(topology_);
    return {rank_map(asked_, places_of(topology_, &Device::host)).ranks_per_part()};
  }
  // Calls use(size), unless the options or the model rule it out, or use() refuses an option or a
  // file.
  template <typename Use>
  void try_size(int size, const ModelConfig& model, PlanInput& input, const Use& use) const {
    try {
      TrainOptions with = options_;
      with.group_ranks = {.number = size};
      with.stages.count = {};
      check_options(with);
      ModelConfig shared = model;
      shared.column_share.ranks = size;
      model_program(shared, Pass::kTraining);
      use(size);
    } catch (const Error& error) {
      const bool refuses = error.kind() == ErrorKind::kOption || error.kind() == ErrorKind::kInput;
      if (!decides() || size == 1 || !refuses) throw;
      input.refused[size] = error.what();
    }
  }

 private:
  GroupRanks asked_;
  const TrainOptions& options_;
  const Topology& topology_;
};

// Calls use(), if anybody asks for layers in stages and the options allow them. What was asked for
// alone fails where it can't be.
template <typename Use>
void try_stages(const TrainOptions& options, const std::string& search, std::string& refused,
                const Use& use) {
  const bool is_asked = options.stages.any();
  if (!options.stages.stale || (search == "none" && !is_asked)) return;
  try {
    TrainOptions with = options;
    with.stages.count = {.all = true};
    check_options(with);
    use();
  } catch (const Error& error) {
    const bool refuses = error.kind() == ErrorKind::kOption || error.kind() == ErrorKind::kInput;
    if (is_asked || !refuses) throw;
    refused = error.what();
  }
}

PlanInput dataset_input(const PlanArguments& arguments, const TrainOptions& options,
                        const GroupRanks& asked_groups, const Topology& topology) {
  const PartitionOptions partition = arguments.flags.resolve_partition();
  const Dataset dataset = Dataset::open(arguments.flags.dataset);
  dataset.validate();  // partitioners trust every id and value
  const DatasetInfo& info = dataset.info();
  PlanInput input;
  input.model = model_for(info, options.model, topology.ranks());
  require_offload(input.model, topology);
  input.measured = MeasuredRuns(arguments.measured, input.model, topology);
  const std::span<const std::uint8_t> split =
      info.splits == 0 ? std::span<const std::uint8_t>() : dataset.split(options.split_index);
  const GraphBlocks blocks =
      first_blocks(dataset, arguments.flags.dataset, options, partition.parts_dir);
  input.on_blocks = blocks.count > 0;
  if (input.on_blocks) input.steps = trained_blocks(blocks, split);
  const AllowedGroups groups(asked_groups, 1, arguments.search, options, topology);
  for (const int each : groups.sizes()) {
    groups.try_size(each, input.model, input, [&](int size) {
      const Topology as_cut = group_topology(topology, size);
      input.cuts[size] =
          arguments.search == "none"
              ? std::vector{default_cut(dataset.graph(), split, partition, as_cut, input.model,
                                        blocks)}
              : cut_candidates(dataset.graph(), split, partition, as_cut, input.model,
                               input.measured.of_groups(size).corrections, blocks);
    });
  }
  try_stages(options, arguments.search, input.refused_stages, [&] {
    const auto known = input.cuts.find(topology.ranks());
    input.uncut =
        known != input.cuts.end()
            ? known->second.front()
            : default_cut(dataset.graph(), split, partition,
                          group_topology(topology, topology.ranks()), input.model, blocks);
  });
  input.plan.dataset = info.name;
  input.plan.dataset_checksum = info.checksum;
  return input;
}

PlanInput shape_input(const PlanArguments& arguments, const TrainOptions& options,
                      const GroupRanks& asked_groups, const Topology& topology) {
  if (options.blocks.deals()) {
    fail_option(
        "{}: found with --shape, which says nothing of edges inside of blocks; allowed "
        "with a dataset",
        options.blocks.option());
  }
  const std::vector<NamedShape> shapes = read_shapes(arguments.shapes, topology.ranks());
  const GraphShape& first = shapes.front().shape;
  PlanInput input;
  input.model = options.model.sized({.features = first.features,
                                     .outputs = first.classes,
                                     .relations = first.relations,
                                     .edge_features = first.edge_features,
                                     .node_types = first.node_types,
                                     .nodes = first.nodes},
                                    topology.ranks());
  require_offload(input.model, topology);
  input.measured = MeasuredRuns(arguments.measured, input.model, topology);
  input.plan.dataset = first.name;
  std::map<int, std::vector<CutCandidate>> cuts;
  for (const NamedShape& shape : shapes) {
    const int parts = static_cast<int>(shape.shape.quality.parts.size());
    cuts[topology.ranks() / parts].push_back(
        {shape.name, shape.shape.partition, shape.shape.quality});
    input.plan.shape += (input.plan.shape.empty() ? "" : ", ") + shape.file;
  }
  // Without a cut there is nothing that a shape doesn't say.
  const CutCandidate uncut{"no cut", {}, first.uncut()};
  cuts.try_emplace(topology.ranks(), std::vector{uncut});
  try_stages(options, arguments.search, input.refused_stages, [&] { input.uncut = uncut; });
  const int usual = topology.ranks() / static_cast<int>(first.quality.parts.size());
  const AllowedGroups groups(asked_groups, usual, arguments.search, options, topology);
  for (auto& [each, of_shapes] : cuts) {
    if (!groups.decides() && each != groups.sizes().front()) continue;
    groups.try_size(each, input.model, input,
                    [&](int size) { input.cuts[size] = std::move(of_shapes); });
  }
  if (input.cuts.empty()) {
    fail_option(
        "--group-ranks {}: found shapes for {}; allowed are these, or --shape with {} parts",
        to_string(asked_groups), fmt::join(cuts | std::views::keys, ", "),
        topology.ranks() / groups.sizes().front());
  }
  return input;
}

// Layers in stages, if somebody asks for them and the model allows them.
StageChoice stages_of(const PlanInput& input, const TrainOptions& options, const Topology& topology,
                      const std::string& search, const std::vector<int>& bits) {
  StageChoice choice{.found = {},
                     .refused = input.refused_stages,
                     .partition = {},
                     .chunks = options.stages.chunks,
                     .stale_from = options.stages.stale_from,
                     .widths = static_cast<int>(bits.size()),
                     .is_fixed = options.stages.any()};
  if (!input.uncut) return choice;
  choice.partition = input.uncut->options;
  try_stages(options, search, choice.refused, [&] {
    const auto start = std::chrono::steady_clock::now();
    choice.found = find_stage_plan({.topology = topology,
                                    .model = input.model,
                                    .uncut = input.uncut->quality,
                                    .corrections = input.measured.of_groups(1).corrections,
                                    .chunks = choice.chunks},
                                   bits);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    log::info("layers divided among stages in {:.1f} ms", 1000 * took.count());
  });
  return choice;
}

// The network that --prior names; none: all options are alike.
std::optional<PolicyNetwork> policy_of(const PlanArguments& arguments, int ranks) {
  const std::string& name = arguments.prior;
  if (arguments.search != "mcts") {
    if (name.empty()) return std::nullopt;
    fail_option("--prior {}: is of --search mcts, not of {}", name, arguments.search);
  }
  // Its graph grows with the square of the ranks: from there on a question to it takes longer than
  // many simulated epochs.
  constexpr int kMostRanks = 64;
  if (name == "uniform" || (name.empty() && ranks > kMostRanks)) return std::nullopt;
  return name.empty() || name == "policy" ? shipped_policy() : read_policy(name);
}

// The options that were given here and that training with the plan needs, too.
std::string options_for_training(const CLI::App& command) {
  std::string text;
  const auto add = [&](const std::string& name) {
    const CLI::Option* flag = command.get_option_no_throw("--" + name);
    if (flag == nullptr || flag->empty()) return;
    text += fmt::format(" --{} {}", name, fmt::join(flag->results(), ","));
  };
  add("parts-file");
  for (const auto& row : train_options()) {
    if (row.plan != PlanRole::kFixes && row.plan != PlanRole::kExcludes) add(row.name);
  }
  return text;
}

// Refuses options with which an epoch is another one than the simulated one. Training refuses
// them beside a plan, too.
void require_plannable(const TrainOptions& options) {
  const std::vector<std::string> found = options_beside_plans(options);
  if (found.empty()) return;
  fail_option(
      "{}: found in plan, which simulates epochs on the whole graph or on --blocks, with the "
      "messages of --exchange, and train takes no --plan beside this option; leave it out{}",
      found.front(),
      options.first_phase_end().any() ? "" : ", or measure such epochs with atoll bench");
}

void run_plan(const PlanArguments& arguments, const CLI::App& command) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  const TrainOptions options = arguments.flags.resolve();
  require_plannable(options);
  const Topology topology = read_topology(arguments.topology);
  if (arguments.flags.transport.ranks != 0 && arguments.flags.transport.ranks != topology.ranks()) {
    fail_option("--ranks {}: {} describes {} ranks", arguments.flags.transport.ranks,
                arguments.topology, topology.ranks());
  }
  if (options.stages.count.number > 0 && options.stages.count.number != topology.ranks()) {
    fail_option("{}: {} describes {} ranks, each of which is a stage; allowed are {}, all, and 0",
                options.stages.option(), arguments.topology, topology.ranks(), topology.ranks());
  }
  check_result_file(arguments.out, "--out");
  if (!arguments.trace.empty()) check_result_file(arguments.trace, "--predicted-trace");
  std::optional<PolicyNetwork> policy = policy_of(arguments, topology.ranks());
  PlanRequest request;
  const CLI::Option& allowed = *command.get_option("--allow-bits");
  const AskedMessages asked = asked_messages(
      options, allowed.empty() ? std::nullopt : std::optional(allowed.as<std::string>()));
  request.search = arguments.search;
  request.options = {.evaluations = arguments.evaluations,
                     .seconds = arguments.budget_s,
                     .seed = arguments.search_seed};
  const GroupRanks groups = command.get_option("--group-ranks")->empty()
                                ? GroupRanks{.by = GroupRanks::By::kAuto}
                                : options.group_ranks;
  PlanInput input = arguments.shapes.empty() ? dataset_input(arguments, options, groups, topology)
                                             : shape_input(arguments, options, groups, topology);
  Activity activity("searching for a plan");
  std::vector<GroupPlans> plans;
  // One search after another, in the time that all of them may take.
  request.options.seconds /= static_cast<double>(input.cuts.size());
  const auto messages_with = [&](const Measured& measured) {
    PlannedMessages messages = planned_messages(asked, measured);
    messages.steps = input.steps;
    if (input.on_blocks) messages.arrival = Arrival::kOff;
    return messages;
  };
  for (auto& [size, cuts] : input.cuts) {
    const Measured& measured = input.measured.of_groups(size);
    GroupPlans& of_size =
        plans.emplace_back(topology, input.model, size,
                           GroupPlans::Setting{std::move(cuts), asked.bits, measured.corrections,
                                               asked.start_bits, messages_with(measured)});
    // The network was trained on parts of one rank each.
    request.options.prior = {};
    if (policy && size == 1) request.options.prior = policy_prior(of_size.space(), *policy);
    of_size.search(request);
  }
  const StageChoice stages = stages_of(input, options, topology, request.search, asked.bits);
  BestPlan best = best_plan(plans, topology, request, input.refused, stages);
  Plan& plan = best.plan;
  plan.dataset = input.plan.dataset;
  plan.dataset_checksum = input.plan.dataset_checksum;
  plan.shape = input.plan.shape;
  plan.model = planned_options(options);
  if (asked.exchange) plan.exchange = exchange_json(options);
  write_plan(plan, arguments.out);
  if (!arguments.trace.empty()) {
    GroupPlans& chosen = plans[best.place];
    const SimulatedEpoch epoch = best.plan.stages
                                     ? stages.found->epoch
                                     : chosen.space().simulated(chosen.found().choice).front();
    write_atomically(arguments.trace, chrome_trace(epoch.tasks, epoch.times));
  }
  activity.end();
  print_lines(to_text(plan));
  print("\nwritten to {}; ", arguments.out);
  if (plan.shape.empty()) {
    fmt::print("train with: mpirun -n {} atoll train {} --plan {}{}\n", plan.ranks,
               arguments.flags.dataset, arguments.out, options_for_training(command));
  } else {
    fmt::print("training needs a plan of the dataset itself\n");
  }
}

void add_explain_command(CLI::App& parent) {
  CLI::App* command =
      parent.add_subcommand("explain", "Say what a plan decides, why, and how good it is");
  command->footer("Example:\n  atoll plan explain plan.json");
  const auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "plan.json of atoll plan")->required();
  command->callback([file] {
    const Plan plan = read_plan(*file);
    try {
      print_lines(to_text(plan));
    } catch (const Error& error) {
      fail_input("{}: {}", *file, error.what());
    }
  });
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Search for the fastest way to train a model on a graph on a machine");
  command->footer(
      "The machine is described by a file of `atoll topology probe`, or by hand.\n"
      "Examples:\n"
      "  mpirun -n 4 atoll topology probe --out topology.json\n"
      "  atoll plan data/arxiv --topology topology.json --norm batch --out plan.json\n"
      "  atoll plan explain plan.json\n"
      "  atoll plan --shape papers.json --topology cluster.json   (without the dataset)\n"
      "  mpirun -n 4 atoll train data/arxiv --norm batch --plan plan.json");
  const auto arguments = std::make_shared<PlanArguments>();
  arguments->flags.train.stages.by_plan = true;
  add_train_flags(*command, arguments->flags);
  CLI::Option* dataset = command->get_option("dataset")->required(false);
  const HelpGroup plan(*command, "Plan");
  CLI::Option* shape =
      plan.add_option("--shape", arguments->shapes,
                      "Instead of a dataset, a file of its shape: FILE or NAME=FILE; several for "
                      "several cuts, the one that training would take first");
  // The shape is of a graph that is cut.
  for (const char* name : kCutFlags) shape->excludes(command->get_option(name));
  for (const char* name : {"--parts-file", "--split-index"}) {
    shape->excludes(command->get_option(name));
  }
  // One file each, so that a word after it is no second one.
  shape->excludes(dataset)->allow_extra_args(false);
  plan.add_option("--topology", arguments->topology, "File that describes the machine")
      ->check(CLI::ExistingFile);
  plan.add_option(
          "--search", arguments->search,
          "How to search; auto: by the number of choices; none: only say what training without "
          "a plan takes")
      ->check(one_of(plan_searches()));
  plan.add_option("--evaluations", arguments->evaluations,
                  "Simulated epochs that may be spent for each number of ranks that hold a part "
                  "together")
      ->check(CLI::Range(1, 100000000));
  plan.add_option("--budget", arguments->budget_s, "Time that the search may take; 0: any")
      ->transform(seconds({.least = 0}));
  plan.add_option("--search-seed", arguments->search_seed, "Seed of random, mcmc and mcts")
      ->check(seed_number());
  plan.add_option("--prior", arguments->prior,
                  "Which options mcts tries first: uniform; policy (trained; the program has its "
                  "weights; the default up to 64 ranks); or a file of atoll plan train-policy");
  plan.add_option("--allow-bits", arguments->bits,
                  "Bits per value that messages may have, as 32,8,4; without it all are exact");
  plan.add_option("--out", arguments->out, "File to write");
  plan.add_option("--predicted-trace", arguments->trace,
                  "Also write the simulated epoch, with --blocks a step, as a Chrome trace (opens "
                  "in Perfetto)");
  plan.add_option("--measured", arguments->measured,
                  "Run folder of atoll train --trace on this machine, from which the simulator "
                  "learns how long phases really take; may be given again for runs with other "
                  "--group-ranks")
      ->check(CLI::ExistingDirectory)
      ->take_all();
  add_explain_command(*command);
  add_train_policy_command(*command);
  command->require_subcommand(0, 1);
  command->callback([command, arguments] {
    if (!command->get_subcommands().empty()) return;
    if (arguments->flags.dataset.empty() && arguments->shapes.empty()) {
      fail_option("dataset or --shape is required; see atoll plan --help");
    }
    if (arguments->topology.empty()) {
      fail_option("--topology is required; see atoll plan --help");
    }
    run_plan(*arguments, *command);
  });
}

}  // namespace atl
