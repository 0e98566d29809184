// `atoll launch`: a training that is started again when processes or hosts are lost.
#include <filesystem>
#include <memory>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "launch/command.hpp"
#include "launch/config_file.hpp"
#include "launch/supervisor.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct LaunchArguments {
  SupervisedJob job;
  std::string mpirun = "mpirun --bind-to none";
  std::string regrow_every;
};

// Reads the words behind -- as `atoll train` would, so that what is wrong with them is said before
// anything is started, and finds the run folder.
std::filesystem::path check_training(const std::vector<std::string>& words) {
  if (words.front() != "train") {
    fail_option("launch: '{}' behind --: allowed is train with its options", words.front());
  }
  CLI::App program;
  program.option_defaults()->always_capture_default();
  add_train_command(program);
  add_config_option(program);
  CLI::App* const train = program.get_subcommand("train");
  // Before train itself would begin.
  program.parse_complete_callback([] { throw CLI::RuntimeError(0); });
  try {
    std::vector<std::string> last_first(words.rbegin(), words.rend());
    program.parse(last_first);
  } catch (const CLI::RuntimeError&) {  // all is well
  } catch (const CLI::Success&) {
    fail_option("launch: --help or --version behind --; ask 'atoll train --help' instead");
  } catch (const CLI::ParseError& error) {
    std::string unknown;
    for (const std::string& word : train->remaining()) unknown += " '" + word + "'";
    fail_option("launch: behind --: {}{}", unknown.empty() ? "" : "unknown to train:",
                unknown.empty() ? error.what() : unknown);
  }
  const auto run_dir = train->get_option("--run-dir")->as<std::string>();
  if (run_dir.empty() || run_dir == kNoRunDir) {
    fail_option(
        "launch: the training needs --run-dir FOLDER behind --, so that every attempt goes on with "
        "the same run");
  }
  const auto transport = train->get_option("--transport")->as<std::string>();
  if (transport == "local") {
    fail_option(
        "launch: --transport local behind --: ranks are processes here; allowed are auto, "
        "mpi, nccl");
  }
  return run_dir;
}

int run_launch(LaunchArguments& arguments) {
  SupervisedJob& job = arguments.job;
  if (launched_by_mpi()) {
    fail_option("launch: starts mpirun itself; run it without a launcher");
  }
  job.run_dir = check_training(job.words);
  job.launcher.mpirun = words_of(arguments.mpirun);
  if (job.launcher.mpirun.empty()) fail_option("--mpirun: is empty; an example is 'mpirun'");
  job.regrow_seconds = parse_duration(arguments.regrow_every).value_or(0);
  if (job.launcher.hosts.empty()) job.launcher.hosts = {"localhost"};
  job.program = std::filesystem::read_symlink("/proc/self/exe").string();
  return Supervisor(job).run();
}

// Not for users: what the supervisor runs on a host to see whether it can be reached.
void add_probe_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("launch-probe", "Answer atoll launch");
  command->group("");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("words", *words, "ADDRESS:PORT KEY HOST [KEY of former attempts]...")
      ->required()
      ->expected(3, 1 << 20);
  command->callback([words] {
    end_processes_of({words->begin() + 3, words->end()});
    answer_probe((*words)[0], (*words)[1], (*words)[2]);
  });
}

}  // namespace

void add_launch_command(CLI::App& app) {
  add_probe_command(app);
  CLI::App* command = app.add_subcommand(
      "launch", "Train under a supervisor that starts again what processes and hosts lose");
  command->footer(
      "Starts mpirun, watches every rank, and after a failure goes on from the newest snapshot or\n"
      "checkpoint, on the hosts that are left. RUN/events.jsonl tells what happened.\n"
      "Examples:\n"
      "  atoll launch --ranks-per-host 4 -- train data/arxiv --run-dir runs/a\n"
      "  atoll launch --hosts a,b,c,d --spare e --min-ranks 2 --regrow-every 10m -- \\\n"
      "    train data/arxiv --run-dir runs/a --checkpoint-every 10m");
  const auto arguments = std::make_shared<LaunchArguments>();
  SupervisedJob& job = arguments->job;
  command->add_option("words", job.words, "-- train DATASET --run-dir RUN [options of train]...")
      ->required()
      ->configurable(false);
  command
      ->add_option("--hosts", job.launcher.hosts,
                   "Hosts to train on, with commas between; none: this machine")
      ->delimiter(',')
      ->group("Hosts");
  command->add_option("--ranks-per-host", job.launcher.ranks_per_host, "Ranks on each of them")
      ->check(CLI::Range(1, 1024))
      ->group("Hosts");
  command->add_option("--spare", job.spares, "Hosts that take the place of lost ones")
      ->delimiter(',')
      ->group("Hosts");
  command
      ->add_option("--rsh", job.launcher.rsh,
                   "Command that starts another on a host, also for mpirun; none: ssh")
      ->group("Hosts");
  command
      ->add_option("--mpirun", arguments->mpirun,
                   "Command of the launcher, with options of its own")
      ->group("Hosts");
  command
      ->add_option("--address", job.address,
                   "Address of this machine at which ranks reach it; none: its name")
      ->group("Hosts");
  command->add_option("--restarts", job.restarts, "Most failures before the run is given up")
      ->check(CLI::Range(0, 1000000))
      ->group("Failures");
  command
      ->add_option("--min-ranks", job.min_ranks, "Fewest ranks to go on with when hosts are lost")
      ->check(CLI::Range(1, 1000000))
      ->group("Failures");
  command
      ->add_option("--snapshot-every", job.snapshot_every,
                   "Epochs between snapshots, unless the training says otherwise; 0: none")
      ->check(CLI::Range(0, 1000000))
      ->group("Failures");
  command
      ->add_option("--silence", job.silence_seconds,
                   "Seconds without a sign of life after which a rank is taken for lost")
      ->check(CLI::Range(2.0, 1e6))
      ->group("Failures");
  command
      ->add_option("--start-timeout", job.start_seconds,
                   "Seconds until all ranks must have started")
      ->check(positive_number())
      ->group("Failures");
  command
      ->add_option("--regrow-every", arguments->regrow_every,
                   "Look for lost hosts so often (10m), and start with those that are back; none: "
                   "never")
      ->check(duration())
      ->group("Failures");
  command->callback([arguments] {
    const int code = run_launch(*arguments);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atl
