#include "launch/schedule/schedule_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table_text.hpp"

namespace atl {

namespace {

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.1f}", seconds) : "-";
}

// By how many percent `value` is above `other`, or below it.
std::string difference_text(double value, double other, const char* format) {
  if (!(other > 0) || !std::isfinite(value)) return "-";
  return fmt::format(fmt::runtime(format), 100 * (value / other - 1));
}

// "4 % below first-come (178.9 s)"
std::string against(double value, double other, const char* name) {
  const double percent = other > 0 ? 100 * (value / other - 1) : 0;
  return fmt::format("{:.1f} % {} {} ({:.1f} s)", std::abs(percent),
                     percent < 0 ? "below" : "above", name, other);
}

std::vector<const JobSegment*> segments_of(const JobSchedule& schedule, int job) {
  std::vector<const JobSegment*> segments;
  for (const JobSegment& segment : schedule.segments) {
    if (segment.job == job) segments.push_back(&segment);
  }
  std::ranges::stable_sort(segments, {}, &JobSegment::from_s);
  return segments;
}

// "1 x 2, from 34.0 s 2 x 2"
std::string ranks_over_time(const std::vector<const JobSegment*>& segments) {
  std::string text;
  for (const JobSegment* segment : segments) {
    if (!text.empty()) text += fmt::format(", from {:.1f} s ", segment->from_s);
    text += shape_text(segment->placement);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string shape_text(const JobPlacement& placement) {
  return fmt::format("{} x {}", placement.hosts.size(), placement.ranks_per_host);
}

std::string jobs_table(const ScheduleFile& file) {
  std::vector<TableTextRow> rows{
      {"job", "arrival s", "start s", "end s", "completion s", "hosts x ranks on each"}};
  for (std::size_t j = 0; j < file.jobs.size(); ++j) {
    const auto segments = segments_of(file.schedule, static_cast<int>(j));
    rows.push_back({file.jobs[j].name, seconds_text(file.jobs[j].arrival_s),
                    segments.empty() ? "-" : seconds_text(segments.front()->from_s),
                    segments.empty() ? "-" : seconds_text(segments.back()->to_s),
                    seconds_text(file.schedule.completion_s[j]), ranks_over_time(segments)});
  }
  return table_text(rows);
}

std::string schedule_summary(const ScheduleFile& file) {
  const JobSchedule& schedule = file.schedule;
  return fmt::format("mean completion {:.1f} s: {}, {}; the last job ends after {:.1f} s\n",
                     schedule.mean_completion_s,
                     against(schedule.mean_completion_s, file.first_come_mean_s, "first-come"),
                     against(schedule.mean_completion_s, file.bound_s, "the lower bound"),
                     schedule.makespan_s);
}

std::string policies_table(const std::vector<ScheduleFile>& files) {
  std::vector<TableTextRow> rows{{"policy", "mean completion s", "against first-come",
                                  "above the bound", "last end s", "starts"}};
  for (const ScheduleFile& file : files) {
    const JobSchedule& schedule = file.schedule;
    rows.push_back(
        {file.policy, seconds_text(schedule.mean_completion_s),
         difference_text(schedule.mean_completion_s, file.first_come_mean_s, "{:+.1f} %"),
         difference_text(schedule.mean_completion_s, file.bound_s, "{:.1f} %"),
         seconds_text(schedule.makespan_s), std::to_string(schedule.segments.size())});
  }
  return table_text(rows);
}

}  // namespace atl
