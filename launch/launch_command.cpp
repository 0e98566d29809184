// `atoll launch`: a training that is started again when processes or hosts are lost.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "datasets/dataset.hpp"
#include "engine/comm/mpi_library.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/group_ranks.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/job_start.hpp"
#include "launch/supervisor/supervisor.hpp"
#include "launch/train_check.hpp"
#include "launch/train_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

struct LaunchArguments {
  SupervisedJob job;
  std::string mpirun = "mpirun --bind-to none";
  std::string regrow_every;
  std::vector<int> spare_partitions;
  std::function<bool()> has_ranks;  // whether --ranks-per-host was given
};

// Facts for the supervisor in the words behind --.
struct Training {
  std::filesystem::path run_dir;
  std::filesystem::path snapshot_dir;
  std::filesystem::path dataset;
  GroupRanks group_ranks;
  bool in_stages = false;
  bool has_plan = false;
  bool is_fresh = false;                     // neither --resume nor --overwrite
  std::vector<std::string> partition_words;  // "partition DATASET", how it is cut, "--parts"
};

// `atoll partition` as `train` would cut, but for the number of parts.
std::vector<std::string> partition_words_of(const CLI::App& train) {
  std::vector<std::string> words{"partition", train.get_option("dataset")->as<std::string>()};
  for (const CLI::Option* option : train.get_options()) {
    if (option->get_group() != kPartitionGroup || option->empty()) continue;
    words.push_back(
        fmt::format("--{}={}", option->get_lnames().front(), fmt::join(option->results(), ",")));
  }
  words.emplace_back("--parts");
  return words;
}

// Reads the words behind --, so that what is wrong with them is said before anything is started.
Training check_training(const std::vector<std::string>& words) {
  if (words.front() != "train") {
    fail_option("launch: '{}' behind --: allowed is train with its options", words.front());
  }
  const CheckedTraining train(words, "launch: behind --");
  const std::string run_dir = train.value("--run-dir");
  if (run_dir.empty() || run_dir == kNoRunDir) {
    fail_option(
        "launch: the training needs --run-dir FOLDER behind --, so that every attempt goes on with "
        "the same run");
  }
  if (train.value("--transport") == "local") {
    fail_option(
        "launch: --transport local behind --: ranks are processes here; allowed are auto, "
        "mpi, nccl");
  }
  const bool has_plan = train.is_given("--plan");
  const bool is_fresh = !train.is_given("--resume") && !train.is_given("--overwrite");
  return {.run_dir = run_dir,
          .snapshot_dir = train.value("--snapshot-dir"),
          .dataset = train.value("dataset"),
          .group_ranks = train.flags().train.ranks_of_part(),
          .in_stages = has_plan ? read_plan(train.value("--plan")).stages.has_value()
                                : train.flags().train.stages.any(),
          .has_plan = has_plan,
          .is_fresh = is_fresh,
          .partition_words = partition_words_of(train.command())};
}

// Prepares the cuts of --spare-partitions, as far as the job could come to need them.
void prepare_cuts(const LaunchArguments& arguments, const Training& training, SupervisedJob& job) {
  job.spare_partitions = arguments.spare_partitions;
  if (job.spare_partitions.empty()) return;
  if (training.has_plan) {
    fail_option("--spare-partitions: --plan behind -- is for one number of ranks and its own cut");
  }
  const int ranks = static_cast<int>(job.launcher.hosts.size()) * job.launcher.ranks_per_host;
  if (ranks - 1 < std::max(job.min_ranks, 2)) {
    fail_option(
        "--spare-partitions {}: the job begins with {} rank{}, and --min-ranks is {}, so it has "
        "none to spare; leave it out",
        fmt::join(job.spare_partitions, ","), ranks, ranks == 1 ? "" : "s", job.min_ranks);
  }
  for (const int parts : job.spare_partitions) {
    if (parts < std::max(job.min_ranks, 2) || parts >= ranks) {
      fail_option(
          "--spare-partitions {}: allowed are {} to {}, fewer ranks than the job begins with",
          parts, std::max(job.min_ranks, 2), ranks - 1);
    }
  }
  job.partition_words = training.partition_words;
  job.partition_words.insert(job.partition_words.begin(), job.program);
}

// The hosts of the Slurm allocation that this process runs in; none outside of one.
std::vector<std::string> allocated_hosts() {
  if (std::getenv("SLURM_JOB_NODELIST") == nullptr) return {};
  std::string text;
  // It reads the list from the environment.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> names(
      ::popen("scontrol show hostnames", "r"), &::pclose);
  for (int c = 0; names && (c = std::fgetc(names.get())) != EOF;)
    text += c == '\n' ? ' ' : static_cast<char>(c);
  if (text.empty()) {
    fail_option("launch: 'scontrol show hostnames' names no hosts for SLURM_JOB_NODELIST '{}'",
                std::getenv("SLURM_JOB_NODELIST"));
  }
  return words_of(text);
}

