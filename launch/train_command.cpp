// `atoll train`: trains a model on a dataset folder, under mpirun or alone.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>

#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/paths.hpp"
#include "base/text.hpp"
#include "engine/comm/epoch_questions.hpp"
#include "engine/comm/supervisor_link.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/option_table.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"
#include "engine/training/training_run.hpp"
#include "launch/command.hpp"
#include "launch/config_file.hpp"
#include "launch/help_group.hpp"
#include "launch/job_start.hpp"
#include "launch/option_flags.hpp"
#include "launch/run_end.hpp"
#include "launch/scores_text.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

// Exit code if the loss ends far above where it began: the model is of little use, though complete.
const int kDivergedExit = Error(ErrorKind::kDiverged, "").exit_code();

void print_summary(const Json& summary, const std::filesystem::path& run_dir) {
  const int epochs = summary.at("epochs").get<int>();
  print("{} on {}: {} epoch{}", summary.at("model").get<std::string>(),
        summary.at("dataset").get<std::string>(), epochs, epochs == 1 ? "" : "s");
  if (summary.at("train").is_null() && summary.at("valid").is_null() &&
      !summary.contains("undefined")) {
    fmt::print(", not evaluated yet\n");
  } else {
    fmt::print(", best epoch {} by {}\n", summary.at("best_epoch").get<int>(),
               summary.at("chosen_by").get<std::string>());
    fmt::print("{}", scores_text(summary));
  }
  const Json& exposed = summary.at("exposed_comm_ms_median");
  const bool known = exposed.is_number() && !std::isnan(exposed.get<double>());
  fmt::print("  {:.1f} ms per epoch (median), {} ms of it waiting for messages, {:.2f} MB sent\n",
             summary.at("epoch_ms_median").get<double>(),
             known ? fmt::format("{:.1f}", exposed.get<double>()) : "an unknown number of",
             summary.at("bytes_sent_per_epoch").get<double>() / 1e6);
  fmt::print("  trained in {}, evaluations included\n",
             format_duration(summary.at("wall_seconds").get<double>()));
  if (!run_dir.empty()) print("  results in {}\n", run_dir.string());
}

struct TrainArguments {
  TrainFlags flags;
  int plan_trial = 3;
  std::string run_dir;  // empty: a new folder below runs
  std::string checkpoint_every = "10m";
  std::string max_time;
  bool resume = false;
  bool overwrite = false;
};

// A new folder runs/DATASET-MODEL-K with the least K that is free, also if others choose one now.
std::filesystem::path make_new_run_dir(const std::filesystem::path& dataset,
                                       const std::string& model) {
  const std::string name = without_slash(dataset).filename().string();
  const std::filesystem::path parent = "runs";
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  for (int k = 1; !error; ++k) {
    const auto folder = parent / fmt::format("{}-{}-{}", name, model, k);
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error == std::errc::file_exists) error.clear();
  }
  fail_option("runs: can't make a folder for this run here: {}; name one by --run-dir, or none",
              error.message());
}

// --run-dir, or a new folder that rank 0 makes.
void choose_run_dir(const TrainArguments& arguments, Transport& transport, TrainOptions& options) {
  std::string folder = arguments.run_dir == kNoRunDir ? "" : arguments.run_dir;
  if (arguments.run_dir.empty()) {
    on_all_ranks(transport, [&] {
      if (transport.rank() != 0) return;
      folder = make_new_run_dir(arguments.flags.dataset, model_word(options.model)).string();
      options.start = RunStart::kNew;
    });
    share_text(transport, folder, {"run folder"});
  }
  options.run_dir = folder;
}

// --overwrite would remove the model before the run begins with it.
void require_other_run(const TrainArguments& arguments) {
  const std::filesystem::path& warm_start = arguments.flags.train.warm_start;
  if (warm_start.empty() || arguments.run_dir.empty()) return;
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::is_directory(warm_start) ? warm_start : warm_start.parent_path();
  if (!std::filesystem::equivalent(arguments.run_dir, folder.empty() ? "." : folder, ignored)) {
    return;
  }
  fail_option(
      "--warm-start {}: it is in --run-dir {}, where the new run would take its place; "
      "allowed is another folder",
      warm_start.string(), arguments.run_dir);
}

