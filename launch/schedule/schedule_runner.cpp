#include "launch/schedule/schedule_runner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/elapsed.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/placement/schedule_progress.hpp"
#include "launch/jobs/job_folder.hpp"
#include "launch/schedule/expected_ends.hpp"
#include "launch/schedule/host_watch.hpp"
#include "launch/schedule/schedule_book.hpp"
#include "launch/schedule/schedule_requests.hpp"
#include "launch/schedule/schedule_slots.hpp"
#include "launch/schedule/schedule_story.hpp"
#include "launch/supervisor/host_question.hpp"
#include "launch/supervisor/supervisor_port.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLook{50};
constexpr double kBetweenRequests = 0.3;
// The time that the clock of arrivals may lose when the scheduler is killed.
constexpr double kBetweenClocks = 10;
// A process that has just been killed holds its lock until the kernel is done with it.
constexpr double kLockWait = 3;
// In a row, without an epoch between them.
constexpr int kMostIdleStarts = 3;
// Within this a host answers, as in `atoll launch`.
constexpr double kHostAnswers = 5;
// After this it is said which hosts all jobs wait for; then after twice as long, and so on.
constexpr double kFirstWaitForHosts = 10;

Descriptor lock_folder(const fs::path& out) {
  fs::create_directories(schedule_state_folder(out));
  const fs::path file = list_lock_file(out);
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock) fail_option("--out {}: can't be written: {}", out.string(), std::strerror(errno));
  const SteadyTime begin = steady_now();
  while (try_lock(lock.get()) == LockResult::kHeld) {
    if (seconds_since(begin) > kLockWait) {
      fail_option(
          "--out {}: another schedule or list of jobs is at work there; wait for its end or end it",
          out.string());
    }
    std::this_thread::sleep_for(kLook);
  }
  return lock;
}

class ScheduleRunner {
 public:
  explicit ScheduleRunner(const ScheduleRunSetting& setting)
      : setting_(setting),
        out_(setting.launch.out),
        lock_(lock_folder(out_)),
        book_(setting),
        policy_(make_job_policy(setting.plan.policy, setting.policy)),
        stop_request_([launches = launches_to_ask_](int signal) {
          launches->ask_to_end();
          log::info("{}: all jobs end after their epochs; again to stop now", signal_name(signal));
        }) {}

  int run() {
    adopt();
    try {
      ask_hosts();
      work();
    } catch (...) {
      end_unnoted();
      throw;
    }
    end_all();
    const bool has_finished = book_.has_finished();
    const std::string signal = signal_name(stop_request_.signal());
    book_.tell(has_finished ? "finished" : "stopped",
               has_finished ? "" : signal + ": ended; the same command goes on");
    book_.write_schedule();
    if (!has_finished) return 128 + stop_request_.signal();
    const bool failed = std::ranges::any_of(book_.story().jobs, [](const StoryJob& job) {
      return job.phase == StoryJob::Phase::kFailed;
    });
    return failed ? 1 : 0;
  }

 private:
  // Takes over the launches that a killed scheduler has left behind.
  void adopt() {
    for (int j = 0; j < book_.jobs(); ++j) {
      if (book_.job(j).phase != StoryJob::Phase::kRunning) continue;
      at_work_[j] = nullptr;
      if (!is_launch_alive(out_, j)) continue;
      log::info("schedule: {}: waiting for the end of the epoch that it is in", book_.title(j));
    }
    look_anew();
  }

  void work() {
    SteadyTime last_requests;  // long ago
    while (stop_request_.signal() == 0) {
      if (seconds_since(last_requests) > kBetweenRequests) {
        take_requests();
        last_requests = steady_now();
      }
      collect_ends();
      note_arrivals();
      look_for_hosts();
      if (at_work_.empty() && book_.has_finished() && waiting_requests(out_).empty()) return;
      if (is_news_) ask_policy();
      move_jobs();
      tell_wait();
      if (book_.now_s() - book_.story().now_s > kBetweenClocks) book_.note_time();
      std::this_thread::sleep_for(kLook);
    }
  }

