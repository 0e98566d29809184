#include "launch/report/schedule_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "launch/report/gantt_chart.hpp"
#include "launch/report/html_page.hpp"
#include "launch/report/report_table.hpp"
#include "launch/report/svg_chart.hpp"
#include "launch/report/svg_parts.hpp"
#include "launch/schedule/schedule_slots.hpp"
#include "launch/version.hpp"

namespace atl {
namespace {

// Wide bars in the one column that the page then has.
constexpr const char* kGanttStyle = ".charts { grid-template-columns: 1fr; max-width: 960px; }\n";

std::string time_text(double seconds) {
  return std::isfinite(seconds) ? format_number(std::round(10 * seconds) / 10) : "";
}

double last_end(const JobSchedule& schedule) {
  double end = 0;
  for (const JobSegment& segment : schedule.segments) end = std::max(end, segment.to_s);
  return end;
}

std::string tip_of(const ScheduleFile& file, const JobSegment& segment) {
  return fmt::format("{}: {} {} from {} s to {} s, epochs {} to {}",
                     file.jobs[static_cast<std::size_t>(segment.job)].name,
                     segment.placement.ranks(), segment.placement.ranks() == 1 ? "rank" : "ranks",
                     time_text(segment.from_s), time_text(segment.to_s),
                     format_number(std::round(segment.first_epoch)),
                     format_number(std::round(segment.last_epoch)));
}

std::string draw_slots(const ScheduleFile& file, const JobSchedule& schedule, const char* title,
                       double end) {
  GanttChart chart{.title = title, .x_label = "seconds", .rows = {}, .bars = {}, .end = end};
  std::vector<std::size_t> first_row;  // by host
  for (const ScheduledHost& host : file.hosts) {
    first_row.push_back(chart.rows.size());
    for (int slot = 0; slot < host.slots; ++slot) {
      chart.rows.push_back({host.name, fmt::format("slot {}", slot)});
    }
  }
  for (const SlotBar& bar : slot_bars(schedule, file.hosts)) {
    const JobSegment& segment = schedule.segments[bar.segment];
    chart.bars.push_back(
        {first_row[static_cast<std::size_t>(bar.host)] + static_cast<std::size_t>(bar.slot),
         segment.from_s, segment.to_s, segment.job, std::to_string(segment.job + 1),
         tip_of(file, segment)});
  }
  return draw_gantt(chart);
}

// Figures of each job in one schedule, as columns.
void add_columns(const ScheduleFile& file, const JobSchedule& schedule, const std::string& of,
                 std::vector<TableColumn>& columns) {
  TableColumn start{of + "start s", true, {}};
  TableColumn completion{of + "completion s", true, {}};
  TableColumn ranks{of + "ranks", true, {}};
  for (std::size_t j = 0; j < file.jobs.size(); ++j) {
    double first_s = INFINITY;
    std::string shapes;
    for (const JobSegment& segment : schedule.segments) {
      if (segment.job != static_cast<int>(j)) continue;
      first_s = std::min(first_s, segment.from_s);
      shapes += fmt::format("{}{}", shapes.empty() ? "" : ", ", segment.placement.ranks());
    }
    start.cells.push_back(time_text(first_s));
    completion.cells.push_back(time_text(schedule.completion_s[j]));
    ranks.cells.push_back(shapes);
  }
  for (TableColumn* column : {&ranks, &start, &completion}) columns.push_back(std::move(*column));
}

std::string draw_jobs(const ScheduleFile& file) {
  std::vector<TableRow> rows;
  std::vector<TableColumn> columns{{"arrival s", true, {}}, {"epochs", true, {}}};
  for (std::size_t j = 0; j < file.jobs.size(); ++j) {
    rows.push_back({fmt::format("{} {}", j + 1, file.jobs[j].name), "", static_cast<int>(j)});
    columns[0].cells.push_back(time_text(file.jobs[j].arrival_s));
    columns[1].cells.push_back(std::to_string(file.jobs[j].epochs));
  }
  add_columns(file, file.schedule, file.done ? "planned " : "", columns);
  if (file.done) add_columns(file, *file.done, "done ", columns);
  return draw_table("jobs", rows, columns);
}

std::string draw_means(const ScheduleFile& file) {
  std::vector<TableRow> rows{{"planned", "", 0}};
  TableColumn mean{"mean completion s", true, {time_text(file.schedule.mean_completion_s)}};
  TableColumn end{"last end s", true, {time_text(file.schedule.makespan_s)}};
  if (file.done) {
    rows.push_back({"done", "", 1});
    mean.cells.push_back(time_text(file.done->mean_completion_s));
    end.cells.push_back(time_text(file.done->makespan_s));
  }
  for (const auto& [name, value] :
       {std::pair("first-come", file.first_come_mean_s), std::pair("lower bound", file.bound_s)}) {
    rows.push_back({name, "", kPaletteColors - 1});
    mean.cells.push_back(time_text(value));
    end.cells.emplace_back();
  }
  return draw_table("means", rows, {mean, end});
}

}  // namespace

std::string make_schedule_report(const ScheduleFile& file, const std::string& name) {
  const double end = std::max(last_end(file.schedule), file.done ? last_end(*file.done) : 0);
  std::string charts = draw_slots(file, file.schedule, "Planned", end);
  if (file.done) charts += draw_slots(file, *file.done, "Done", end);
  return html_page(
      fmt::format("schedule {}", name), kGanttStyle,
      fmt::format("<h1>Schedule</h1>\n<p class=\"quiet\">{} jobs of {} on {} hosts of {}, policy "
                  "{}. Written by {}.</p>\n{}<h2>Who trains where</h2>\n<p class=\"quiet\">A bar "
                  "has the number of its job in the table.</p>\n<div class=\"charts\">\n{}</div>\n"
                  "<h2>Jobs</h2>\n{}",
                  file.jobs.size(), escape_html(file.list), file.hosts.size(),
                  escape_html(file.topology), escape_html(file.policy), escape_html(version_line()),
                  draw_means(file), charts, draw_jobs(file)));
}

}  // namespace atl
