// `atoll doctor`: prints what this machine has and what stands in the way of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.hpp"
#include "launch/command.hpp"
#include "launch/machine_report.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

const char* level_name(FindingLevel level) {
  switch (level) {
    case FindingLevel::kOk:
      return "ok";
    case FindingLevel::kNote:
      return "note";
    case FindingLevel::kProblem:
      return "problem";
  }
  return "";
}

void print_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"section", finding.section},
                    {"name", finding.name},
                    {"value", finding.value},
                    {"level", level_name(finding.level)},
                    {"advice", finding.advice}});
  }
  const Json document = {
      {"version", program_version()}, {"commit", program_commit()}, {"findings", list}};
  fmt::print("{}", json_text(document));
}

void print_text(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  fmt::print("{}\n", version_line());
  std::string section;
  for (const Finding& finding : findings) {
    if (finding.section != section) fmt::print("\n{}\n", finding.section);
    section = finding.section;
    const char* mark = finding.level == FindingLevel::kOk     ? " "
                       : finding.level == FindingLevel::kNote ? "-"
                                                              : "!";
    fmt::print("{} {:<{}}  {}\n", mark, finding.name, width, finding.value);
    if (!finding.advice.empty()) fmt::print("  {:<{}}  {}\n", "", width, finding.advice);
  }
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this machine has: MPI, threads, memory, devices");
  command->footer(
      "Exit code 1 if something that training needs is missing.\n"
      "Examples:\n"
      "  atoll doctor\n"
      "  atoll doctor --json > machine.json");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON instead of text");
  command->callback([json] {
    const std::vector<Finding> findings = examine_machine();
    if (*json) {
      print_json(findings);
    } else {
      print_text(findings);
    }
    const auto problems = std::count_if(
        findings.begin(), findings.end(),
        [](const Finding& finding) { return finding.level == FindingLevel::kProblem; });
    if (!*json) {
      fmt::print("\n{}\n", problems == 0 ? "Nothing stands in the way of training."
                                         : fmt::format("{} problems (marked !).", problems));
    }
    if (problems > 0) throw CLI::RuntimeError(1);
  });
}

}  // namespace atl