  void end_all() {
    for (const auto& [number, launch] : at_work_) ask_to_end(number);
    while (!at_work_.empty()) {
      collect_ends();
      std::this_thread::sleep_for(kLook);
    }
  }

  // As if this scheduler had been killed: the journal may be what can't be written.
  void end_unnoted() {
    std::erase_if(at_work_, [](const auto& job) { return job.second == nullptr; });
    for (const auto& [number, launch] : at_work_) launch->ask_to_end();
    while (!at_work_.empty()) {
      std::erase_if(at_work_, [](const auto& job) { return job.second->end().has_value(); });
      std::this_thread::sleep_for(kLook);
    }
  }

  // Progress from what the journal says; the targets are forgotten.
  void look_anew() {
    std::vector<JobState> states;
    for (int j = 0; j < book_.jobs(); ++j) states.push_back(state_of(j));
    progress_.emplace(book_.known().jobs, book_.story().hosts, states);
    is_news_ = true;
  }

  JobState state_of(int number) const {
    using Phase = JobState::Phase;
    const StoryJob& job = book_.job(number);
    if (job.has_ended()) return {Phase::kEnded, 0};
    JobState state{Phase::kWaiting, book_.epochs_left(number)};
    if (job.arrival_s > book_.now_s()) state.phase = Phase::kNotArrived;
    if (job.phase != StoryJob::Phase::kRunning) return state;
    const JobPlacement& placement = job.segments.back().placement;
    const bool is_lost = std::ranges::any_of(placement.hosts, [&](int host) {
      return book_.story().hosts[static_cast<std::size_t>(host)].is_lost;
    });
    if (is_lost) return state;  // its launcher finds out
    state.phase = Phase::kRunning;
    state.placement = placement;
    return state;
  }

  void note_arrivals() {
    for (int j = 0; j < book_.jobs(); ++j) {
      if (progress_->state(j).phase != JobState::Phase::kNotArrived) continue;
      if (book_.job(j).arrival_s > book_.now_s()) continue;
      progress_->arrive(j);
      is_news_ = true;
    }
  }

  void take_requests() {
    const ScheduleBook::Wishes wishes =
        book_.take_requests([&](int number) { return at_work_.contains(number); });
    for (const int number : wishes.to_end) ask_to_end(number);
    for (const int number : wishes.cancelled) progress_->end(number);
    is_news_ = is_news_ || !wishes.cancelled.empty();
    if (wishes.has_jobs) look_anew();
  }

  void ask_policy() {
    is_news_ = false;
    for (int j = 0; j < book_.jobs(); ++j) {
      if (progress_->state(j).phase == JobState::Phase::kEnded) continue;
      progress_->note(j, book_.epochs_left(j), start_left_s(j));
    }
    const KnownJobs& known = book_.known();
    const double now_s = book_.now_s();
    progress_->follow(policy_->decide(progress_->moment(known.jobs, now_s), *known.speeds));
    keep_expected_ends({.jobs = known.jobs,
                        .hosts = progress_->hosts(),
                        .speeds = *known.speeds,
                        .states = progress_->states(),
                        .now_s = now_s},
                       setting_.plan.policy, setting_.policy, out_);
  }

  double start_left_s(int number) const {
    if (!progress_->state(number).placement) return 0;
    const RealSegment& segment = book_.job(number).segments.back();
    if (book_.epochs_done(number) > segment.first_epoch) return 0;
    return std::max(0.0, book_.known().jobs[number].start_s - (book_.now_s() - segment.from_s));
  }

  void move_jobs() {
    for (const int number : progress_->running()) {
      if (progress_->must_stop(number)) ask_to_end(number);
    }
    for (const int number : progress_->can_start()) {
      if (!at_work_.contains(number)) start(number);
    }
  }

  void ask_to_end(int number) {
    const std::shared_ptr<JobLaunch>& launch = at_work_.at(number);
    // The kernel has asked those of a scheduler that was killed.
    if (launch == nullptr || book_.job(number).asked_to_end) return;
    book_.tell("asked", book_.title(number) + ": ends after its epoch", {{"job", number}});
    launch->ask_to_end();
  }

