// `atoll schedule`: decides which jobs of a list train where on a cluster, and when.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/placement/sub_topology.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/schedule/job_speeds.hpp"
#include "launch/schedule/schedule_book.hpp"
#include "launch/schedule/schedule_file.hpp"
#include "launch/schedule/schedule_runner.hpp"
#include "launch/schedule/schedule_status.hpp"
#include "launch/schedule/schedule_story.hpp"
#include "launch/schedule/schedule_table.hpp"
#include "launch/schedule/slurm_script.hpp"
#include "launch/schedule_run_flags.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

constexpr const char* kAllPolicies = "all";  // of --policy
constexpr double kStartSeconds = 2;          // where nothing is known of a start

struct ScheduleArguments {
  std::string list;
  std::string topology;
  std::string policy = "search";
  std::string out = "schedule";
  std::string elastic = "on";
  std::optional<double> start_s;
  JobPolicyOptions options;
  std::vector<std::string> measured;
  std::string trace;
  std::string slurm;
  ScheduleRunFlags running;
};

// A list of jobs on a cluster, ready to be decided on.
class PlannedList {
 public:
  explicit PlannedList(const ScheduleArguments& arguments)
      : arguments_(arguments),
        listed_(read_job_list(arguments.list)),
        planned_(arguments.running.run ? jobs_to_plan(listed_, arguments.out) : listed_),
        topology_(read_topology(arguments.topology)),
        hosts_(scheduled_hosts(topology_)),
        measured_(read_measured(arguments.measured)),
        known_(know(planned_)) {
    name_hosts(arguments.running, hosts_);
    if (planned_.size() < listed_.size()) return;  // a run may be that of a job that is done
    for (const std::size_t run : known_.speeds->unused_runs()) {
      log::warn("--measured {}: no job of {} has the layers of this run, so it changes nothing",
                arguments.measured[run], arguments.list);
    }
  }

  const std::vector<ListedJob>& listed() const { return listed_; }
  SimulatedSpeeds& speeds() { return *known_.speeds; }

  // All that policies must know of jobs, of this list or of others.
  struct Known {
    std::vector<SchedulableJob> jobs;
    std::shared_ptr<SimulatedSpeeds> speeds;
  };
  Known know(std::span<const ListedJob> listed) {
    ScheduledTrainings trainings = read_trainings(listed, arguments_.list);
    for (const ScheduledTrainings::Job& job : trainings.jobs) {
      if (!job.doubt.empty() && said_.insert(job.doubt).second) log::warn("{}", job.doubt);
    }
    auto jobs = schedulable_jobs(listed, trainings, topology_.ranks(), arguments_.list);
    auto speeds = std::make_shared<SimulatedSpeeds>(
        SimulatedSpeeds::Setting{.trainings = std::move(trainings),
                                 .topology = topology_,
                                 .table = std::filesystem::path(arguments_.out) / "speeds.json",
                                 .measured = measured_});
    for (int j = 0; j < std::ssize(jobs); ++j) {
      const auto measured_s = arguments_.start_s ? arguments_.start_s : speeds->start_s(j);
      jobs[static_cast<std::size_t>(j)].start_s = measured_s.value_or(kStartSeconds);
    }
    return {std::move(jobs), std::move(speeds)};
  }

  ScheduleFile schedule(const std::string& policy) {
    ScheduleFile file{.list = arguments_.list,
                      .topology = arguments_.topology,
                      .policy = policy,
                      .elastic = arguments_.options.elastic,
                      .jobs = known_.jobs,
                      .folders = {},
                      .hosts = hosts_,
                      .schedule = simulate(policy),
                      .first_come_mean_s = simulate("fifo").mean_completion_s,
                      .bound_s = completion_bound_s(setting())};
    for (const ListedJob& job : planned_) file.folders.push_back(job.folder("").string());
    return file;
  }

 private:
  static std::vector<MeasuredRun> read_measured(const std::vector<std::string>& folders) {
    std::vector<MeasuredRun> runs;
    for (const std::string& folder : folders) runs.push_back(read_measured_run(folder));
    return runs;
  }

  ScheduleSetting setting() {
    return {.jobs = known_.jobs, .hosts = hosts_, .speeds = *known_.speeds};
  }

