// `atoll train`: trains a model on a dataset folder, under mpirun or alone.
#include <memory>

#include "base/text.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/run_folder.hpp"
#include "engine/training/training_run.hpp"
#include "launch/command.hpp"
#include "launch/config_file.hpp"
#include "launch/plan_trial.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

void print_summary(const Json& summary, const std::filesystem::path& run_dir) {
  const auto number = [&](const char* field) {
    return summary.at(field).is_null() ? std::string("-")
                                       : fmt::format("{:.4f}", summary.at(field).get<double>());
  };
  print("{} on {}: {} epochs, best epoch {} by {}\n", summary.at("model").get<std::string>(),
        summary.at("dataset").get<std::string>(), summary.at("epochs").get<int>(),
        summary.at("best_epoch").get<int>(),
        summary.at("valid").is_null() ? "train (no labelled valid node)" : "valid");
  fmt::print("  {}: train {}  valid {}  test {}\n", summary.at("metric").get<std::string>(),
             number("train"), number("valid"), number("test"));
  const Json& exposed = summary.at("exposed_comm_ms_median");
  const bool known = exposed.is_number() && !std::isnan(exposed.get<double>());
  fmt::print("  {:.1f} ms per epoch (median), {} ms of it waiting for messages, {:.2f} MB sent\n",
             summary.at("epoch_ms_median").get<double>(),
             known ? fmt::format("{:.1f}", exposed.get<double>()) : "an unknown number of",
             summary.at("bytes_sent_per_epoch").get<double>() / 1e6);
  if (!run_dir.empty()) fmt::print("  results in {}\n", run_dir.string());
}

void run_train(const TrainFlags& flags, int plan_trial, const std::string& config) {
  flags.resolve();  // what is wrong with it is known before any rank starts
  run_ranks(flags.transport, [&](Transport& transport) {
    on_all_ranks(transport, [&] {
      const TrainOptions& asked = flags.train;
      if (!asked.run_dir.empty()) RunFolder::check(asked.run_dir, asked.resume);
    });
    const auto [options, partition] = tried_job(flags, plan_trial, transport);
    RankJob job(transport, flags.dataset, partition, options);
    const Json summary = train(options, {config, program_commit(), flags.dataset}, job, transport);
    if (transport.rank() == 0) print_summary(summary, options.run_dir);
  });
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model on the whole graph, over all ranks of the job");
  command->footer(
      "Partitions the dataset first if that partition is not there yet.\n"
      "Examples:\n"
      "  atoll train data/sbm --epochs 50\n"
      "  mpirun -n 4 atoll train data/arxiv --model gcn --norm batch --epochs 100 "
      "--run-dir runs/arxiv\n"
      "  mpirun -n 4 atoll train --config runs/arxiv/config.toml --resume\n"
      "  atoll train data/cora --transport local --ranks 3 --layers 2 --hidden 16 "
      "--input-dropout 0.5 --weight-decay 5e-4 --weight-decay-layers first --epochs 200");
  const auto flags = std::make_shared<TrainFlags>();
  TrainOptions& train = flags->train;
  train.optimizer.epochs = 100;  // before the option is declared, so that --help shows it
  add_train_flags(*command, *flags);
  command
      ->add_option("--eval-every", train.eval_every, "Evaluate every K epochs; 0: only at the end")
      ->check(non_negative_number())
      ->group("Results");
  command
      ->add_option("--patience", train.patience,
                   "Stop after K evaluations without a better valid metric; 0: never")
      ->check(non_negative_number())
      ->group("Results");
  command
      ->add_option("--run-dir", train.run_dir, "Folder for metrics, summary, model and checkpoints")
      ->group("Results");
  command
      ->add_option("--checkpoint-every", train.checkpoint_every,
                   "Write a checkpoint every K epochs; 0: none")
      ->check(non_negative_number())
      ->group("Results");
  // Not part of a run's configuration: RUN/config.toml is the same run from its start.
  command->add_flag("--resume", train.resume, "Go on from the checkpoint in --run-dir")
      ->configurable(false)
      ->group("Results");
  command
      ->add_flag("--trace", train.trace,
                 "Write a Chrome trace into --run-dir (opens in Perfetto; see atoll trace)")
      ->group("Results");
  const auto plan_trial = std::make_shared<int>(3);
  command
      ->add_option("--plan-trial", *plan_trial,
                   "Time so many epochs with --plan and without it, and drop the plan if it is "
                   "slower; 0: trust it")
      ->check(non_negative_number())
      ->group("Machine");
  command->callback(
      [command, flags, plan_trial] { run_train(*flags, *plan_trial, effective_config(*command)); });
}

}  // namespace atl