// Hosts, ranks and the way to them that were not given, from the allocation.
void take_allocation(SupervisedJob& job, bool has_ranks) {
  if (!job.launcher.hosts.empty()) return;
  job.launcher.hosts = allocated_hosts();
  if (job.launcher.hosts.empty()) return;
  const char* const tasks = std::getenv("SLURM_NTASKS_PER_NODE");
  if (!has_ranks && tasks != nullptr) job.launcher.ranks_per_host = std::max(1, std::atoi(tasks));
  job.agent = "srun --overlap --quiet --mpi=none --nodes=1 --ntasks=1 --nodelist";
}

// Refuses what ranks would refuse one by one, or not at all.
void check_hosts(const SupervisedJob& job) {
  const std::vector<std::string>& hosts = job.launcher.hosts;
  for (const std::string& host : hosts) {
    if (std::ranges::count(hosts, host) == 1) continue;
    fail_option(
        "--hosts {}: has {} twice; name each host once, and say by --ranks-per-host how many ranks "
        "it gets",
        fmt::join(hosts, ","), host);
  }
  for (const std::string& host : job.spares) {
    const bool is_host = std::ranges::count(hosts, host) > 0;
    if (!is_host && std::ranges::count(job.spares, host) == 1) continue;
    fail_option("--spare {}: has {} {}; allowed are hosts that are named once",
                fmt::join(job.spares, ","), host,
                is_host ? "of --hosts " + fmt::format("{}", fmt::join(hosts, ",")) : "twice");
  }
  std::vector<std::string> all = hosts;
  all.insert(all.end(), job.spares.begin(), job.spares.end());
  if (const std::string names = names_of_here(all); !names.empty()) {
    fail_option(
        "--hosts {}: {} are this machine; name it once, and say by --ranks-per-host how many ranks "
        "it gets",
        fmt::join(all, ","), names);
  }
  const auto ranks = std::ssize(hosts) * job.launcher.ranks_per_host;
  if (job.min_ranks <= ranks) return;
  fail_option("--min-ranks {}: {} host{} with --ranks-per-host {} {} {} ranks; allowed are 1 to {}",
              job.min_ranks, hosts.size(), hosts.size() == 1 ? "" : "s",
              job.launcher.ranks_per_host, hosts.size() == 1 ? "has" : "have", ranks, ranks);
}

// The same for --group-ranks behind --.
void check_group_ranks(const GroupRanks& groups, const LauncherWords& launcher) {
  std::vector<std::int64_t> hosts;  // of each rank
  for (std::size_t h = 0; h < launcher.hosts.size(); ++h) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(launcher.ranks_per_host),
                 static_cast<std::int64_t>(h));
  }
  try {
    rank_map(groups, hosts);
  } catch (const Error& error) {
    fail(error.kind(), "launch: behind --: {}", error.what());
  }
}

// The same for the folders behind --.
void check_folders(const Training& training, const SupervisedJob& job) {
  if (training.is_fresh && holds_run(training.run_dir)) {
    fail_option(
        "launch: behind --: --run-dir {}: holds a run already; add --resume to go on with it or "
        "--overwrite to start anew, or choose another folder",
        training.run_dir.string());
  }
  // Other hosts may have the dataset where this one has nothing.
  const std::vector<std::string>& hosts = job.launcher.hosts;
  if (std::ranges::all_of(hosts, is_here)) read_dataset_json(training.dataset);
  const int per_host = job.launcher.ranks_per_host;
  TransportOptions transport;
  transport.ranks = static_cast<int>(hosts.size()) * per_host;
  try {
    require_node_per_rank(transport, training.dataset, training.group_ranks);
  } catch (const Error& error) {
    fail(error.kind(), "launch: --ranks-per-host {} on {} host{}: as with {}", per_host,
         hosts.size(), hosts.size() == 1 ? "" : "s", error.what());
  }
}

void check_mpi_library() {
  const MpiFacts mpi = find_mpi();
  if (mpi.version.empty()) {
    fail_option("launch: starts ranks as processes, by Open MPI's mpirun, but {}", mpi.absence);
  }
  if (!mpi.version.starts_with("Open MPI")) {
    fail_option(
        "launch: hands hosts and environment over by options of Open MPI's mpirun, but this "
        "program {} {}; start 'atoll train' with the launcher of that library, and after a "
        "failure again with --resume",
        mpi.file.empty() ? "was built with" : "has found", mpi.text());
  }
}

// The launcher runs on this host alone.
void check_launcher(const std::string& mpirun, const LauncherWords& launcher) {
  const std::string& program = launcher.mpirun.front();
  if (!find_program(program).empty()) return;
  fail_option("--mpirun {}: '{}' is no program; allowed is the command of Open MPI's launcher",
              mpirun, program);
}

