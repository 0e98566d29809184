#include "launch/schedule/schedule_status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/duration.hpp"
#include "base/table_text.hpp"
#include "launch/schedule/expected_ends.hpp"
#include "launch/schedule/schedule_requests.hpp"
#include "launch/schedule/schedule_slots.hpp"
#include "launch/schedule/schedule_story.hpp"

namespace atl {

namespace {

// Until a job has done so many epochs where it is, its start counts for too much.
constexpr std::int64_t kTellingEpochs = 3;

// On the schedule's clock.
double time_now(const ScheduleStory& story, bool is_at_work) {
  if (!is_at_work) return story.now_s;  // the clock stands still
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return story.now_s + std::max(0.0, static_cast<double>(ms - story.clock_ms) / 1e3);
}

std::string state_in_words(const StoryJob& job, double now_s) {
  switch (job.phase) {
    case StoryJob::Phase::kWaiting:
      return job.arrival_s > now_s ? "to come" : "waiting";
    case StoryJob::Phase::kRunning:
      return job.asked_to_end || job.is_cancelled ? "ending" : "running";
    case StoryJob::Phase::kDone:
      return "done";
    case StoryJob::Phase::kFailed:
      return "failed";
    case StoryJob::Phase::kCancelled:
      break;
  }
  return "cancelled";
}

std::optional<double> expected_end(const StoryJob& job, std::int64_t epoch, double now_s,
                                   std::optional<double> simulated) {
  if (job.has_ended()) return job.ended_s;
  if (job.is_cancelled) return std::nullopt;
  if (job.phase == StoryJob::Phase::kRunning && !job.asked_to_end) {
    const RealSegment& segment = job.segments.back();
    const std::int64_t done = epoch - segment.first_epoch;
    if (done >= kTellingEpochs) {
      const double epoch_s = (now_s - segment.from_s) / static_cast<double>(done);
      return now_s + epoch_s * static_cast<double>(std::max<std::int64_t>(0, job.epochs - epoch));
    }
  }
  if (simulated && *simulated < now_s) return std::nullopt;  // it was wrong
  return simulated;
}

std::string ends_text(const JobStatus& job, double now_s) {
  if (!job.ends_s) return "-";
  if (*job.ends_s < now_s || job.state == "done") {
    return fmt::format("{} ago", format_duration(now_s - *job.ends_s));
  }
  return "in " + format_duration(*job.ends_s - now_s);
}

}  // namespace

ScheduleStatus schedule_status(const std::filesystem::path& out) {
  ScheduleStatus status;
  status.is_at_work = is_at_work(out);
  const ScheduleStory story = read_story(out);
  status.now_s = time_now(story, status.is_at_work);
  const auto expected = read_expected_ends(out, story.jobs.size());
  for (std::size_t j = 0; j < story.jobs.size(); ++j) {
    const StoryJob& job = story.jobs[j];
    JobStatus line{.title = job.job.title(),
                   .folder = job.job.folder("").string(),
                   .state = state_in_words(job, status.now_s),
                   .hosts = {},
                   .epoch = epochs_done(job.job.folder(out)),
                   .epochs = job.epochs,
                   .reason = job.reason};
    if (job.phase == StoryJob::Phase::kRunning) {
      const JobPlacement& placement = job.segments.back().placement;
      line.ranks = placement.ranks();
      line.hosts = host_names(placement, story.hosts);
    }
    line.ends_s = expected_end(job, line.epoch, status.now_s, expected[j]);
    status.jobs.push_back(std::move(line));
  }
  for (const ScheduledHost& host : story.hosts) {
    if (host.is_lost) status.lost_hosts.push_back(host.name);
  }
  status.requests = waiting_requests(out).size();
  return status;
}

std::string status_text(const ScheduleStatus& status) {
  std::vector<TableTextRow> rows = {{"job", "state", "ranks", "hosts", "epoch", "of", "ends"}};
  std::string reasons;
  for (const JobStatus& job : status.jobs) {
    rows.push_back({job.title, job.state, job.ranks == 0 ? "-" : std::to_string(job.ranks),
                    job.hosts.empty() ? "-" : fmt::format("{}", fmt::join(job.hosts, ",")),
                    std::to_string(job.epoch), std::to_string(job.epochs),
                    ends_text(job, status.now_s)});
    if (!job.reason.empty()) reasons += fmt::format("\n{}: {}", job.title, job.reason);
  }
  std::string text = table_text(rows) + reasons;
  if (!reasons.empty()) text += "\n";
  if (!status.lost_hosts.empty()) {
    text += fmt::format("\nlost hosts: {}\n", fmt::join(status.lost_hosts, ", "));
  }
  text += fmt::format("\n{} after its beginning; {}\n", format_duration(status.now_s),
                      status.is_at_work ? "at work" : "nobody runs it");
  if (status.requests > 0) {
    text += fmt::format("{} {} for whoever runs it\n", status.requests,
                        status.requests == 1 ? "request waits" : "requests wait");
  }
  return text;
}

Json to_json(const ScheduleStatus& status) {
  Json jobs = Json::array();
  for (const JobStatus& job : status.jobs) {
    Json json = {{"title", job.title},  {"folder", job.folder}, {"state", job.state},
                 {"ranks", job.ranks},  {"hosts", job.hosts},   {"epoch", job.epoch},
                 {"epochs", job.epochs}};
    json["ends_s"] = job.ends_s ? Json(*job.ends_s) : Json();
    if (!job.reason.empty()) json["reason"] = job.reason;
    jobs.push_back(std::move(json));
  }
  return {{"at_work", status.is_at_work},
          {"now_s", status.now_s},
          {"lost_hosts", status.lost_hosts},
          {"requests", status.requests},
          {"jobs", std::move(jobs)}};
}

}  // namespace atl
