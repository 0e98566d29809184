// `atoll jobs`: runs lists of trainings that may be interrupted at any moment, and compares their
// results.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/interrupt.hpp"
#include "base/shell_words.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/jobs/job_runner.hpp"
#include "launch/jobs/job_table.hpp"
#include "launch/train_check.hpp"
#include "launch/validators.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

constexpr int kJobFailed = 1;
constexpr int kTimeIsUp = 3;

struct ListArguments {
  std::string file;
  std::string out;
  std::vector<std::string> groups;
};

struct JobsRunArguments : ListArguments {
  std::string program;  // empty: this one
  std::size_t at_once = 1;
  std::optional<double> limit_minutes;
  bool replace = false;
  bool dry_run = false;
};

struct JobsTableArguments : ListArguments {
  std::string baseline = "exact";
  std::string json;
};

void require_datasets(std::span<const ListedJob> jobs) {
  for (const ListedJob& job : jobs) {
    std::error_code ignored;
    if (fs::is_directory(job.dataset, ignored)) continue;
    fail_option("group '{}': dataset {}: no such folder; make it with atoll import or generate",
                job.group, job.dataset);
  }
}

void require_launchers(std::span<const ListedJob> jobs) {
  for (const ListedJob& job : jobs) {
    if (job.launcher.empty() || !find_program(job.launcher.front()).empty()) continue;
    fail_option("group '{}': launcher: '{}' is no program", job.group, job.launcher.front());
  }
}

// The job without options that name results of others: they are not there before those have run.
ListedJob without_results(ListedJob job, const fs::path& out) {
  const std::string folder = (fs::absolute(out).lexically_normal() / "").string();
  std::erase_if(job.options, [&](const auto& option) {
    return option.second && option.second->find('/') != std::string::npos &&
           fs::absolute(*option.second).lexically_normal().string().starts_with(folder);
  });
  return job;
}

// Throws for what `atoll train` would refuse, before hours of other jobs.
void check_options_of(std::span<const ListedJob> jobs, const ListArguments& arguments) {
  std::set<std::vector<std::string>> known;
  for (const ListedJob& job : jobs) {
    std::vector<std::string> words = without_results(job, arguments.out).train_words();
    words.resize(words.size() - 2);  // all seeds are as good
    if (!known.insert(words).second) continue;
    const CheckedTraining checked(
        words, fmt::format("{}: group '{}', mode '{}'", arguments.file, job.group, job.mode));
  }
}

// Prints the commands of what is left.
void print_commands(std::span<const ListedJob> jobs, const fs::path& out,
                    const std::string& program) {
  DatasetChecksums checksums;
  for (const ListedJob& job : jobs) {
    const JobFolder folder(job, out);
    const bool starts_anew = folder.difference(checksums).has_value();
    if (!starts_anew && folder.result()) continue;
    std::vector<std::string> words = command_of(job, out, program);
    if (starts_anew) words.back() = "--overwrite";
    print("{}\n", shell_line(words));
  }
}

int report_of(const JobRunner& runner, std::size_t jobs, const fs::path& out) {
  fmt::print("{} of {} jobs are done, {} failed\n", runner.done(), jobs, runner.failures().size());
  for (const JobRunner::Failure& failure : runner.failures()) {
    print("  {}: {}\n    output: {}\n", failure.job->title(), failure.problem,
          failure.job->folder(out) / kJobLogName);
  }
  if (runner.signal() != 0) {
    fmt::print("stopped by {}; the same command goes on\n", signal_name(runner.signal()));
    return 128 + runner.signal();
  }
  if (!runner.failures().empty()) return kJobFailed;
  if (runner.done() == jobs) return 0;
  fmt::print("time is up; the same command goes on\n");
  return kTimeIsUp;
}

