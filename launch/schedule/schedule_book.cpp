#include "launch/schedule/schedule_book.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "engine/placement/schedule_run.hpp"
#include "launch/jobs/job_folder.hpp"
#include "launch/schedule/scheduled_training.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

bool are_alike(const ListedJob& a, const ListedJob& b) { return a.identity() == b.identity(); }

std::string hosts_text(const std::vector<ScheduledHost>& hosts) {
  std::vector<std::string> texts;
  for (const ScheduledHost& host : hosts) {
    texts.push_back(fmt::format("{} ({} slots)", host.name, host.slots));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string end_text(const std::string& how, const std::string& why, std::int64_t epoch,
                     std::int64_t epochs) {
  if (how == "done") return fmt::format("done after epoch {}", epoch);
  if (how == "failed") return "failed: " + why;
  const std::string after = fmt::format("after epoch {} of {}", epoch, epochs);
  if (how == "cancelled") return fmt::format("cancelled {}; 'schedule add' goes on there", after);
  if (how == "lost") return fmt::format("stopped {}: {}", after, why);
  if (how == "killed") return fmt::format("ended {}: {}", after, why);
  return fmt::format("ended {}, to go on elsewhere or later", after);
}

// Speeds of those jobs that can still train; the others have none.
class SpeedsOfSome final : public JobSpeeds {
 public:
  // numbers: by job, its number for `speeds`; -1: none.
  SpeedsOfSome(std::shared_ptr<JobSpeeds> speeds, std::vector<int> numbers)
      : speeds_(std::move(speeds)), numbers_(std::move(numbers)) {}
  double epoch_s(int job, const JobPlacement& placement) override {
    const int number = numbers_.at(static_cast<std::size_t>(job));
    return number < 0 ? kCantTrain : speeds_->epoch_s(number, placement);
  }
  std::vector<double> card_shares(int job, const JobPlacement& placement) override {
    const int number = numbers_.at(static_cast<std::size_t>(job));
    if (number < 0) return std::vector<double>(placement.hosts.size(), 0);
    return speeds_->card_shares(number, placement);
  }

 private:
  std::shared_ptr<JobSpeeds> speeds_;
  std::vector<int> numbers_;
};

fs::path schedule_file(const fs::path& out) { return out / "schedule.json"; }

}  // namespace

std::vector<ListedJob> jobs_to_plan(std::span<const ListedJob> listed, const fs::path& out) {
  std::vector<ListedJob> left(listed.begin(), listed.end());
  if (!has_schedule(out)) return left;
  try {
    read_schedule(schedule_file(out));
  } catch (const Error&) {
    return left;
  }
  const ScheduleStory story = read_story(out);
  std::erase_if(left, [&](const ListedJob& job) {
    const int known = story.job_named(job.folder("").string());
    if (known < 0) return false;
    const StoryJob::Phase phase = story.jobs[static_cast<std::size_t>(known)].phase;
    return phase == StoryJob::Phase::kDone || phase == StoryJob::Phase::kCancelled;
  });
  return left;
}

ScheduleBook::ScheduleBook(const ScheduleRunSetting& setting)
    : setting_(setting), out_(setting.launch.out), journal_(out_) {
  const bool is_new = story().jobs.empty();
  if (story().hosts.empty()) begin();
  require_same_hosts();
  take_list();
  known_ = known_with({});
  plan_ = is_new ? todays_plan() : kept_plan();
  if (is_new) write_json(schedule_file(out_), to_json(plan_));
  warn_of_misfits();
}

std::int64_t ScheduleBook::epochs_done(int number) const {
  return atl::epochs_done(job(number).job.folder(out_));
}

double ScheduleBook::epochs_left(int number) const {
  if (job(number).is_cancelled) return 1;  // that which it is in
  return static_cast<double>(std::max<std::int64_t>(1, job(number).epochs - epochs_done(number)));
}

bool ScheduleBook::has_finished() const {
  return std::ranges::all_of(story().jobs, &StoryJob::has_ended);
}

void ScheduleBook::tell(const char* event, const std::string& text, Json fields) {
  if (!text.empty()) {
    log::info("schedule: {}", text);
    fields["text"] = text;
  }
  journal_.tell(event, fields);
}

void ScheduleBook::tell_end(int number, const std::string& how, const std::string& why,
                            const std::string& request) {
  const std::int64_t epoch = epochs_done(number);
  Json fields = {{"job", number}, {"epoch", epoch}, {"how", how}, {"why", why}};
  if (!request.empty()) fields["request"] = request;
  tell("ended", fmt::format("{}: {}", title(number), end_text(how, why, epoch, job(number).epochs)),
       std::move(fields));
}

void ScheduleBook::begin() {
  Json hosts = Json::array();
  for (const ScheduledHost& host : setting_.plan.hosts) {
    hosts.push_back({{"name", host.name}, {"slots", host.slots}, {"kind", host.kind}});
  }
  tell("begun", "",
       {{"list", setting_.plan.list},
        {"topology", setting_.plan.topology},
        {"policy", setting_.plan.policy},
        {"hosts", std::move(hosts)}});
}

void ScheduleBook::require_same_hosts() const {
  const std::string found = hosts_text(setting_.plan.hosts);
  const std::string wanted = hosts_text(story().hosts);
  if (found == wanted) return;
  fail_option("--out {}: its schedule was begun on the hosts {}; found {}; use another --out",
              out_.string(), wanted, found);
}

// Jobs that have failed in a schedule that has come to its end are tried again.
void ScheduleBook::take_list() {
  std::vector<ListedJob> added;
  for (const ListedJob& listed : setting_.jobs) {
    const int known = story().job_named(listed.folder("").string());
    if (known < 0) {
      added.push_back(listed);
    } else if (!are_alike(job(known).job, listed)) {
      fail_option("{}: '{}' has other options than in {}; use another --out", setting_.plan.list,
                  listed.title(), schedule_journal_file(out_).string());
    } else if (!job(known).has_ended()) {
      take_needs(known, needs_now(known, listed.needs));
    }
  }
  std::vector<int> again;
  for (int j = 0; j < jobs() && story().has_finished; ++j) {
    if (job(j).phase == StoryJob::Phase::kFailed) again.push_back(j);
  }
  if (!added.empty() || !again.empty()) tell_jobs(added, again, "");
}

JobNeeds ScheduleBook::needs_now(int number, JobNeeds listed) const {
  if (!job(number).segments.empty()) listed.arrival_s = job(number).job.needs.arrival_s;
  return listed;
}

void ScheduleBook::take_needs(int number, const JobNeeds& needs) {
  if (to_json(needs) == to_json(job(number).job.needs)) return;
  Json fields = to_json(needs);
  fields["job"] = number;
  tell("needs", title(number) + ": arrival, ranks or priority are others now", std::move(fields));
}

ScheduleFile ScheduleBook::kept_plan() const {
  try {
    ScheduleFile plan = read_schedule(schedule_file(out_));
    bool is_ours = plan.folders.size() <= story().jobs.size() &&
                   hosts_text(plan.hosts) == hosts_text(story().hosts);
    for (std::size_t j = 0; is_ours && j < plan.folders.size(); ++j) {
      is_ours = plan.folders[j] == story().jobs[j].job.folder("").string();
    }
    if (is_ours) return plan;
  } catch (const Error& error) {
    log::warn("schedule: {}; it is made anew", error.what());
  }
  return todays_plan();
}

// Jobs of the list are those of the journal, perhaps in another order.
ScheduleFile ScheduleBook::todays_plan() const {
  const ScheduleFile& today = setting_.plan;
  ScheduleFile plan = today;
  plan.jobs = known_.jobs;
  plan.folders.clear();
  plan.schedule.completion_s.assign(plan.jobs.size(), kNever);
  for (const StoryJob& job : story().jobs) plan.folders.push_back(job.job.folder("").string());
  std::vector<int> numbers;
  for (std::size_t j = 0; j < today.folders.size(); ++j) {
    numbers.push_back(story().job_named(today.folders[j]));
    plan.schedule.completion_s.at(numbers[j]) = today.schedule.completion_s[j];
  }
  for (JobSegment& segment : plan.schedule.segments) segment.job = numbers.at(segment.job);
  return plan;
}

// They wait: with another cluster.json there may be room for them.
void ScheduleBook::warn_of_misfits() const {
  std::vector<int> open;
  for (int j = 0; j < jobs(); ++j) {
    if (!job(j).has_ended()) open.push_back(j);
  }
  try {
    check_fit(known_, open);
  } catch (const Error& error) {
    log::warn("schedule: {}; it waits until it is cancelled", error.what());
  }
}

// Throws Error{kOption} naming one of these jobs that can't train on the hosts.
void ScheduleBook::check_fit(const KnownJobs& known, const std::vector<int>& numbers) const {
  std::vector<JobState> states(known.jobs.size(), JobState{JobState::Phase::kEnded});
  for (const int j : numbers) {
    states[static_cast<std::size_t>(j)] = {JobState::Phase::kWaiting, 1};
  }
  check_jobs_fit(
      {.jobs = known.jobs, .hosts = story().hosts, .speeds = *known.speeds, .states = states});
}

void ScheduleBook::tell_jobs(const std::vector<ListedJob>& added, const std::vector<int>& again,
                             const std::string& request) {
  const KnownJobs known = known_with(added, again);
  const int before = jobs();
  Json list = Json::array();
  for (std::size_t j = 0; j < added.size(); ++j) {
    Json json = to_json(added[j]);
    json["epochs"] = known.jobs[static_cast<std::size_t>(before) + j].epochs;
    list.push_back(std::move(json));
  }
  Json fields = {{"jobs", std::move(list)}, {"again", again}};
  std::string text;
  if (!request.empty()) {
    fields["request"] = request;
    const std::size_t count = added.size() + again.size();
    text = fmt::format("{} {} more", count, count == 1 ? "job" : "jobs");
  }
  tell("jobs", text, std::move(fields));
  for (int j = before; j < jobs(); ++j) {  // as `atoll jobs` has left it
    if (JobFolder(job(j).job, out_).summary()) tell_end(j, "done", "");
  }
}

KnownJobs ScheduleBook::known_with(const std::vector<ListedJob>& added,
                                   const std::vector<int>& again,
                                   const std::map<int, JobNeeds>& changed) const {
  std::vector<ListedJob> open;
  std::vector<int> numbers;  // in `open`
  const auto take = [&](const ListedJob& listed) {
    numbers.push_back(static_cast<int>(open.size()));
    open.push_back(listed);
  };
  for (int j = 0; j < jobs(); ++j) {
    if (job(j).has_ended() && std::ranges::count(again, j) == 0) {
      numbers.push_back(-1);
      continue;
    }
    take(job(j).job);
    if (const auto needs = changed.find(j); needs != changed.end()) {
      open.back().needs = needs->second;
    }
  }
  for (const ListedJob& listed : added) take(listed);
  const KnownJobs known = setting_.know(open);
  int slots = 0;
  for (const ScheduledHost& host : story().hosts) slots += host.slots;
  KnownJobs all;
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    if (numbers[j] >= 0) {
      all.jobs.push_back(known.jobs[static_cast<std::size_t>(numbers[j])]);
    } else {
      all.jobs.push_back(schedulable_job(story().jobs[j].job, story().jobs[j].epochs, slots));
    }
  }
  all.speeds = std::make_shared<SpeedsOfSome>(known.speeds, std::move(numbers));
  return all;
}

