// `atoll schedule status`, `add` and `cancel`, for a schedule that is run for real; and the options
// of `atoll schedule --run`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/elapsed.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "launch/command.hpp"
#include "launch/help_group.hpp"
#include "launch/jobs/job_folder.hpp"
#include "launch/schedule/schedule_requests.hpp"
#include "launch/schedule/schedule_status.hpp"
#include "launch/schedule/schedule_story.hpp"
#include "launch/schedule/scheduled_training.hpp"
#include "launch/schedule_run_flags.hpp"
#include "launch/supervisor/host_question.hpp"

namespace atl {
namespace {

// Within it a scheduler takes a request, unless it is busy with a search.
constexpr double kVerdictWait = 10;

// Says whether requests were taken, where somebody is there to do so. Throws Error{kOption} if one
// was refused.
void await_verdict(const std::string& out, const std::vector<std::string>& ids) {
  if (!is_at_work(out)) {
    print("nobody runs {} now: the next one who does takes it\n", out);
    return;
  }
  const SteadyTime begin = steady_now();
  // The last one is taken last.
  while (is_waiting(out, ids.back()) && seconds_since(begin) < kVerdictWait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto requests = read_story(out).requests;
  if (!requests.contains(ids.back())) print("left for the scheduler, which is busy\n");
  for (const std::string& id : ids) {
    const auto verdict = requests.find(id);
    if (verdict != requests.end() && !verdict->second.empty()) {
      fail_option("{}: {}", out, verdict->second);
    }
  }
}

void add_jobs(const std::string& out, const std::string& list) {
  const ScheduleStory story = read_story(out);
  ScheduleRequest request;
  request.jobs = read_job_list(list);
  for (const ListedJob& job : request.jobs) {
    const int known = story.job_named(job.folder("").string());
    const StoryJob* const there =
        known < 0 ? nullptr : &story.jobs[static_cast<std::size_t>(known)];
    if (there == nullptr) continue;
    if (!there->has_ended() || there->phase == StoryJob::Phase::kDone) {
      fail_option(
          "{}: '{}' is in {} already; allowed are others, and those that have failed or "
          "were cancelled",
          list, job.title(), out);
    }
  }
  require_unchanged(request.jobs, out);
  read_trainings(request.jobs, list);
  const std::string id = leave_request(out, request);
  for (const ListedJob& job : request.jobs) print("{}: added\n", job.title());
  await_verdict(out, {id});
}

int named_job(const ScheduleStory& story, const std::string& out, const std::string& name) {
  int number = story.job_named(name);
  // As a shell completes it, and as messages have it.
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  if (number < 0) number = story.job_named(whole(name).lexically_relative(whole(out)).string());
  if (number >= 0) return number;
  std::vector<std::string> titles;
  for (const StoryJob& job : story.jobs) titles.push_back(job.job.title());
  fail_option(
      "{}: '{}' is neither the title nor the folder of a job there{}; 'atoll schedule "
      "status' lists them",
      out, name, did_you_mean(name, titles));
}

void cancel_jobs(const std::string& out, const std::vector<std::string>& names) {
  const ScheduleStory story = read_story(out);
  std::vector<const StoryJob*> jobs;
  for (const std::string& name : names) {
    const StoryJob& job = story.jobs[static_cast<std::size_t>(named_job(story, out, name))];
    if (job.has_ended()) fail_option("{}: '{}' has ended already", out, job.job.title());
    if (std::ranges::count(jobs, &job) == 0) jobs.push_back(&job);
  }
  std::vector<std::string> ids;
  for (const StoryJob* job : jobs) {
    const std::string folder = job->job.folder("").string();
    ids.push_back(leave_request(out, {.id = "", .jobs = {}, .cancelled = folder}));
    if (job->phase == StoryJob::Phase::kRunning) {
      print("{}: ends after its epoch and stays in {}; added again, it goes on there\n",
            job->job.title(), job->job.folder(out).string());
    } else {
      print("{}: cancelled\n", job->job.title());
    }
  }
  await_verdict(out, ids);
}

void add_status_command(CLI::App& schedule) {
  CLI::App* command = schedule.add_subcommand("status", "Show how far the jobs of a schedule are");
  command->footer(
      "Examples:\n  atoll schedule status runs/week\n"
      "  atoll schedule status runs/week --json");
  const auto out = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("out", *out, "Folder of the schedule")->required();
  command->add_flag("--json", *json, "Print it as JSON");
  command->callback([out, json] {
    const ScheduleStatus status = schedule_status(*out);
    print_lines(*json ? json_text(to_json(status)) + "\n" : status_text(status));
  });
}

void add_add_command(CLI::App& schedule) {
  CLI::App* command =
      schedule.add_subcommand("add", "Add jobs to a schedule, while it runs or later");
  command->footer(
      "Their arrivals count from now on.\n"
      "Example:\n  atoll schedule add runs/week more.toml");
  const auto out = std::make_shared<std::string>();
  const auto list = std::make_shared<std::string>();
  command->add_option("out", *out, "Folder of the schedule")->required();
  command->add_option("jobs", *list, "List of jobs, TOML or JSON")->required();
  command->callback([out, list] { add_jobs(*out, *list); });
}

void add_cancel_command(CLI::App& schedule) {
  CLI::App* command = schedule.add_subcommand(
      "cancel", "Take jobs out of a schedule; those that run end after their epochs");
  command->footer(
      "Examples:\n"
      "  atoll schedule cancel runs/week cora/exact/seed-3\n"
      "  atoll schedule cancel runs/week 'cora, 8 bits, seed 3'");
  const auto out = std::make_shared<std::string>();
  const auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("out", *out, "Folder of the schedule")->required();
  command
      ->add_option("job", *names, "Titles of jobs, or their folders, with that folder or without")
      ->required();
  command->callback([out, names] { cancel_jobs(*out, *names); });
}

}  // namespace

void add_schedule_run_commands(CLI::App& schedule) {
  add_status_command(schedule);
  add_add_command(schedule);
  add_cancel_command(schedule);
}

void add_schedule_run_flags(CLI::App& schedule, ScheduleRunFlags& flags) {
  const HelpGroup running(schedule, "Running");
  CLI::Option* run =
      running.add_flag("--run", flags.run, "Run it, by atoll launch, in the folder of --out");
  running
      .add_option("--hosts", flags.hosts,
                  "Names of the hosts, in the order of the topology, with commas between; none: "
                  "their names there")
      ->delimiter(',')
      ->allow_extra_args(false);
  const auto add = [&](const char* name, auto& value, const char* text) {
    return running.add_option(name, value, text)->needs(run);
  };
  add("--rsh", flags.launch.rsh,
      "Command that starts another on a host, also for mpirun; none: ssh");
  add("--mpirun", flags.launch.mpirun,
      "Command of the launcher, with options of its own; none: that of atoll launch");
  add("--address", flags.launch.address,
      "Address of this machine at which ranks reach it; none: its name");
  add("--restarts", flags.launch.restarts, "Most failures of a job, each time that it is started")
      ->check(CLI::Range(0, 1000000));
}

void warn_of_threads(std::span<const ListedJob> jobs, std::span<const ScheduledHost> hosts) {
  const bool share = std::ranges::any_of(hosts, [](auto& host) { return host.slots > 1; });
  if (!share || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  for (const ListedJob& job : jobs) {
    if (job.options.contains("threads")) continue;
    return log::warn(
        "{}: has no option 'threads', so that its ranks take all cores of a host, also those of "
        "other jobs there; give it, or set OMP_NUM_THREADS",
        job.title());
  }
}

namespace {

void take_names(const ScheduleRunFlags& flags, std::vector<ScheduledHost>& hosts) {
  if (flags.hosts.size() != hosts.size()) {
    fail_option("--hosts {}: found {} names; allowed are {}, one for each host of the topology",
                fmt::join(flags.hosts, ","), flags.hosts.size(), hosts.size());
  }
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (std::ranges::count(flags.hosts, flags.hosts[h]) > 1) {
      fail_option("--hosts {}: has {} twice", fmt::join(flags.hosts, ","), flags.hosts[h]);
    }
    hosts[h].name = flags.hosts[h];
  }
}

}  // namespace

void name_hosts(const ScheduleRunFlags& flags, std::vector<ScheduledHost>& hosts) {
  if (!flags.hosts.empty()) take_names(flags, hosts);
  if (!flags.run) return;
  std::vector<std::string> names;
  for (const ScheduledHost& host : hosts) names.push_back(host.name);
  if (const std::string here = names_of_here(names); !here.empty()) {
    fail_option("--hosts {}: {} are this machine; describe it as one host with all its slots",
                fmt::join(names, ","), here);
  }
}

}  // namespace atl
