#include "launch/schedule/job_launch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "engine/training/run_folder.hpp"
#include "launch/jobs/job_folder.hpp"
#include "launch/schedule/schedule_story.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHasDiverged = "the run has diverged";
const int kRefused = Error(ErrorKind::kOption, "").exit_code();

std::uintmax_t size_of(const fs::path& file) {
  std::error_code none;
  const std::uintmax_t size = fs::file_size(file, none);
  return none ? 0 : size;
}

// The lines of a file behind its first `skipped` bytes.
std::vector<std::string> lines_behind(const fs::path& file, std::uintmax_t skipped) {
  std::vector<std::string> lines;
  if (!is_there(file)) return lines;
  const std::string text = read_text(file);
  std::istringstream rest(text.substr(std::min<std::size_t>(skipped, text.size())));
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

std::vector<Json> events_behind(const fs::path& file, std::uintmax_t skipped) {
  std::vector<Json> events;
  for (const std::string& line : lines_behind(file, skipped)) {
    Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object()) events.push_back(std::move(event));
  }
  return events;
}

std::string text_field(const Json& event, const char* field) {
  const auto found = event.find(field);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool prepare_to_go_on(const ListedJob& job, const fs::path& out) {
  JobFolder folder(job, out);
  const bool goes_on = holds_run(folder.path());
  if (!goes_on) folder.prepare();
  return goes_on;
}

ChildProcess start_launch(const LaunchSetting& setting, const ListedJob& job, int number,
                          const JobHosts& hosts) {
  const bool goes_on = prepare_to_go_on(job, setting.out);
  const std::vector<std::string> words = launch_words(setting, job, number, hosts, goes_on);
  const Descriptor log = JobFolder(job, setting.out).open_log(words);
  return ChildProcess(words, ChildSetting{.output = log.get()});
}

}  // namespace

const char* in_words(LaunchEnd::How how) {
  switch (how) {
    case LaunchEnd::How::kDone:
      return "done";
    case LaunchEnd::How::kAsked:
      return "moved";
    case LaunchEnd::How::kHostLost:
      return "lost";
    case LaunchEnd::How::kKilled:
      return "killed";
    case LaunchEnd::How::kFailed:
      break;
  }
  return "failed";
}

std::vector<std::string> launch_words(const LaunchSetting& setting, const ListedJob& job,
                                      int number, const JobHosts& hosts, bool goes_on) {
  const auto ranks = static_cast<int>(hosts.names.size()) * hosts.ranks_per_host;
  std::vector<std::string> words = {
      setting.program, "launch", "--hosts", fmt::format("{}", fmt::join(hosts.names, ",")),
      "--ranks-per-host", std::to_string(hosts.ranks_per_host),
      // Where the job goes on with fewer ranks, the schedule decides.
      "--min-ranks", std::to_string(ranks), "--restarts", std::to_string(setting.restarts),
      "--events", job_events_file(setting.out, number).string()};
  for (const auto& [option, value] : {std::pair{"--rsh", &setting.rsh},
                                      {"--mpirun", &setting.mpirun},
                                      {"--address", &setting.address}}) {
    if (!value->empty()) words.insert(words.end(), {option, *value});
  }
  words.emplace_back("--");
  const std::vector<std::string> train = job.train_words();
  words.insert(words.end(), train.begin(), train.end());
  words.insert(words.end(), {"--run-dir", job.folder(setting.out).string()});
  if (goes_on) {
    // Ranks on other hosts may live on for a while after their launcher was killed.
    words.insert(words.end(), {"--resume", "--take-over"});
  } else {
    words.emplace_back("--overwrite");
  }
  return words;
}

JobLaunch::JobLaunch(const LaunchSetting& setting, ListedJob job, int number, const JobHosts& hosts)
    : job_(std::move(job)),
      folder_(job_.folder(setting.out)),
      out_(setting.out),
      events_(job_events_file(setting.out, number)),
      old_events_(size_of(events_)),
      old_log_(size_of(folder_ / kJobLogName)),
      child_(start_launch(setting, job_, number, hosts)) {}

void JobLaunch::ask_to_end() {
  const std::lock_guard lock(mutex_);
  if (is_asked_) return;  // a second signal would end the epoch, too
  is_asked_ = true;
  child_.signal(SIGTERM);
}

std::optional<LaunchEnd> JobLaunch::end() {
  const std::lock_guard lock(mutex_);
  const std::optional<int> code = child_.exit_code();
  if (!code) return std::nullopt;
  LaunchEnd end = read_end(*code);
  if (end.how != LaunchEnd::How::kDone) JobFolder(job_, out_).drop_summary();
  return end;
}

LaunchEnd JobLaunch::read_end(int exit_code) const {
  using How = LaunchEnd::How;
  if (exit_code == 0) {
    if (JobFolder(job_, out_).summary()) return {};
    return {How::kFailed, "it has ended without summary.json"};
  }
  if (exit_code > 128) {
    if (is_asked_) return {How::kAsked};
    return {How::kKilled, fmt::format("ended by signal {}", exit_code - 128)};
  }
  LaunchEnd end{How::kFailed};
  std::string given_up;
  bool has_started = true;
  for (const Json& event : events_behind(events_, old_events_)) {
    const std::string name = text_field(event, "event");
    if (name == "started") end.lost_hosts.clear();  // back since
    if (name == "lost") end.lost_hosts[text_field(event, "host")] = text_field(event, "text");
    if (name != "gave_up") continue;
    given_up = text_field(event, event.contains("why") ? "why" : "text");
    has_started = event.value("started", Json(true)) == true;
  }
  if (!given_up.empty() && !end.lost_hosts.empty()) end.how = How::kHostLost;
  if (!given_up.empty() && end.lost_hosts.empty() && !has_started) end.how = How::kKilled;
  std::string said;
  for (const std::string& line : lines_behind(folder_ / kJobLogName, old_log_)) {
    const bool says_why =
        line.find("error:") != std::string::npos || line.find(kHasDiverged) != std::string::npos;
    if (says_why) said = line;
  }
  end.why = given_up.empty() ? said : given_up;
  if (end.how == How::kFailed && !given_up.empty() && !said.empty()) {
    end.why = fmt::format("{} ({})", said, given_up);
  }
  if (end.why.empty()) end.why = JobFolder(job_, out_).last_line();
  if (exit_code == kRefused) end.how = How::kFailed;
  return end;
}

void LaunchesToAsk::add(const std::shared_ptr<JobLaunch>& launch) {
  const std::lock_guard lock(mutex_);
  std::erase_if(launches_, [](const auto& other) { return other.expired(); });
  launches_.push_back(launch);
}

void LaunchesToAsk::ask_to_end() {
  const std::lock_guard lock(mutex_);
  for (const auto& launch : launches_) {
    if (const auto at_work = launch.lock()) at_work->ask_to_end();
  }
}

bool is_launch_alive(const fs::path& out, int number) {
  return is_locked(job_events_file(out, number));
}

LaunchEnd end_of_former_launch(const ListedJob& job, const fs::path& out) {
  const JobFolder folder(job, out);
  const std::optional<Json> summary = folder.summary();
  if (!summary) return {LaunchEnd::How::kAsked};
  if (summary->value("diverged", Json(false)) != true) return {};
  return {LaunchEnd::How::kFailed, kHasDiverged};
}

}  // namespace atl
