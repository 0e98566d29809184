#include "launch/schedule/expected_ends.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "launch/schedule/schedule_story.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kEnds = "ends_s";

fs::path ends_file(const fs::path& out) { return schedule_state_folder(out) / "expected.json"; }

}  // namespace

void keep_expected_ends(const ScheduleSetting& setting, const std::string& policy,
                        const JobPolicyOptions& options, const fs::path& out) {
  Json ends = Json::array();
  try {
    const auto rule = make_job_policy(policy == "search" ? "marginal" : policy, options);
    const JobSchedule schedule = simulate_schedule(setting, *rule);
    for (std::size_t j = 0; j < setting.jobs.size(); ++j) {
      const double end_s = setting.jobs[j].arrival_s + schedule.completion_s[j];
      ends.push_back(std::isfinite(end_s) ? Json(end_s) : Json());
    }
  } catch (const Error&) {  // a job waits for a host that is lost
    ends.clear();
  }
  write_json(ends_file(out), {{kEnds, ends}});
}

std::vector<std::optional<double>> read_expected_ends(const fs::path& out, std::size_t jobs) {
  std::vector<std::optional<double>> result(jobs);
  if (!is_there(ends_file(out))) return result;
  Json ends;
  try {
    ends = json_field<Json>(read_json(ends_file(out)), kEnds, ends_file(out));
  } catch (const Error&) {  // damaged; the next decision writes it anew
    return result;
  }
  for (std::size_t j = 0; j < jobs && j < ends.size(); ++j) {
    if (ends[j].is_number()) result[j] = ends[j].get<double>();
  }
  return result;
}

}  // namespace atl
