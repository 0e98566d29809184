#include "launch/schedule/schedule_story.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json_lines.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFolder = ".schedule";
// Longer than a line of metrics.jsonl.
constexpr std::streamoff kTailBytes = 1 << 20;

std::int64_t milliseconds_since_1970() {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

StoryJob& job_of(ScheduleStory& story, const Json& line, const std::string& place) {
  const auto number = json_field<std::int64_t>(line, "job", place);
  if (number < 0 || number >= std::ssize(story.jobs)) {
    fail_input("{}: field 'job' is {}; allowed are 0 to {}", place, number,
               std::ssize(story.jobs) - 1);
  }
  return story.jobs[static_cast<std::size_t>(number)];
}

JobPlacement placement_of(const Json& line, std::size_t hosts, const std::string& place) {
  const JobPlacement placement{json_field<std::vector<int>>(line, "hosts", place),
                               json_field<int>(line, "ranks_per_host", place)};
  const bool known = std::ranges::all_of(
      placement.hosts, [&](int host) { return host >= 0 && host < static_cast<int>(hosts); });
  if (hosts == 0) fail_input("{}: no line with the event 'begun' is before it", place);
  if (!known || placement.hosts.empty()) {
    fail_input("{}: field 'hosts' is {}; allowed are numbers from 0 to {}", place,
               atl::shown(line.at("hosts")), static_cast<int>(hosts) - 1);
  }
  if (placement.ranks_per_host < 1) {
    fail_input("{}: field 'ranks_per_host' is {}; allowed are numbers from 1", place,
               placement.ranks_per_host);
  }
  return placement;
}

void take_begin(ScheduleStory& story, const Json& line, const std::string& place) {
  story.hosts.clear();
  for (const Json& host : json_field<Json::array_t>(line, "hosts", place)) {
    story.hosts.push_back({.name = json_field<std::string>(host, "name", place),
                           .slots = json_field<int>(host, "slots", place),
                           .kind = json_field<int>(host, "kind", place)});
  }
}

void take_jobs(ScheduleStory& story, const Json& line, const std::string& place) {
  for (const Json& json : json_field<Json::array_t>(line, "jobs", place)) {
    story.jobs.push_back({.job = parse_listed_job(json, place),
                          .arrival_s = json_field<double>(json, "arrival_s", place),
                          .epochs = json_field<std::int64_t>(json, "epochs", place)});
  }
  for (const Json& number : json_field_or<Json::array_t>(line, "again", place, {})) {
    StoryJob& job = job_of(story, {{"job", number}}, place);
    job.phase = StoryJob::Phase::kWaiting;
    job.reason.clear();
    job.idle_starts = 0;
  }
}

// Needs of a job as its list has them now.
void take_needs(ScheduleStory& story, const Json& line, const std::string& place) {
  StoryJob& job = job_of(story, line, place);
  job.job.needs = parse_job_needs(line, place);
  job.arrival_s = job.job.needs.arrival_s;
}

void take_start(ScheduleStory& story, const Json& line, const std::string& place) {
  StoryJob& job = job_of(story, line, place);
  const auto epoch = json_field<std::int64_t>(line, "epoch", place);
  job.phase = StoryJob::Phase::kRunning;
  job.asked_to_end = false;
  job.segments.push_back({.placement = placement_of(line, story.hosts.size(), place),
                          .from_s = story.now_s,
                          .first_epoch = epoch,
                          .last_epoch = epoch});
}

void take_end(ScheduleStory& story, const Json& line, const std::string& place) {
  StoryJob& job = job_of(story, line, place);
  const auto how = json_field<std::string>(line, "how", place);
  if (!job.segments.empty() && !job.segments.back().to_s) {
    RealSegment& segment = job.segments.back();
    segment.to_s = story.now_s;
    segment.last_epoch = json_field<std::int64_t>(line, "epoch", place);
    // Whoever is asked to end early is not to blame.
    const bool idle = segment.last_epoch == segment.first_epoch && how == "killed";
    job.idle_starts = idle ? job.idle_starts + 1 : 0;
  }
  job.phase = how == "done"        ? StoryJob::Phase::kDone
              : how == "failed"    ? StoryJob::Phase::kFailed
              : how == "cancelled" ? StoryJob::Phase::kCancelled
                                   : StoryJob::Phase::kWaiting;
  if (how == "failed") job.reason = json_field<std::string>(line, "why", place);
  job.asked_to_end = job.is_cancelled = false;
  if (job.has_ended()) job.ended_s = story.now_s;
}

void take_host(ScheduleStory& story, const Json& line, bool is_lost, const std::string& place) {
  const auto number = json_field<std::int64_t>(line, "host", place);
  if (number < 0 || number >= std::ssize(story.hosts)) {
    fail_input("{}: field 'host' is {}; allowed are 0 to {}", place, number,
               std::ssize(story.hosts) - 1);
  }
  story.hosts[static_cast<std::size_t>(number)].is_lost = is_lost;
}

}  // namespace

