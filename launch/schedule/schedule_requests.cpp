#include "launch/schedule/schedule_requests.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "launch/schedule/schedule_story.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRequestEnding = ".json";

fs::path request_folder(const fs::path& out) { return schedule_state_folder(out) / "requests"; }

ScheduleRequest parse_request(const fs::path& file) {
  const Json json = read_json(file);
  ScheduleRequest request{.id = file.filename().string(), .jobs = {}, .cancelled = {}};
  if (json.contains("cancel")) {
    request.cancelled = json_field<std::string>(json, "cancel", file);
    return request;
  }
  for (const Json& job : json_field<Json::array_t>(json, "add", file)) {
    request.jobs.push_back(parse_listed_job(job, file));
  }
  return request;
}

}  // namespace

std::string leave_request(const fs::path& out, const ScheduleRequest& request) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string id =
      fmt::format("{:020}-{}{}", std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
                  random_token(), kRequestEnding);
  Json json = Json::object();
  if (!request.cancelled.empty()) json["cancel"] = request.cancelled;
  for (const ListedJob& job : request.jobs) json["add"].push_back(to_json(job));
  fs::create_directories(request_folder(out));
  write_json(request_folder(out) / id, json);
  return id;
}

std::vector<ScheduleRequest> waiting_requests(const fs::path& out) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(request_folder(out), none)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kRequestEnding) && !name.starts_with(".")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<ScheduleRequest> requests;
  for (const fs::path& file : files) {
    try {
      requests.push_back(parse_request(file));
    } catch (const Error& error) {
      log::warn("schedule: no request, moved out of the way: {}", error.what());
      fs::rename(file, file.string() + ".damaged", none);
    }
  }
  return requests;
}

bool is_waiting(const fs::path& out, const std::string& id) {
  return is_there(request_folder(out) / id);
}

void drop_request(const fs::path& out, const std::string& id) {
  std::error_code ignored;
  fs::remove(request_folder(out) / id, ignored);
}

fs::path list_lock_file(const fs::path& out) { return out / ".lock"; }

bool is_at_work(const fs::path& out) { return is_locked(list_lock_file(out)); }

}  // namespace atl
