#include "launch/train_flags.hpp"

#include "base/error.hpp"
#include "engine/models/model_options.hpp"
#include "engine/training/option_table.hpp"
#include "launch/config_file.hpp"
#include "launch/option_flags.hpp"
#include "launch/transport_flags.hpp"

namespace atl {

void add_model_flags(CLI::App& command, TrainFlags& flags) {
  command.add_option("dataset", flags.dataset, "Dataset folder")->required()->type_name("DIR");
  for (const auto* table : {&model_options(), &computation_options()}) {
    for (const auto& row : *table) add_option_flag(command, row, flags.train.model);
  }
}

void add_cut_flags(CLI::App& command, TrainFlags& flags) {
  add_partition_flags(command, flags.partition);
  command.add_option("--partition-seed", flags.partition_seed, "Seed of the cut")
      ->check(seed_number())
      ->group(kPartitionGroup);
  add_option_flag(command, option_named(train_options(), "split-index"), flags.train)
      ->group(kPartitionGroup);
}

void add_message_flags(CLI::App& command, TrainFlags& flags) {
  flags.command = &command;
  for (const auto& row : train_options()) {
    if (is_of_exchange(row)) add_option_flag(command, row, flags.train);
  }
}

void add_plan_flag(CLI::App& command, TrainFlags& flags) {
  CLI::Option* plan = command
                          .add_option("--plan", flags.plan,
                                      "plan.json of atoll plan: how the graph is cut, each layer's "
                                      "algebra and bits")
                          ->check(CLI::ExistingFile)
                          ->group("Machine");
  for (const auto& row : train_options()) {
    if (row.plan != PlanRole::kFixes && row.plan != PlanRole::kExcludes) continue;
    if (CLI::Option* flag = command.get_option_no_throw("--" + row.name)) plan->excludes(flag);
  }
  for (const char* name : kCutFlags) plan->excludes(command.get_option(name));
}

std::string messages_of(const std::string& transport) {
  return transport == "auto" || transport == "nccl" ? transport : "staging";
}

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  flags.command = &command;
  command.add_option("dataset", flags.dataset, "Dataset folder")->required()->type_name("DIR");
  for (const auto& row : train_options()) {
    if (row.group == "Results" || row.name == "split-index") continue;
    add_option_flag(command, row, flags.train);
  }
  add_transport_flags(command, flags.transport, "Machine");
  add_cut_flags(command, flags);
  add_plan_flag(command, flags);
}

namespace {

// The training options that somebody wants: those of the command line, and those of files that are
// not what they are by default, unless the command line names another exchange mode than the file.
std::vector<GivenOption> wanted_options(const CLI::App& command) {
  const auto is_typed = [&](const CLI::Option& option) {
    return !option.empty() && !is_said_by_file(command, option);
  };
  const bool mode_is_typed = is_typed(*command.get_option("--exchange"));
  std::vector<GivenOption> wanted;
  for (const auto& row : train_options()) {
    const CLI::Option* option = command.get_option_no_throw("--" + row.name);
    if (option == nullptr || option->empty()) continue;
    const std::string value = option->results().back();
    const bool says_something = !mode_is_typed && value != option->get_default_str();
    if (is_typed(*option) || says_something) wanted.push_back({row.name, value, is_typed(*option)});
  }
  return wanted;
}

// Refuses options that are of the run whose model a training begins with, where a command has none.
void require_no_run_before(const CLI::App& command, const TrainOptions& options) {
  if (command.get_option_no_throw("--warm-start") != nullptr || !options.replay.any()) return;
  if (options.replay.weights != ReplayOptions().weights) {
    fail_option(
        "--replay-weights {}: rows are compared as the model of another run gives them, and {} "
        "begins with none; allowed is none",
        to_string(options.replay.weights), full_name(command));
  }
  if (options.replay.from == 0) {
    fail_option(
        "--replay {}: which nodes are new is not known; give --replay-from with the id of the "
        "first new node",
        to_string(options.replay.count));
  }
}

}  // namespace

TrainOptions TrainFlags::resolve() const {
  const ExchangeOptions own = train.exchange_options();
  return resolve_with(std::span(&own, 1), "--exchange " + own.mode);
}

TrainOptions TrainFlags::resolve_with(std::span<const ExchangeOptions> modes,
                                      const std::string& choice) const {
  TrainOptions options = train;
  options.stages.by_plan |= !plan.empty();
  if (command != nullptr) require_no_run_before(*command, options);
  check_options(options);
  if (command != nullptr) {
    std::vector<TrainOptions> runs;
    for (const ExchangeOptions& mode : modes) {
      TrainOptions& run = runs.emplace_back(options);
      run.exchange = mode.mode;
      run.message_bits = mode.message_bits;
      run.sending = mode.sending;
    }
    require_effect(wanted_options(*command), runs, choice);
  }
  options.messages = messages_of(transport.name);
  return options;
}

TrainJob TrainFlags::unplanned_job() const {
  TrainJob job{resolve(), resolve_partition()};
  if (!plan.empty()) {  // --parts-file is what the plan's cut is read from
    job.partition.parts_file.clear();
    job.partition.parts_checksum.clear();
  }
  return job;
}

TrainJob job_of(const TrainFlags& flags, Transport& transport, int trial_epochs) {
  TrainJob unplanned = flags.unplanned_job();
  if (flags.plan.empty()) return unplanned;
  return planned_job(unplanned, flags.plan_choice(), trial_epochs, transport);
}

}  // namespace atl