  JobSchedule simulate(const std::string& policy) {
    const Activity activity(fmt::format("scheduling by {}", policy));
    try {
      return simulate_schedule(setting(), *make_job_policy(policy, arguments_.options));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kOption) throw;
      fail_option("{}: {}{}", arguments_.list, error.what(), refusals());
    }
  }

  // Why jobs can't train anywhere.
  std::string refusals() const {
    std::string text;
    for (std::size_t j = 0; j < known_.jobs.size(); ++j) {
      const std::string why = known_.speeds->refusal(static_cast<int>(j));
      if (!why.empty() && text.find(why) == std::string::npos) {
        text += fmt::format("; {}: {}", known_.jobs[j].name, why);
      }
    }
    return text;
  }

  const ScheduleArguments& arguments_;
  std::vector<ListedJob> listed_;
  std::vector<ListedJob> planned_;
  Topology topology_;
  std::vector<ScheduledHost> hosts_;
  std::vector<MeasuredRun> measured_;
  std::set<std::string> said_;  // about jobs, which are read again when others come
  Known known_;
};

void print_size_of(const ScheduleFile& file) {
  const int slots =
      std::accumulate(file.hosts.begin(), file.hosts.end(), 0,
                      [](int sum, const ScheduledHost& host) { return sum + host.slots; });
  print("{} job{} of {} on {} host{} with {} slots ({})", file.jobs.size(),
        file.jobs.size() == 1 ? "" : "s", file.list, file.hosts.size(),
        file.hosts.size() == 1 ? "" : "s", slots, file.topology);
}

void make_out_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_option("--out {}: can't create: {}", folder, error.message());
}

// All policies on the same jobs; none of them is written.
void compare_policies(PlannedList& list) {
  std::vector<ScheduleFile> files;
  for (const std::string& policy : job_policies()) files.push_back(list.schedule(policy));
  print_size_of(files.front());
  print("\nfirst-come {:.1f} s, lower bound {:.1f} s\n\n", files.front().first_come_mean_s,
        files.front().bound_s);
  print_lines(policies_table(files));
}

void write_schedule(const ScheduleArguments& arguments, PlannedList& list) {
  const ScheduleFile file = list.schedule(arguments.policy);
  const std::filesystem::path path = std::filesystem::path(arguments.out) / "schedule.json";
  write_json(path, to_json(file));
  if (!arguments.trace.empty()) write_json(arguments.trace, schedule_trace(file));
  if (!arguments.slurm.empty()) {
    write_atomically(arguments.slurm, slurm_script(file, list.listed()));
  }
  print_size_of(file);
  print(", policy {}\n\n", file.policy);
  print_lines(jobs_table(file));
  print_lines("\n" + schedule_summary(file));
  print("written to {}\n", path.string());
}

// Returns the exit code.
int run_planned(const ScheduleArguments& arguments, PlannedList& list) {
  ScheduleRunSetting setting{.plan = list.schedule(arguments.policy),
                             .jobs = list.listed(),
                             .policy = arguments.options,
                             .launch = arguments.running.launch,
                             .know = {}};
  setting.launch.out = arguments.out;
  setting.launch.program = this_program();
  setting.know = [&](std::span<const ListedJob> listed) {
    PlannedList::Known known = list.know(listed);
    return KnownJobs{std::move(known.jobs), std::move(known.speeds)};
  };
  warn_of_threads(setting.jobs, setting.plan.hosts);
  if (!arguments.trace.empty()) write_json(arguments.trace, schedule_trace(setting.plan));
  list.speeds().save();
  const int code = run_schedule(setting);
  print_lines(status_text(schedule_status(arguments.out)));
  return code;
}

