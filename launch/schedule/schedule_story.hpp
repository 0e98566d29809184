// The jobs of a schedule that is run for real, and all that has happened to them: OUT/.schedule has
// a journal (docs/formats.md), from which whoever comes after a killed process goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/elapsed.hpp"
#include "base/json.hpp"
#include "engine/placement/job_schedule.hpp"
#include "launch/jobs/job_list.hpp"

namespace atl {

// Files of a schedule below its folder.
std::filesystem::path schedule_state_folder(const std::filesystem::path& out);
std::filesystem::path schedule_journal_file(const std::filesystem::path& out);
// Events of a job, as `atoll launch --events` writes them.
std::filesystem::path job_events_file(const std::filesystem::path& out, int job);

// A stretch of a job in one placement, as it was.
struct RealSegment {
  JobPlacement placement;
  double from_s = 0;
  std::optional<double> to_s = std::nullopt;  // none: it goes on, or its process was killed
  std::int64_t first_epoch = 0;               // epochs done before it
  std::int64_t last_epoch = 0;                // and after it
};

struct StoryJob {
  enum class Phase : std::uint8_t { kWaiting, kRunning, kDone, kFailed, kCancelled };

  ListedJob job;
  double arrival_s = 0;
  std::int64_t epochs = 0;  // or the most of them
  Phase phase = Phase::kWaiting;
  std::string reason = {};  // for a failure
  bool asked_to_end = false;
  bool is_cancelled = false;  // and still runs until its epoch is done
  int idle_starts = 0;        // in a row that have brought no epoch
  double ended_s = 0;         // once it is done, has failed or is cancelled
  std::vector<RealSegment> segments = {};

  bool has_ended() const {
    return phase == Phase::kDone || phase == Phase::kFailed || phase == Phase::kCancelled;
  }
};

struct ScheduleStory {
  double now_s = 0;           // of its last line, on the clock of the schedule
  std::int64_t clock_ms = 0;  // and since 1970
  std::vector<ScheduledHost> hosts;
  std::vector<StoryJob> jobs;
  // Those that were taken, and why not, in words; "": it was done.
  std::map<std::string, std::string> requests = {};
  bool has_finished = false;  // no job was left

  // Takes a line in. place: "file:line", for messages.
  void take(const Json& line, const std::string& place);
  // The job with this title or folder below the schedule's; -1: none.
  int job_named(const std::string& name) const;
};

Json to_json(const JobNeeds& needs);
// Throws Error{kInput} naming `place` and the field.
JobNeeds parse_job_needs(const Json& json, const std::filesystem::path& place);

Json to_json(const ListedJob& job);
// Throws Error{kInput} naming `place` and the field.
ListedJob parse_listed_job(const Json& json, const std::filesystem::path& place);

// Whether `out` has a journal at all.
bool has_schedule(const std::filesystem::path& out);
// Throws Error{kOption} if there is none, Error{kInput} naming file and line of what is damaged. A
// last line that a killed process has left half written doesn't count.
ScheduleStory read_story(const std::filesystem::path& out);

class ScheduleJournal {
 public:
  // Opens it, or makes it. Only under the schedule's lock. Throws as read_story does.
  explicit ScheduleJournal(const std::filesystem::path& out);

  const ScheduleStory& story() const { return story_; }
  // The schedule's clock. It stands still while nobody runs the schedule.
  double now_s() const;
  // Adds a line, and returns once it is on the disk.
  void tell(const char* event, const Json& fields = Json::object());

 private:
  std::filesystem::path file_;
  Descriptor fd_;
  ScheduleStory story_;
  double begin_s_ = 0;
  const SteadyTime opened_ = steady_now();
};

// All that was done up to the story's last line. A job that is not done has no completion:
// infinity.
JobSchedule done_schedule(const ScheduleStory& story);

// Epochs that the run in this folder has done, by its metrics.jsonl; 0: none, or no run.
std::int64_t epochs_done(const std::filesystem::path& run);

}  // namespace atl
