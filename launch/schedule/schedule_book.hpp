// The jobs of a schedule that is run for real: those of its list and those that users add, what
// policies must know of them, and the journal that says what has happened to them.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "launch/schedule/schedule_requests.hpp"
#include "launch/schedule/schedule_runner.hpp"
#include "launch/schedule/schedule_story.hpp"

namespace atl {

// Jobs of a list that must be planned before the schedule in `out` is run: all, or, where it goes
// on and its schedule.json has the plan, those that have neither been done nor cancelled. Datasets
// of the others may be gone. Throws Error{kInput} for a damaged journal.
std::vector<ListedJob> jobs_to_plan(std::span<const ListedJob> listed,
                                    const std::filesystem::path& out);

class ScheduleBook {
 public:
  // Opens the journal and takes in jobs of the list that it has not. Only under the schedule's
  // lock. Throws Error{kOption} if it is that of another schedule.
  explicit ScheduleBook(const ScheduleRunSetting& setting);

  const ScheduleStory& story() const { return journal_.story(); }
  double now_s() const { return journal_.now_s(); }
  int jobs() const { return static_cast<int>(story().jobs.size()); }
  const StoryJob& job(int number) const { return story().jobs[static_cast<std::size_t>(number)]; }
  std::string title(int number) const { return job(number).job.title(); }
  std::int64_t epochs_done(int number) const;
  double epochs_left(int number) const;
  bool has_finished() const;
  const KnownJobs& known() const { return known_; }

  // A line for whoever watches, unless it is empty, and one for the journal.
  void tell(const char* event, const std::string& text, Json fields = Json::object());
  // Lets the journal's clock go on.
  void note_time() { journal_.tell("clock"); }
  // how: see in_words(); or "cancelled".
  void tell_end(int number, const std::string& how, const std::string& why,
                const std::string& request = "");

  struct Wishes {
    bool has_jobs = false;       // others than before
    std::vector<int> to_end;     // cancelled, and at work
    std::vector<int> cancelled;  // the others
  };
  // Takes what users wish. is_at_work: by number.
  Wishes take_requests(const std::function<bool(int)>& is_at_work);

  // Writes OUT/schedule.json: the plan, and what was done up to now.
  void write_schedule() const;

 private:
  void begin();
  void require_same_hosts() const;
  void take_list();
  // The needs that a list has for a job; one that has begun is there, whenever it was to arrive.
  JobNeeds needs_now(int number, JobNeeds listed) const;
  // A line in the journal, unless they are those that it has.
  void take_needs(int number, const JobNeeds& needs);
  // The plan of schedule.json, as far as it is that of this schedule; otherwise today's.
  ScheduleFile kept_plan() const;
  ScheduleFile todays_plan() const;
  void check_fit(const KnownJobs& known, const std::vector<int>& numbers) const;
  void warn_of_misfits() const;
  // Returns why it can't be; empty: it is done.
  std::string add(const ScheduleRequest& request);
  void tell_jobs(const std::vector<ListedJob>& added, const std::vector<int>& again,
                 const std::string& request);
  // All jobs and those that are added. Nothing is asked about jobs that have ended, unless they are
  // tried `again`: their datasets may be gone. changed: needs of jobs by number, in place of those
  // in the journal.
  KnownJobs known_with(const std::vector<ListedJob>& added, const std::vector<int>& again = {},
                       const std::map<int, JobNeeds>& changed = {}) const;
  void cancel(const ScheduleRequest& request, const std::function<bool(int)>& is_at_work,
              Wishes& wishes);
  void refuse(const ScheduleRequest& request, const std::string& why);

  const ScheduleRunSetting& setting_;
  const std::filesystem::path out_;
  ScheduleJournal journal_;
  KnownJobs known_;
  ScheduleFile plan_;
};

}  // namespace atl