  void start(int number) {
    progress_->start(number);
    const JobPlacement& placement = *progress_->state(number).placement;
    const JobHosts hosts{host_names(placement, book_.story().hosts), placement.ranks_per_host};
    const std::int64_t epoch = book_.epochs_done(number);
    // First the journal: a launch that it doesn't know would be forgotten.
    book_.tell("started",
               fmt::format("{}: {} {} on {}, epoch {} of {}", book_.title(number),
                           placement.ranks(), placement.ranks() == 1 ? "rank" : "ranks",
                           fmt::join(hosts.names, ", "), epoch + 1, book_.job(number).epochs),
               {{"job", number},
                {"hosts", placement.hosts},
                {"ranks_per_host", placement.ranks_per_host},
                {"epoch", epoch}});
    try {
      at_work_[number] =
          std::make_shared<JobLaunch>(setting_.launch, book_.job(number).job, number, hosts);
      launches_to_ask_->add(at_work_[number]);
    } catch (const Error& error) {
      at_work_.erase(number);
      note_end(number, {LaunchEnd::How::kFailed, error.what()});
    }
  }

  void collect_ends() {
    std::vector<std::pair<int, LaunchEnd>> ends;
    for (const auto& [number, launch] : at_work_) {
      if (launch != nullptr) {
        if (auto end = launch->end()) ends.emplace_back(number, *std::move(end));
      } else if (!is_launch_alive(out_, number)) {
        ends.emplace_back(number, end_of_former_launch(book_.job(number).job, out_));
      }
    }
    for (auto& [number, end] : ends) {
      at_work_.erase(number);
      note_end(number, std::move(end));
    }
  }

  void note_end(int number, LaunchEnd end) {
    using How = LaunchEnd::How;
    const StoryJob& job = book_.job(number);
    const bool is_idle = book_.epochs_done(number) == job.segments.back().first_epoch;
    if (end.how == How::kKilled && is_idle && job.idle_starts + 1 >= kMostIdleStarts) {
      end.how = How::kFailed;
    }
    const bool can_go_on = end.how != How::kDone && end.how != How::kFailed;
    const bool is_cancelled = can_go_on && job.is_cancelled;
    book_.tell_end(number, is_cancelled ? "cancelled" : in_words(end.how), end.why);
    if (book_.job(number).has_ended()) {
      progress_->end(number);
    } else if (progress_->state(number).placement) {
      progress_->stop(number);
    }
    for (const auto& [name, text] : end.lost_hosts) lose(name, text);
    is_news_ = true;
    try {
      book_.write_schedule();
    } catch (const Error& error) {  // the journal has all of it
      log::warn("schedule: {}", error.what());
    }
  }

  int host_named(const std::string& name) const {
    const auto& hosts = book_.story().hosts;
    const auto host = std::ranges::find(hosts, name, &ScheduledHost::name);
    return host == hosts.end() ? -1 : static_cast<int>(host - hosts.begin());
  }

  // Before the first start, so that what can't be reached is said at once and no job waits for it.
  void ask_hosts() {
    std::vector<std::string> all;
    std::vector<std::string> silent;
    for (const ScheduledHost& host : progress_->hosts()) {
      all.push_back(host.name);
      if (!is_here(host.name)) silent.push_back(host.name);
    }
    const SteadyTime begin = steady_now();
    while (!silent.empty() && stop_request_.signal() == 0 && seconds_since(begin) < kHostAnswers) {
      for (const std::string& name : watch().look_for(silent)) {
        find_back(name);
        std::erase(silent, name);
      }
      std::this_thread::sleep_for(kLook);
    }
    if (stop_request_.signal() != 0) return;
    warn_of_one_machine();
    if (!silent.empty() && silent.size() == all.size() && at_work_.empty()) {
      fail_option("--hosts {}: none can be reached{}", fmt::join(all, ","), reasons(silent));
    }
    for (const std::string& name : silent) {
      lose(name, fmt::format("host {} can't be reached: {}", name, watch().why_silent(name)));
    }
  }