// A run that is resumed has its weights already. That of another --init would be ignored.
void require_own_init(const TrainArguments& arguments) {
  const std::filesystem::path& init = arguments.flags.train.init;
  const std::filesystem::path config = arguments.run_dir / std::filesystem::path(kConfigName);
  if (!arguments.resume || init.empty() || !holds_run(arguments.run_dir)) return;
  std::error_code ignored;
  if (!std::filesystem::exists(config, ignored)) return;
  const std::vector<ConfigValue> values = read_config_values(config);
  const auto own = std::ranges::find(values, "init", &ConfigValue::key);
  const auto whole = [](const std::filesystem::path& file) {
    return std::filesystem::absolute(file).lexically_normal();
  };
  const bool began_with_it =
      own != values.end() && (std::filesystem::equivalent(init, own->value, ignored) ||
                              whole(init) == whole(own->value));  // where it is gone
  if (began_with_it) return;
  fail_option(
      "--init {}: --resume found, and the run in {} began with {}; leave it out, or begin a run in "
      "another folder",
      init.string(), arguments.run_dir,
      own == values.end() ? "weights of its own" : "those in " + own->value);
}

// For --init. A run that goes on has its weights already: the file may be gone.
CLI::Validator init_file(const CLI::App& train) {
  return CLI::Validator(
      [&train](std::string& file) {
        return resumed_run(train).empty() ? CLI::ExistingFile(file) : std::string();
      },
      "FILE");
}

// Refuses options that only a run's folder can serve. config: the file of --config, or empty.
void require_sense(const TrainArguments& arguments, const std::filesystem::path& config) {
  if (arguments.resume && arguments.overwrite) {
    fail_option("--resume, --overwrite: go on with a run or start anew, not both");
  }
  if (arguments.resume && arguments.run_dir.empty()) {
    fail_option("--resume: needs --run-dir, the folder of the run to go on with");
  }
  if (arguments.run_dir == kNoRunDir &&
      (arguments.resume || arguments.overwrite || arguments.flags.train.trace)) {
    fail_option("--run-dir none: --resume, --overwrite and --trace need a folder");
  }
  require_other_run(arguments);
  require_own_init(arguments);
  if (!arguments.resume || config.empty()) return;
  const std::filesystem::path home = std::filesystem::absolute(config).parent_path();
  if (holds_run(home) && !holds_run(arguments.run_dir)) {
    fail_option(
        "--resume: {} names the run folder {}, where no run is; if it was moved, add --run-dir {}",
        config.string(), arguments.run_dir, home.string());
  }
}

void set_rhythm(const TrainArguments& arguments, TrainOptions& options) {
  const std::optional<double> pause = parse_duration(arguments.checkpoint_every);
  options.checkpoint_seconds = pause.value_or(0);
  options.checkpoint_every = pause ? 0 : std::stoi(arguments.checkpoint_every);
  options.max_seconds = parse_duration(arguments.max_time).value_or(0);
  options.start = arguments.resume      ? RunStart::kResume
                  : arguments.overwrite ? RunStart::kOverwrite
                                        : RunStart::kFresh;
}

// supervised: the supervisor says how to go on.
void print_end(const Json& summary, const Transport& transport, const TrainOptions& options,
               bool supervised) {
  print_summary(summary, options.run_dir);
  const Json& by = summary.at("stopped_by");
  if (by.is_null()) return;
  fmt::print("  stopped by {} after epoch {} of {}", by.get<std::string>(),
             summary.at("epochs").get<int>(), options.optimizer.epochs);
  if (options.run_dir.empty()) {
    fmt::print("; nothing was kept (--run-dir none)\n");
  } else if (supervised) {
    fmt::print("\n");
  } else {
    print("; go on with\n    {}\n", resume_command(transport, options.run_dir));
  }
}

// The configuration as the run folder has it: with the folder, also if it was not given.
RunConfig config_of_run(CLI::App& command, const TrainOptions& options) {
  CLI::Option* run_dir = command.get_option("--run-dir");
  if (run_dir->empty() && !options.run_dir.empty()) run_dir->add_result(options.run_dir.string());
  CLI::Option* model_file = command.get_option("--model-file");
  if (!model_file->empty()) {
    model_file->clear();
    model_file->add_result((options.run_dir / kModelFileName).string());
  }
  return {effective_config(command, ConfigExtent::kGiven),
          effective_config(command, ConfigExtent::kAll)};
}

std::filesystem::path config_file_of(const CLI::App& command) {
  const CLI::Option* config = command.get_option("--config");
  return config->empty() ? std::string() : config->results().front();
}