// Returns the exit code.
int run_schedule_command(ScheduleArguments arguments, bool elastic_given) {
  if (launcher_info().rank != 0) return 0;  // under mpirun one process is enough
  arguments.options.elastic = arguments.elastic == "on";
  if (!arguments.slurm.empty()) {
    if (elastic_given && arguments.options.elastic) {
      fail_option("--slurm, --elastic on: sbatch keeps the ranks of a job; allowed is off");
    }
    arguments.options.elastic = false;
    check_result_file(arguments.slurm, "--slurm");
  }
  const bool compares = arguments.policy == kAllPolicies;
  if (compares && !(arguments.slurm.empty() && arguments.trace.empty())) {
    fail_option("--policy all: only compares; --slurm and --trace need one policy");
  }
  if (arguments.running.run && (compares || !arguments.slurm.empty())) {
    fail_option("--run: runs a schedule itself, by one policy; leave out {}",
                compares ? "--policy all" : "--slurm");
  }
  if (!arguments.running.run && !compares && has_schedule(arguments.out)) {
    fail_option(
        "--out {}: a schedule was run there, and its schedule.json says what was done; choose "
        "another --out, or go on with --run",
        arguments.out);
  }
  if (!arguments.trace.empty()) check_result_file(arguments.trace, "--trace");
  check_outside_datasets(arguments.out, "--out");
  PlannedList list(arguments);
  make_out_folder(arguments.out);
  if (arguments.running.run) return run_planned(arguments, list);
  if (compares) {
    compare_policies(list);
  } else {
    write_schedule(arguments, list);
  }
  list.speeds().save();
  log::info("{} epochs simulated; {}/speeds.json has what is known", list.speeds().simulated(),
            arguments.out);
  return 0;
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Decide which jobs of a list train where on a cluster, and when");
  command->footer(
      "The list is that of atoll jobs, with arrivals and numbers of ranks (docs/schedule.md).\n"
      "Examples:\n"
      "  atoll schedule jobs.toml --topology cluster.json --policy all\n"
      "  atoll schedule jobs.toml --topology cluster.json --policy search --out runs/week\n"
      "  atoll report runs/week\n"
      "  atoll schedule jobs.toml --topology cluster.json --slurm jobs.sh && bash jobs.sh\n"
      "  atoll schedule jobs.toml --topology cluster.json --out runs/week --run");
  const auto arguments = std::make_shared<ScheduleArguments>();
  command->add_option("jobs", arguments->list, "List of jobs, TOML or JSON")->type_name("FILE");
  command->add_option("--topology", arguments->topology, "File that describes the cluster")
      ->check(CLI::ExistingFile);
  std::vector<std::string> policies = job_policies();
  policies.emplace_back(kAllPolicies);
  command
      ->add_option("--policy", arguments->policy,
                   "Who runs where: fifo (in order of arrival), srpt (shortest remaining time "
                   "first), marginal (ranks go where time falls most), search (the best of many "
                   "schedules); all: only compare them")
      ->check(one_of(policies));
  command
      ->add_option("--out", arguments->out,
                   "Folder for schedule.json and the speeds that were simulated, which the next "
                   "schedule uses")
      ->type_name("DIR");
  CLI::Option* elastic =
      command
          ->add_option(
              "--elastic", arguments->elastic,
              "Whether the ranks of a job may change once it runs, and it may have to wait "
              "again")
          ->check(one_of({"on", "off"}));
  command
      ->add_option("--start-seconds", arguments->start_s,
                   "Time that a start takes before its first epoch, also one that goes on "
                   "(default: the mean of --measured runs made by atoll launch, otherwise 2 s)")
      ->transform(seconds({.least = 0, .most = kMostListSeconds}));
  command->add_option("--seed", arguments->options.seed, "Seed of search")->check(seed_number());
  command
      ->add_option("--evaluations", arguments->options.evaluations,
                   "Simulated schedules that search may spend on a decision")
      ->check(CLI::Range(1, 100000000));
  command
      ->add_option(
          "--measured", arguments->measured,
          "Run folders of atoll train --trace on some or all ranks of the cluster, from which jobs "
          "with the same layers learn how long phases really take: from one on their own dataset "
          "and number of ranks, or the nearest. Those made by atoll launch also tell how long a "
          "start takes")
      ->check(CLI::ExistingDirectory)
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--trace", arguments->trace,
                      "Also write the schedule as a Chrome trace (opens in Perfetto)");
  command->add_option("--slurm", arguments->slurm,
                      "Also write a script that submits the jobs to Slurm in this order, with "
                      "--elastic off");
  add_schedule_run_flags(*command, arguments->running);
  add_schedule_run_commands(*command);
  command->require_subcommand(0, 1);
  command->callback([command, arguments, elastic] {
    if (!command->get_subcommands().empty()) return;
    if (arguments->list.empty() || arguments->topology.empty()) {
      fail_option("{} is required; see atoll schedule --help",
                  arguments->list.empty() ? "a list of jobs" : "--topology");
    }
    const int code = run_schedule_command(*arguments, !elastic->empty());
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atl
