// `atoll report`: compares runs on one HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/command.hpp"
#include "launch/report/report_page.hpp"
#include "launch/report/schedule_page.hpp"
#include "launch/report/sequence_matrix.hpp"

namespace atl {
namespace {

constexpr const char* kScheduleName = "schedule.json";

// The first of these folders that holds a schedule; "": none does.
std::string schedule_among(const std::vector<std::string>& folders) {
  const auto holds = [](const std::string& folder) {
    return is_there(std::filesystem::path(folder) / kScheduleName);
  };
  const auto found = std::ranges::find_if(folders, holds);
  return found == folders.end() ? "" : *found;
}

}  // namespace

void add_report_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string out = "report.html";
    bool sequence = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "Compare runs on one self-contained HTML page with plots");
  command->footer(
      "Examples:\n"
      "  atoll report runs/first\n"
      "  atoll report runs/* --out comparison.html\n"
      "  atoll report runs/week   (a schedule)\n"
      "  atoll report runs/2014 runs/2015 runs/2016 --sequence");
  command
      ->add_option("runs", options->runs,
                   "Run folders written by atoll train, or the folder of atoll schedule")
      ->required();
  command->add_option("--out", options->out, "HTML file to write");
  command->add_flag("--sequence", options->sequence,
                    "The runs, in this order, were made as their dataset grew (train --sequence): "
                    "what each of them makes of the nodes of each step, the average performance "
                    "and the forgetting");
  command->callback([options] {
    if (launcher_info().rank != 0) return;  // under mpirun one process is enough
    check_result_file(options->out, "--out");
    if (const std::string schedule = schedule_among(options->runs); !schedule.empty()) {
      if (options->runs.size() > 1 || options->sequence) {
        fail_option("report {}: a schedule has a page of its own; allowed is this folder alone",
                    schedule);
      }
      const ScheduleFile file = read_schedule(std::filesystem::path(schedule) / kScheduleName);
      write_atomically(options->out, make_schedule_report(file, schedule));
      print("{}: a schedule of {} jobs\n", options->out, file.jobs.size());
      return;
    }
    Activity activity("reading runs", static_cast<std::int64_t>(options->runs.size()));
    std::vector<RunRecord> runs;
    for (const std::string& folder : options->runs) {
      activity.advance_to(static_cast<std::int64_t>(runs.size()));
      runs.push_back(read_run(folder));
    }
    std::optional<SequenceMatrix> sequence;
    if (options->sequence) sequence = sequence_of(runs);
    write_atomically(options->out, make_report(runs, sequence));
    activity.end();
    if (sequence) fmt::print("{}", to_text(*sequence));
    fmt::print("{}: {} {} compared\n", options->out, runs.size(),
               runs.size() == 1 ? "run" : "runs");
  });
}

}  // namespace atl