// Lets the run ask whoever wants to be asked. The result must outlive the run. Collective.
std::unique_ptr<EpochQuestions> ask_after_epochs(Transport& transport,
                                                 RunDescription& description) {
  auto questions = transport.rank() == 0 ? EpochQuestions::from_environment()
                                         : std::unique_ptr<EpochQuestions>();
  std::string asks = questions != nullptr ? "yes" : "";
  share_text(transport, asks, {"whether to ask after epochs"});
  if (asks.empty()) return nullptr;
  description.after_epoch = [&transport, questions = questions.get()](const std::string& line) {
    EpochQuestions::Answer answer;
    on_all_ranks(transport, [&] {  // it may take long
      if (questions != nullptr) answer = questions->ask(line);
    });
    transport.broadcast(std::as_writable_bytes(std::span(&answer, 1)), 0,
                        {"the answer after an epoch"});
    using Verdict = EpochQuestions::Verdict;
    AfterEpoch after;
    if (answer.verdict == Verdict::kEnough) after.stopped_by = "progress";
    if (answer.verdict == Verdict::kInterrupt) after.stopped_by = signal_name(SIGINT);
    if (answer.learning_rate > 0) after.learning_rate = answer.learning_rate;
    return after;
  };
  return questions;
}

// Throws for what is wrong with the options by themselves.
void check_train(const TrainArguments& arguments, const CLI::App& command) {
  require_sense(arguments, config_file_of(command));
  arguments.flags.resolve();
}

// Returns the exit code.
int run_train(const TrainArguments& arguments, CLI::App& command) {
  check_train(arguments, command);  // before any rank starts
  require_node_per_rank(arguments.flags.transport, arguments.flags.dataset,
                        arguments.flags.train.ranks_of_part());
  const CLI::Option* file = command.get_option("--model-file");
  const std::string model_file =
      file->empty() ? "" : read_text(std::filesystem::path(file->results().front()));
  std::atomic<int> signal = 0;
  std::atomic<bool> diverged = false;
  run_ranks(arguments.flags.transport, [&](Transport& transport) {
    // Where ranks are threads, one speaks for the process.
    SupervisorLink* const supervisor =
        transport.rank() == launcher_info().rank ? SupervisorLink::of_process() : nullptr;
    if (supervisor != nullptr) supervisor->ready();
    TrainFlags flags = arguments.flags;
    set_rhythm(arguments, flags.train);
    choose_run_dir(arguments, transport, flags.train);
    const auto folder = open_run_folder(transport, flags.train, config_file_of(command));
    const auto [options, partition] = job_of(flags, transport, arguments.plan_trial);
    RankJob job(transport, flags.dataset, partition, options);
    if (folder->active()) log::info("run folder: {}", folder->path().string());
    if (transport.rank() == 0) {
      for (const std::string& doubt : doubts_about(job.trainer().model())) log::warn("{}", doubt);
    }
    const RunConfig config = folder->active() ? config_of_run(command, options) : RunConfig{};
    RunDescription description{config, program_commit(), flags.dataset, model_file};
    if (supervisor != nullptr) {
      description.epoch_done = [&](int epoch) { supervisor->epoch_done(epoch); };
    }
    const auto questions = ask_after_epochs(transport, description);
    // A supervisor has said it already.
    if (supervisor == nullptr && transport.rank() == 0) description.asked_to_end = acknowledge_stop;
    const Json summary = [&] {
      try {
        return train(options, description, job, transport, *folder);
      } catch (const Error& error) {
        // It would diverge again, or meet the same full disk.
        const bool ends_again = error.kind() == ErrorKind::kDiverged ||
                                error.kind() == ErrorKind::kInput ||
                                error.kind() == ErrorKind::kOption;
        if (supervisor != nullptr && ends_again) supervisor->say_goodbye();
        throw;
      }
    }();
    if (supervisor != nullptr) supervisor->say_goodbye();
    if (transport.rank() == 0) {
      print_end(summary, transport, options, supervisor != nullptr);
    }
    diverged = summary.at("diverged").get<bool>();
    if (diverged) {  // the first rank that fails ends the job
      std::fflush(stdout);
      transport.barrier({"end of the run"});
    }
    signal = stopping_signal(summary);
  });
  if (signal == 0 && diverged) return kDivergedExit;
  // Who has asked for this knows it, and Open MPI's launcher takes seconds to end a job that fails.
  if (signal == SIGUSR1 && SupervisorLink::of_process() != nullptr) return 0;
  return signal == 0 ? 0 : 128 + signal;  // what shells expect of a program that a signal has ended
}