  void warn_of_one_machine() {
    if (watch_ == nullptr) return;
    std::map<std::string, std::string> machines = watch_->machines();
    for (const ScheduledHost& host : progress_->hosts()) {
      if (is_here(host.name)) machines[host.name] = machine_word();
    }
    const std::string names = names_of_one_machine(machines);
    if (names.empty()) return;
    log::warn(
        "schedule: {} are one machine, which gets the ranks of each of these names; describe it as "
        "one host with all its slots",
        names);
  }

  // "; one: ssh has ended with ..."
  std::string reasons(const std::vector<std::string>& silent) {
    std::string text;
    for (const std::string& name : silent) {
      text += fmt::format("; {}: {}", name, watch().why_silent(name));
    }
    return text;
  }

  // Says which hosts jobs wait for while none is at work.
  void tell_wait() {
    std::vector<std::string> lost;
    for (const ScheduledHost& host : progress_->hosts()) {
      if (host.is_lost) lost.push_back(host.name);
    }
    const bool waits = at_work_.empty() && !lost.empty() &&
                       std::ranges::any_of(progress_->states(), [](const JobState& state) {
                         return state.phase == JobState::Phase::kWaiting;
                       });
    if (!waits) {
      waits_since_.reset();
      return;
    }
    if (!waits_since_) {
      waits_since_ = steady_now();
      next_wait_s_ = kFirstWaitForHosts;
    }
    const double waited = seconds_since(*waits_since_);
    if (waited < next_wait_s_) return;
    next_wait_s_ *= 2;
    log::info("schedule: no job has run for {:.0f} s: waiting for {}{}", waited,
              fmt::join(lost, ", "), reasons(lost));
  }

  void find_back(const std::string& name) {
    const int host = host_named(name);
    if (!progress_->hosts()[static_cast<std::size_t>(host)].is_lost) return;
    book_.tell("back", fmt::format("host {} is back", name), {{"host", host}});
    progress_->set_lost(host, false);
    is_news_ = true;
  }

  // text: what is said of it.
  void lose(const std::string& name, const std::string& text) {
    const int host = host_named(name);
    if (host < 0 || progress_->hosts()[static_cast<std::size_t>(host)].is_lost) return;
    book_.tell("lost", text, {{"host", host}});
    progress_->set_lost(host, true);
    is_news_ = true;
    for (const int other : progress_->running()) {
      const JobPlacement& placement = *progress_->state(other).placement;
      if (std::ranges::count(placement.hosts, host) == 0) continue;
      progress_->stop(other);
      ask_to_end(other);
    }
  }

  void look_for_hosts() {
    std::vector<std::string> lost;
    for (const ScheduledHost& host : progress_->hosts()) {
      if (host.is_lost) lost.push_back(host.name);
    }
    if (lost.empty() && watch_ == nullptr) return;
    for (const std::string& name : watch().look_for(lost)) find_back(name);
  }

  HostWatch& watch() {
    if (watch_ == nullptr) {
      const LaunchSetting& launch = setting_.launch;
      watch_ = std::make_unique<HostWatch>(words_of(launch.rsh.empty() ? "ssh" : launch.rsh),
                                           launch.program, launch.address);
    }
    return *watch_;
  }

  const ScheduleRunSetting& setting_;
  const fs::path out_;
  const Descriptor lock_;
  ScheduleBook book_;
  const std::unique_ptr<JobPolicy> policy_;
  const std::shared_ptr<LaunchesToAsk> launches_to_ask_ = std::make_shared<LaunchesToAsk>();
  const StopRequest stop_request_;
  std::optional<ScheduleProgress> progress_;
  // By number; null: of a scheduler that was killed.
  std::map<int, std::shared_ptr<JobLaunch>> at_work_;
  std::unique_ptr<HostWatch> watch_;
  // Since when no job runs because hosts are lost, and after how many seconds that is said.
  std::optional<SteadyTime> waits_since_;
  double next_wait_s_ = 0;
  bool is_news_ = true;  // the policy must be asked
};

}  // namespace

int run_schedule(const ScheduleRunSetting& setting) {
  require_unchanged(setting.jobs, setting.launch.out);
  return ScheduleRunner(setting).run();
}

}  // namespace atl