int run_launch(LaunchArguments& arguments) {
  SupervisedJob& job = arguments.job;
  if (launched_by_mpi()) {
    fail_option("launch: starts mpirun itself; run it without a launcher");
  }
  const Training training = check_training(job.words);
  job.run_dir = training.run_dir;
  job.snapshot_dir = training.snapshot_dir;
  // Stages go on without rows of the last epoch, so that they would never read any.
  if (training.in_stages) job.snapshot_every = 0;
  job.launcher.mpirun = words_of(arguments.mpirun);
  if (job.launcher.mpirun.empty()) fail_option("--mpirun: is empty; an example is 'mpirun'");
  check_mpi_library();
  take_allocation(job, arguments.has_ranks());
  job.regrow_seconds = parse_duration(arguments.regrow_every).value_or(0);
  if (job.launcher.hosts.empty()) job.launcher.hosts = {"localhost"};
  check_hosts(job);
  check_group_ranks(training.group_ranks, job.launcher);
  job.program = this_program();
  prepare_cuts(arguments, training, job);
  check_folders(training, job);
  check_launcher(arguments.mpirun, job.launcher);
  return Supervisor(job).run();
}

// Not for users: what the supervisor runs on a host to see whether it can be reached.
void add_probe_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("launch-probe", "Answer atoll launch");
  command->group("");
  const auto words = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("words", *words,
                   "ADDRESS:PORT KEY HOST [KEY, SEGMENT or FOLDER of former attempts]...")
      ->required()
      ->expected(3, 1 << 20);
  command->callback([words] {
    const auto is_path = [](const std::string& word) { return word.starts_with("/"); };
    std::vector<std::string> keys(words->begin() + 3, words->end()), memory;
    std::ranges::copy_if(keys, std::back_inserter(memory), is_path);
    std::erase_if(keys, is_path);
    clear_host(keys, memory);
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
  const HelpGroup hosts(*command, "Hosts");
  // Lists take one word: CLI11 lets longer ones end at the -- that the words begin with.
  hosts
      .add_option(
          "--hosts", job.launcher.hosts,
          "Hosts to train on, with commas between; none: those of the Slurm job that it runs "
          "in, or this machine")
      ->delimiter(',')
      ->allow_extra_args(false);
  const CLI::Option* const ranks_per_host =
      hosts
          .add_option("--ranks-per-host", job.launcher.ranks_per_host,
                      "Ranks on each of them; in a Slurm job its tasks per node unless given")
          ->check(CLI::Range(1, 1024));
  arguments->has_ranks = [ranks_per_host] { return ranks_per_host->count() > 0; };
  hosts.add_option("--spare", job.spares, "Hosts that take the place of lost ones")
      ->delimiter(',')
      ->allow_extra_args(false);
  hosts.add_option(
      "--rsh", job.launcher.rsh,
      "Command that starts another on a host, also for mpirun; none: ssh, in a Slurm job "
      "srun");
  hosts.add_option("--mpirun", arguments->mpirun,
                   "Command of the launcher, with options of its own");
  hosts.add_option("--address", job.address,
                   "Address of this machine at which ranks reach it; none: its name");
  const HelpGroup failures(*command, "Failures");
  failures.add_option("--restarts", job.restarts, "Most failures before the run is given up")
      ->check(CLI::Range(0, 1000000));
  failures
      .add_option("--min-ranks", job.min_ranks, "Fewest ranks to go on with when hosts are lost")
      ->check(CLI::Range(1, 1000000));
  failures
      .add_option("--spare-partitions", arguments->spare_partitions,
                  "Numbers of ranks, e.g. 6,4, that the graph is cut for beforehand, while the "
                  "training runs: it goes on sooner when hosts are lost")
      ->delimiter(',')
      ->allow_extra_args(false);
  failures
      .add_option("--snapshot-every", job.snapshot_every,
                  "Epochs between snapshots, unless the training says otherwise; 0: none")
      ->check(CLI::Range(0, 1000000));
  failures
      .add_option("--silence", job.silence_seconds,
                  "Time without a sign of life after which a rank is taken for lost")
      ->transform(seconds({.least = 2, .most = 1e6}));
  failures
      .add_option("--start-timeout", job.start_seconds,
                  "Time without any sign of progress after which a start has failed; ten times as "
                  "long in all")
      ->transform(seconds({.least = 0, .above = true}));
  failures
      .add_option("--regrow-every", arguments->regrow_every,
                  "Look for lost hosts so often (10m), and start with those that are back; none: "
                  "never")
      ->check(duration());
  failures.add_option(
      "--events", job.events,
      "File that gets the lines of RUN/events.jsonl, too, from the first moment on; "
      "locked meanwhile");
  command->callback([arguments] {
    const int code = run_launch(*arguments);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atl
