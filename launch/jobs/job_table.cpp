#include "launch/jobs/job_table.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/median.hpp"
#include "launch/jobs/job_folder.hpp"

namespace atl {

namespace {

using Summaries = std::map<std::int64_t, Json>;  // by seed
using Tests = std::map<std::int64_t, double>;

std::optional<double> number_in(const Json& summary, const char* field) {
  const auto found = summary.find(field);
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::vector<double> numbers_in(const Summaries& summaries, const char* field) {
  std::vector<double> numbers;
  for (const auto& [seed, summary] : summaries) {
    if (const auto number = number_in(summary, field)) numbers.push_back(*number);
  }
  return numbers;
}

// The jobs of a mode, while a group is compared.
struct ModeJobs {
  std::string mode;
  int planned = 0;
  Summaries summaries = {};

  Tests tests() const {
    Tests tests;
    for (const auto& [seed, summary] : summaries) {
      if (const auto test = number_in(summary, "test")) tests[seed] = 100 * *test;
    }
    return tests;
  }
};

struct GroupJobs {
  GroupResults results;
  std::vector<ModeJobs> modes;
  // By dataset checksum: the first job's folder. Jobs of earlier versions have recorded none.
  std::map<std::string, std::filesystem::path> contents = {};
};

// Throws Error{kOption} if the job was trained on other content of the dataset than those before:
// their mean would be of neither.
void require_one_content(GroupJobs& group, const JobFolder& folder) {
  const std::string checksum = folder.dataset_checksum();
  if (checksum.empty()) return;
  group.contents.emplace(checksum, folder.path());
  if (group.contents.size() == 1) return;
  const auto& [one, one_folder] = *group.contents.begin();
  const auto& [other, other_folder] = *group.contents.rbegin();
  fail_option(
      "group '{}': {} has a run on the dataset {} with the checksum {}, and {} one with the "
      "checksum "
      "{}; allowed in a group is one content of its dataset: 'atoll jobs run --replace' runs again "
      "what was trained on another than that in the dataset's folder now",
      group.results.group, one_folder.string(), group.results.dataset, one, other_folder.string(),
      other);
}

std::vector<GroupJobs> read_groups(std::span<const ListedJob> jobs,
                                   const std::filesystem::path& out) {
  std::vector<GroupJobs> groups;
  for (const ListedJob& job : jobs) {
    auto group = std::ranges::find(groups, job.group, [](auto& g) { return g.results.group; });
    if (group == groups.end()) {
      groups.push_back({{.group = job.group, .dataset = job.dataset}, {}});
      group = groups.end() - 1;
    }
    auto mode = std::ranges::find(group->modes, job.mode, &ModeJobs::mode);
    if (mode == group->modes.end()) mode = group->modes.insert(mode, {job.mode});
    ++mode->planned;
    const JobFolder folder(job, out);
    std::optional<Json> summary = folder.result();
    if (!summary) {
      folder.warn_of_damage();
      continue;
    }
    require_one_content(*group, folder);
    const auto commit = summary->find("commit");
    const bool known = commit != summary->end() && commit->is_string();
    group->results.commits.insert(known ? commit->get<std::string>() : "unknown");
    mode->summaries[job.seed] = std::move(*summary);
  }
  return groups;
}

// baseline: null for the mode that others are compared with, and where there is none.
ModeResults results_of(const ModeJobs& jobs, const ModeJobs* baseline) {
  ModeResults results{.mode = jobs.mode,
                      .runs = static_cast<int>(jobs.summaries.size()),
                      .planned = jobs.planned,
                      .tests = jobs.tests()};
  std::vector<double> tests, differences;
  const Tests others = baseline == nullptr ? Tests() : baseline->tests();
  for (const auto& [seed, test] : results.tests) {
    tests.push_back(test);
    const auto other = others.find(seed);
    if (other != others.end()) differences.push_back(test - other->second);
  }
  results.test_mean = mean_of(tests);
  results.test_deviation = standard_deviation(tests);
  results.difference = mean_interval(differences);
  results.pairs = static_cast<int>(differences.size());
  results.mb_per_epoch = mean_of(numbers_in(jobs.summaries, "bytes_sent_per_epoch"));
  if (results.mb_per_epoch) *results.mb_per_epoch /= 1e6;
  const std::vector<double> times = numbers_in(jobs.summaries, "epoch_ms_median");
  if (!times.empty()) results.epoch_ms = median(times);
  return results;
}

std::string cell(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "–";
}

std::string span_cell(const ModeResults& results) {
  const MeanInterval& difference = results.difference;
  if (!difference.half_width) return "–";
  std::string text = fmt::format("{:+.3f} .. {:+.3f}", *difference.mean - *difference.half_width,
                                 *difference.mean + *difference.half_width);
  if (results.pairs < results.runs) text += fmt::format(" ({} pairs)", results.pairs);
  return text;
}

std::string markdown_row(const ModeResults& results) {
  const std::optional<double>& difference = results.difference.mean;
  const std::vector<std::string> cells = {
      results.mode,
      results.runs < results.planned ? fmt::format("{} of {}", results.runs, results.planned)
                                     : std::to_string(results.runs),
      cell(results.test_mean, 3),
      cell(results.test_deviation, 3),
      difference ? fmt::format("{:+.3f}", *difference) : "–",
      span_cell(results),
      cell(results.mb_per_epoch, 4),
      cell(results.epoch_ms, 2)};
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const ModeResults& results) {
  Json tests = Json::object();
  for (const auto& [seed, test] : results.tests) tests[std::to_string(seed)] = test;
  return {{"mode", results.mode},
          {"runs", results.runs},
          {"planned", results.planned},
          {"test_mean", or_null(results.test_mean)},
          {"test_sd", or_null(results.test_deviation)},
          {"difference", or_null(results.difference.mean)},
          {"half_width", or_null(results.difference.half_width)},
          {"pairs", results.pairs},
          {"mb_per_epoch", or_null(results.mb_per_epoch)},
          {"epoch_ms", or_null(results.epoch_ms)},
          {"tests", tests}};
}

}  // namespace

std::vector<GroupResults> compare_jobs(std::span<const ListedJob> jobs,
                                       const std::filesystem::path& out,
                                       const std::string& baseline) {
  std::vector<GroupResults> all;
  std::set<std::string> modes;
  for (GroupJobs& group : read_groups(jobs, out)) {
    const auto found = std::ranges::find(group.modes, baseline, &ModeJobs::mode);
    const ModeJobs* const other = found == group.modes.end() ? nullptr : &*found;
    group.results.baseline = baseline;
    for (const ModeJobs& mode : group.modes) {
      modes.insert(mode.mode);
      group.results.modes.push_back(results_of(mode, &mode == other ? nullptr : other));
    }
    all.push_back(std::move(group.results));
  }
  if (!modes.contains(baseline)) {
    fail_option("--baseline {}: no group has this mode; modes are {}", baseline,
                fmt::join(modes, ", "));
  }
  return all;
}

std::string to_markdown(const std::vector<GroupResults>& groups) {
  std::string text;
  for (const GroupResults& group : groups) {
    text += fmt::format(
        "### {} ({})\n\n"
        "| mode | runs | test % | sd | minus {} | 95 % interval | MB per epoch | ms per epoch |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        group.group, group.dataset, group.baseline);
    for (const ModeResults& mode : group.modes) text += markdown_row(mode);
    if (!group.commits.empty()) {
      text += fmt::format("\nCommit{} {}.\n", group.commits.size() > 1 ? "s" : "",
                          fmt::join(group.commits, ", "));
    }
    text += "\n";
  }
  return text;
}

Json to_json(const std::vector<GroupResults>& groups) {
  Json list = Json::array();
  for (const GroupResults& group : groups) {
    Json modes = Json::array();
    for (const ModeResults& mode : group.modes) modes.push_back(to_json(mode));
    list.push_back({{"group", group.group},
                    {"dataset", group.dataset},
                    {"baseline", group.baseline},
                    {"commits", group.commits},
                    {"modes", modes}});
  }
  return {{"groups", list}};
}

}  // namespace atl