ScheduleBook::Wishes ScheduleBook::take_requests(const std::function<bool(int)>& is_at_work) {
  Wishes wishes;
  for (const ScheduleRequest& request : waiting_requests(out_)) {
    const bool is_taken = story().requests.contains(request.id);  // and was killed behind that
    if (!is_taken && !request.cancelled.empty()) cancel(request, is_at_work, wishes);
    if (!is_taken && request.cancelled.empty()) {
      const std::string problem = add(request);
      if (!problem.empty()) refuse(request, problem);
      wishes.has_jobs = wishes.has_jobs || problem.empty();
    }
    drop_request(out_, request.id);
  }
  return wishes;
}

std::string ScheduleBook::add(const ScheduleRequest& request) {
  std::vector<ListedJob> added;
  std::vector<int> again;
  std::map<int, JobNeeds> needs;  // of these
  for (ListedJob listed : request.jobs) {
    const int known = story().job_named(listed.folder("").string());
    listed.needs.arrival_s += now_s();
    if (known < 0) {
      added.push_back(std::move(listed));
      continue;
    }
    if (!job(known).has_ended() || job(known).phase == StoryJob::Phase::kDone) {
      return listed.title() + ": is in the schedule already";
    }
    if (!are_alike(job(known).job, listed)) {
      return listed.title() + ": its folder has a job with other options";
    }
    again.push_back(known);
    needs[known] = needs_now(known, listed.needs);
  }
  try {
    require_unchanged(added, out_);
    KnownJobs known = known_with(added, again, needs);
    std::vector<int> looked_at = again;
    for (int j = jobs(); j < std::ssize(known.jobs); ++j) looked_at.push_back(j);
    check_fit(known, looked_at);
    for (const auto& [number, now] : needs) take_needs(number, now);
    tell_jobs(added, again, request.id);
    known_ = std::move(known);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void ScheduleBook::cancel(const ScheduleRequest& request,
                          const std::function<bool(int)>& is_at_work, Wishes& wishes) {
  const int number = story().job_named(request.cancelled);
  if (number < 0) return refuse(request, request.cancelled + ": is no job of the schedule");
  if (job(number).has_ended()) return refuse(request, title(number) + ": has ended already");
  if (is_at_work(number)) {
    tell("cancel", title(number) + ": is cancelled", {{"job", number}, {"request", request.id}});
    wishes.to_end.push_back(number);
  } else {
    tell_end(number, "cancelled", "", request.id);
    wishes.cancelled.push_back(number);
  }
}

void ScheduleBook::refuse(const ScheduleRequest& request, const std::string& why) {
  tell("refused", "refused: " + why, {{"request", request.id}, {"why", why}});
}

void ScheduleBook::write_schedule() const {
  ScheduleFile file = plan_;
  for (std::size_t j = file.jobs.size(); j < story().jobs.size(); ++j) {
    file.jobs.push_back(known_.jobs[j]);
    file.folders.push_back(story().jobs[j].job.folder("").string());
    file.schedule.completion_s.push_back(kNever);
  }
  file.done = done_schedule(story());
  write_json(schedule_file(out_), to_json(file));
}

}  // namespace atl