int run_jobs(const JobsRunArguments& arguments) {
  if (launched_by_mpi()) {
    fail_option("jobs run: starts trainings itself; run it without a launcher");
  }
  const fs::path out = arguments.out;
  const std::vector<ListedJob> jobs = read_job_list(arguments.file, arguments.groups);
  if (arguments.program.empty()) check_options_of(jobs, arguments);
  if (!arguments.replace) require_unchanged(jobs, out);
  const std::string named = arguments.program.empty() ? this_program() : arguments.program;
  if (arguments.dry_run) {
    print_commands(jobs, out, named);
    return 0;
  }
  const std::string program = find_program(named);
  if (program.empty()) {
    fail_option("--program {}: is no program; build it, or name another", named);
  }
  require_launchers(jobs);
  require_datasets(jobs);
  JobRunner runner(
      {out, program, arguments.at_once,
       arguments.limit_minutes ? std::optional(60 * *arguments.limit_minutes) : std::nullopt});
  if (runner.take_lock()) {
    // Once more: it may have waited for another list.
    if (!arguments.replace) require_unchanged(jobs, out);
    DatasetChecksums checksums;
    for (const ListedJob& job : jobs) {
      const JobFolder folder(job, out);
      if (folder.difference(checksums)) fs::remove_all(folder.path());
    }
    runner.run(jobs);
  }
  return report_of(runner, jobs.size(), out);
}

void print_table(const JobsTableArguments& arguments) {
  if (launcher_info().rank != 0) return;  // under mpirun one process is enough
  if (!arguments.json.empty()) check_result_file(arguments.json, "--json");
  const std::vector<ListedJob> jobs = read_job_list(arguments.file, arguments.groups);
  require_same_commands(jobs, arguments.out);
  if (!fs::is_directory(arguments.out)) fail_option("--out {}: no such folder", arguments.out);
  const std::vector<GroupResults> groups = compare_jobs(jobs, arguments.out, arguments.baseline);
  print_lines(to_markdown(groups));
  if (!arguments.json.empty()) write_json(arguments.json, to_json(groups));
}

void add_list_options(CLI::App& command, ListArguments& arguments) {
  command.add_option("file", arguments.file, "The list: TOML, or JSON if named .json")
      ->required()
      ->type_name("FILE");
  command.add_option("--out", arguments.out, "Folder of the results: GROUP/MODE/seed-N below it")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--group", arguments.groups,
                  "Only the groups of these names, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void add_jobs_run(CLI::App& jobs) {
  CLI::App* command = jobs.add_subcommand("run", "Run the jobs that are not done");
  command->footer(
      "Exit codes: 0 all jobs are done, 1 a job failed, 2 bad input, 3 the time limit came first,\n"
      "128 + number of the signal that ended the list. Whatever ended it, the same command goes "
      "on.\n"
      "Examples:\n"
      "  atoll jobs run list.toml --out runs/list\n"
      "  atoll jobs run list.toml --out runs/list --jobs 2 --limit-minutes 60");
  const auto arguments = std::make_shared<JobsRunArguments>();
  add_list_options(*command, *arguments);
  command
      ->add_option("--program", arguments->program,
                   "Program that trains; none: this one. Options of another are not checked before "
                   "jobs start")
      ->type_name("FILE");
  command->add_option("--jobs", arguments->at_once, "Jobs at once")->check(CLI::Range(1, 1024));
  command
      ->add_option("--limit-minutes", arguments->limit_minutes,
                   "Stop after so many minutes; the next run goes on")
      ->check(positive_number());
  command->add_flag("--replace", arguments->replace,
                    "Delete and run again what the list describes in another way now");
  command->add_flag("--dry-run", arguments->dry_run, "Print the commands, run nothing");
  command->callback([arguments] {
    const int code = run_jobs(*arguments);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

void add_jobs_table(CLI::App& jobs) {
  CLI::App* command = jobs.add_subcommand("table", "Compare the modes of the jobs that are done");
  command->footer(
      "Prints Markdown. Differences are paired by seed, with 95 % intervals (Student's t).\n"
      "Examples:\n"
      "  atoll jobs table list.toml --out runs/list\n"
      "  atoll jobs table list.toml --out runs/list --baseline gcn --json figures.json");
  const auto arguments = std::make_shared<JobsTableArguments>();
  add_list_options(*command, *arguments);
  command->add_option("--baseline", arguments->baseline, "The mode that others are compared with")
      ->type_name("MODE");
  command->add_option("--json", arguments->json, "Write the figures to this file, too")
      ->type_name("FILE");
  command->callback([arguments] { print_table(*arguments); });
}

}  // namespace

void add_jobs_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("jobs", "Run a list of trainings, and compare their results");
  command->require_subcommand(1);
  command->footer(
      "Each job has a run folder of its own. A list that was interrupted goes on where it was.\n"
      "Examples:\n"
      "  atoll jobs run list.toml --out runs/list\n"
      "  atoll jobs table list.toml --out runs/list");
  add_jobs_run(*command);
  add_jobs_table(*command);
}

}  // namespace atl
