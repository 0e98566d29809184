#include "launch/schedule/measured_run.hpp"

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_lines.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/jobs/job_list.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

std::optional<double> start_seconds_of(const fs::path& run) {
  const fs::path events = run / kEventsName, summary = run / kSummaryName;
  if (!is_there(events) || !is_there(summary)) return std::nullopt;
  const JsonLines story = read_json_lines(events);
  // With a failure, a cut or a second command there is more than one start in it.
  if (story.lines.size() != 2) return std::nullopt;
  const JsonLine& last = story.lines.back();
  if (json_field<std::string>(last.object, "event", last.place) != "done") return std::nullopt;
  const double all_s = json_field<double>(last.object, "seconds", last.place);
  const double trained_s = json_field<double>(read_json(summary), "wall_seconds", summary);
  // Otherwise they are of different runs.
  const bool belong_together = trained_s >= 0 && trained_s <= all_s && all_s <= kMostListSeconds;
  return belong_together ? std::optional(all_s - trained_s) : std::nullopt;
}

}  // namespace

MeasuredRun read_measured_run(const fs::path& run) {
  return {read_traced_run(run), start_seconds_of(run)};
}

}  // namespace atl