fs::path schedule_state_folder(const fs::path& out) { return out / kStateFolder; }
fs::path schedule_journal_file(const fs::path& out) {
  return schedule_state_folder(out) / "journal.jsonl";
}
fs::path job_events_file(const fs::path& out, int job) {
  return schedule_state_folder(out) / fmt::format("job-{}.jsonl", job);
}

void ScheduleStory::take(const Json& line, const std::string& place) {
  now_s = json_field<double>(line, "at_s", place);
  clock_ms = json_field<std::int64_t>(line, "clock_ms", place);
  const auto event = json_field<std::string>(line, "event", place);
  has_finished = event == "finished";
  const auto request = json_field_or<std::string>(line, "request", place, "");
  const bool is_refused = event == "refused";
  if (!request.empty()) {
    requests[request] = is_refused ? json_field<std::string>(line, "why", place) : "";
  }
  if (event == "begun") take_begin(*this, line, place);
  if (event == "jobs") take_jobs(*this, line, place);
  if (event == "needs") take_needs(*this, line, place);
  if (event == "started") take_start(*this, line, place);
  if (event == "ended") take_end(*this, line, place);
  if (event == "asked") job_of(*this, line, place).asked_to_end = true;
  if (event == "cancel") job_of(*this, line, place).is_cancelled = true;
  if (event == "lost") take_host(*this, line, true, place);
  if (event == "back") take_host(*this, line, false, place);
}

int ScheduleStory::job_named(const std::string& name) const {
  fs::path folder = fs::path(name).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "group/mode/seed-1/"
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const ListedJob& job = jobs[j].job;
    if (job.title() == name || job.folder("").lexically_normal() == folder) {
      return static_cast<int>(j);
    }
  }
  return -1;
}

Json to_json(const JobNeeds& needs) {
  Json json = {{"arrival_s", needs.arrival_s},
               {"least_ranks", needs.least_ranks},
               {"priority", needs.priority}};
  if (needs.most_ranks) json["most_ranks"] = *needs.most_ranks;
  return json;
}

JobNeeds parse_job_needs(const Json& json, const fs::path& place) {
  JobNeeds needs{.arrival_s = json_field<double>(json, "arrival_s", place),
                 .least_ranks = json_field<int>(json, "least_ranks", place),
                 .most_ranks = std::nullopt,
                 .priority = json_field<double>(json, "priority", place)};
  if (json.contains("most_ranks")) needs.most_ranks = json_field<int>(json, "most_ranks", place);
  return needs;
}

Json to_json(const ListedJob& job) {
  Json options = Json::object();
  for (const auto& [option, value] : job.options)
    options[option] = value ? Json(*value) : Json(true);
  Json json = {{"group", job.group},       {"mode", job.mode},       {"seed", job.seed},
               {"launcher", job.launcher}, {"dataset", job.dataset}, {"options", options}};
  json.update(to_json(job.needs));
  return json;
}

ListedJob parse_listed_job(const Json& json, const fs::path& place) {
  ListedJob job{.group = json_field<std::string>(json, "group", place),
                .mode = json_field<std::string>(json, "mode", place),
                .seed = json_field<std::int64_t>(json, "seed", place),
                .launcher = json_field<std::vector<std::string>>(json, "launcher", place),
                .dataset = json_field<std::string>(json, "dataset", place),
                .options = {},
                .needs = parse_job_needs(json, place)};
  const auto options = json_field<Json>(json, "options", place);
  for (const auto& [option, value] : options.items()) {
    job.options[option] =
        value == true ? std::nullopt
                      : std::optional(json_field<std::string>(options, option.c_str(), place));
  }
  return job;
}