using Run = std::function<void(const TrainArguments&, CLI::App&)>;

// run: what the command does once its options are read.
const TrainFlags& declare_train(CLI::App& app, const Run& run) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model on the whole graph, over all ranks of the job");
  command->footer(
      "Partitions the dataset first if that partition is not there yet.\n"
      "Examples:\n"
      "  atoll train data/sbm --epochs 50\n"
      "  mpirun -n 4 atoll train data/arxiv --model gcn --norm batch --epochs 100 "
      "--run-dir runs/arxiv\n"
      "  mpirun -n 4 atoll train data/arxiv --run-dir runs/arxiv --resume\n"
      "  atoll train data/cora --transport local --ranks 3 --layers 2 --hidden 16 "
      "--input-dropout 0.5 --weight-decay 5e-4 --weight-decay-layers first --epochs 200");
  const auto arguments = std::make_shared<TrainArguments>();
  TrainOptions& train = arguments->flags.train;
  train.optimizer.epochs = 100;  // before the option is declared, so that --help shows it
  add_train_flags(*command, arguments->flags);
  const HelpGroup model(*command, "Model");
  model
      .add_option("--init", train.init,
                  "Start with the weights in this file: model.safetensors of a run, or a "
                  "state_dict as atoll export --to pyg writes it")
      ->check(init_file(*command));
  model
      .add_option("--warm-start", train.warm_start,
                  "Begin with the model of this run, that of its best epoch: its folder or "
                  "model.safetensors; the dataset may have grown")
      ->check(CLI::ExistingPath);
  for (const auto& row : train_options()) {
    if (row.group == "Results") add_option_flag(*command, row, train);
  }
  const HelpGroup results(*command, "Results");
  results
      .add_option("--run-dir", arguments->run_dir,
                  "Folder for metrics, summary, model and checkpoints, new or empty; none: keep "
                  "nothing; if not given: runs/DATASET-MODEL-K")
      ->type_name("DIR");
  results
      .add_option("--checkpoint-every", arguments->checkpoint_every,
                  "Write a checkpoint after so much time (10m) or so many epochs (50), and at the "
                  "end; 0: none")
      ->check(epochs_or_duration());
  results
      .add_option("--snapshot-every", train.snapshot_every,
                  "Keep the state in the memory of each host every K epochs, for --resume after "
                  "processes have ended; 0: never")
      ->check(non_negative_number());
  results
      .add_option("--snapshot-dir", train.snapshot_dir,
                  "Where hosts keep it: a file system in memory")
      ->check(CLI::ExistingDirectory);
  results
      .add_option("--max-time", arguments->max_time,
                  "End after the epoch in which so much time (2h) has passed, with a checkpoint to "
                  "--resume from")
      ->check(duration());
  // Not part of a run's configuration: RUN/config.toml is the same run from its start.
  const auto add_flag = [&](const char* name, bool& flag, const char* text) {
    results.add_flag(name, flag, text)->configurable(false);
  };
  add_flag("--resume", arguments->resume,
           "Go on from the checkpoint in --run-dir, from the beginning if there is none yet; "
           "options that are not given are those of the run");
  add_flag("--overwrite", arguments->overwrite,
           "Start anew in --run-dir: what a run has written there is removed");
  add_flag("--take-over", train.take_over,
           "Work in --run-dir although another process holds it; that one will write no more");
  results.add_flag("--trace", train.trace,
                   "Write a Chrome trace into --run-dir (opens in Perfetto; see atoll trace)");
  command
      ->add_option("--plan-trial", arguments->plan_trial,
                   "Time so many epochs with --plan and without it, and drop the plan if it is "
                   "slower; 0: trust it")
      ->check(non_negative_number())
      ->group("Machine");
  command->callback([command, arguments, run] { run(*arguments, *command); });
  return arguments->flags;
}

}  // namespace

void add_train_command(CLI::App& app) {
  declare_train(app, [](const TrainArguments& arguments, CLI::App& command) {
    const int exit_code = run_train(arguments, command);
    if (exit_code != 0) throw CLI::RuntimeError(exit_code);
  });
}

const TrainFlags& add_train_check(CLI::App& app) { return declare_train(app, check_train); }

}  // namespace atl