bool has_schedule(const fs::path& out) { return is_there(schedule_journal_file(out)); }

ScheduleStory read_story(const fs::path& out) {
  if (!has_schedule(out)) {
    fail_option("{}: no schedule was run there: it has no {}", out.string(),
                schedule_journal_file("").string());
  }
  ScheduleStory story;
  for (const JsonLine& line : read_json_lines(schedule_journal_file(out)).lines) {
    story.take(line.object, line.place);
  }
  return story;
}

ScheduleJournal::ScheduleJournal(const fs::path& out) : file_(schedule_journal_file(out)) {
  fs::create_directories(file_.parent_path());
  fd_ = Descriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_) fail_option("{}: can't be written: {}", file_.string(), std::strerror(errno));
  // The next line would be glued to one that a killed process has left half written.
  const std::string text = read_text(file_);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size() && ::ftruncate(fd_.get(), static_cast<off_t>(whole)) != 0) {
    fail_option("{}: can't be written: {}", file_.string(), std::strerror(errno));
  }
  if (whole > 0) story_ = read_story(out);
  begin_s_ = story_.now_s;
}

double ScheduleJournal::now_s() const { return begin_s_ + seconds_since(opened_); }

void ScheduleJournal::tell(const char* event, const Json& fields) {
  Json line = {{"clock_ms", milliseconds_since_1970()},
               {"at_s", std::round(now_s() * 1e3) / 1e3},
               {"event", event}};
  line.update(fields);
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const off_t before = ::lseek(fd_.get(), 0, SEEK_END);
  const ssize_t written = ::write(fd_.get(), text.data(), text.size());
  const bool is_whole = written == static_cast<ssize_t>(text.size());
  if (!is_whole || ::fsync(fd_.get()) != 0) {
    const int error = written < 0 || is_whole ? errno : ENOSPC;
    // A full disk takes the beginning of a line, to which the next one would be glued.
    [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), before);
    fail_input("{}: can't be written: {}", file_.string(), std::strerror(error));
  }
  story_.take(line, file_.string());
}

JobSchedule done_schedule(const ScheduleStory& story) {
  JobSchedule schedule;
  double weights = 0;
  for (std::size_t j = 0; j < story.jobs.size(); ++j) {
    const StoryJob& job = story.jobs[j];
    for (const RealSegment& segment : job.segments) {
      schedule.segments.push_back(
          {.job = static_cast<int>(j),
           .placement = segment.placement,
           .from_s = segment.from_s,
           .to_s = segment.to_s.value_or(story.now_s),
           .first_epoch = static_cast<double>(segment.first_epoch),
           .last_epoch = static_cast<double>(std::max(segment.first_epoch, segment.last_epoch))});
      schedule.makespan_s = std::max(schedule.makespan_s, schedule.segments.back().to_s);
    }
    const bool is_done = job.phase == StoryJob::Phase::kDone;
    // `atoll jobs` may have done it before it was to arrive.
    schedule.completion_s.push_back(is_done ? std::max(0.0, job.ended_s - job.arrival_s) : kNever);
    schedule.mean_completion_s += job.job.needs.priority * schedule.completion_s.back();
    weights += job.job.needs.priority;
  }
  if (weights > 0) schedule.mean_completion_s /= weights;
  std::ranges::stable_sort(schedule.segments, {}, &JobSegment::from_s);
  return schedule;
}

std::int64_t epochs_done(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  const std::streamoff tail = std::min(size, kTailBytes);
  file.seekg(size - tail);
  std::string text(static_cast<std::size_t>(tail), '\0');
  file.read(text.data(), tail);
  // A line is there once its end is.
  while (true) {
    const std::size_t end = text.rfind('\n');
    if (end == std::string::npos) return 0;
    text.resize(end);
    const std::size_t before = text.rfind('\n');
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(),
                                  nullptr, /*allow_exceptions=*/false);
    if (line.is_object() && line.contains("epoch") && line.at("epoch").is_number_integer()) {
      return line.at("epoch").get<std::int64_t>();
    }
  }
}

}  // namespace atl
