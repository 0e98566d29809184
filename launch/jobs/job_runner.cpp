#include "launch/jobs/job_runner.hpp"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/status_line.hpp"
#include "launch/supervisor/child_process.hpp"

namespace atl {

namespace {

constexpr std::chrono::milliseconds kPoll(20);
constexpr std::chrono::seconds kTimeToEnd(10);  // after SIGTERM, before SIGKILL

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double mean(const std::vector<double>& values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

}  // namespace

std::vector<std::string> command_of(const ListedJob& job, const std::filesystem::path& out,
                                    const std::string& program) {
  const JobFolder folder(job, out);
  std::vector<std::string> words = job.command_words(program);
  // The folder of a new run holds the job's record, which --overwrite leaves alone.
  words.insert(words.end(), {"--run-dir", folder.path().string(),
                             folder.has_checkpoint() ? "--resume" : "--overwrite"});
  return words;
}

// A job at work, with its output in its log.
struct JobRunner::Running {
  const ListedJob* job;
  JobFolder folder;
  bool resumed = false;
  Clock::time_point begin = Clock::now();
  std::unique_ptr<ChildProcess> process = nullptr;
};

JobRunner::JobRunner(JobRunSetting setting)
    : setting_(std::move(setting)), stop_request_([](int signal) {
        log::info("{}: ending the jobs at work; again to leave them alone", signal_name(signal));
      }) {}

JobRunner::~JobRunner() { end_running(); }

bool JobRunner::must_stop() const {
  return signal() != 0 || (setting_.limit_s && seconds_since(begin_) >= *setting_.limit_s);
}

bool JobRunner::take_lock() {
  check_outside_datasets(setting_.out, "--out");
  std::error_code error;
  std::filesystem::create_directories(setting_.out, error);
  if (error) fail_option("--out {}: can't be made: {}", setting_.out.string(), error.message());
  const std::filesystem::path file = setting_.out / ".lock";
  lock_ = Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock_) fail_option("{}: can't be written: {}", file.string(), std::strerror(errno));
  for (bool told = false; !must_stop(); told = true) {
    const LockResult result = try_lock(lock_.get());
    if (result == LockResult::kUnsupported) {
      log::warn("--out {}: its file system has no locks; run no other list there meanwhile",
                setting_.out.string());
    }
    if (result != LockResult::kHeld) return true;
    if (!told) {
      log::info(
          "{}: another list, or a job that a killed one has left, is at work there; waiting for "
          "its end",
          setting_.out.string());
    }
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

void JobRunner::look_for_done(std::span<const ListedJob> jobs) {
  total_ = jobs.size();
  for (const ListedJob& job : jobs) {
    const JobFolder folder(job, setting_.out);
    if (!folder.result()) {
      folder.warn_of_damage();
      waiting_.push_back(&job);
      continue;
    }
    ++done_;
    if (const auto seconds = folder.seconds()) seconds_[job.group].push_back(*seconds);
  }
  if (done_ > 0) log::info("{} of {} jobs were done before", done_, total_);
}

void JobRunner::run(std::span<const ListedJob> jobs) {
  look_for_done(jobs);
  while ((!waiting_.empty() || !running_.empty()) && !must_stop()) {
    while (!waiting_.empty() && running_.size() < setting_.at_once) {
      const ListedJob& next = *waiting_.front();
      waiting_.pop_front();
      start(next);
    }
    std::this_thread::sleep_for(kPoll);
    collect_ended();
  }
  end_running();
}

void JobRunner::start(const ListedJob& job) {
  auto running = std::make_unique<Running>(Running{&job, JobFolder(job, setting_.out)});
  const std::vector<std::string> words = command_of(job, setting_.out, setting_.program);
  running->resumed = running->folder.has_checkpoint();
  running->folder.prepare();
  const Descriptor output = running->folder.open_log(words);
  // Should this process be killed, the job's work is not lost: it goes on, with the lock, and keeps
  // others away.
  running->process = std::make_unique<ChildProcess>(
      words, ChildSetting{.output = output.get(), .kept = {lock_.get()}, .outlives = true});
  running_.push_back(std::move(running));
}

void JobRunner::collect_ended() {
  for (std::size_t i = 0; i < running_.size();) {
    const std::optional<int> exit_code = running_[i]->process->exit_code();
    if (!exit_code) {
      ++i;
      continue;
    }
    const std::unique_ptr<Running> ended = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    collect(*ended, *exit_code);
  }
}

void JobRunner::collect(Running& running, int exit_code) {
  const double seconds = seconds_since(running.begin);
  JobFolder& folder = running.folder;
  const std::optional<Json> result = folder.result();
  if (exit_code != 0 || !result) {
    folder.drop_summary();
    failures_.push_back(
        {running.job,
         fmt::format("{}: {}",
                     exit_code != 0 ? fmt::format("exit code {}", exit_code) : "no result",
                     folder.last_line())});
    log::warn("{}: has failed: {}", running.job->title(), failures_.back().problem);
    return;
  }
  ++done_;
  if (!running.resumed) {
    folder.keep_seconds(seconds);
    seconds_[running.job->group].push_back(seconds);
  }
  const auto test = result->find("test");
  const bool has_test = test != result->end() && test->is_number();
  StatusLine::standard_error().show(
      fmt::format("{}/{} {}: {} in {}{}", done_, total_, running.job->title(),
                  has_test ? fmt::format("test {:.4f}", test->get<double>()) : "no test score",
                  format_duration(seconds), time_left()));
}

std::string JobRunner::time_left() const {
  std::vector<double> known;
  for (const auto& [group, seconds] : seconds_) {
    known.insert(known.end(), seconds.begin(), seconds.end());
  }
  if (known.empty() || (waiting_.empty() && running_.empty())) return "";
  double left = 0;
  const auto add = [&](const ListedJob& job) {
    const auto found = seconds_.find(job.group);
    left += mean(found == seconds_.end() ? known : found->second);
  };
  for (const ListedJob* job : waiting_) add(*job);
  for (const auto& running : running_) add(*running->job);
  return fmt::format("; about {} left",
                     format_duration(left / static_cast<double>(setting_.at_once)));
}

void JobRunner::end_running() {
  const auto until = Clock::now() + kTimeToEnd;
  for (const auto& job : running_) job->process->signal_group(SIGTERM);
  for (const auto& job : running_) {
    while (!job->process->exit_code()) {
      if (Clock::now() >= until) job->process->signal_group(SIGKILL);
      std::this_thread::sleep_for(kPoll);
    }
  }
  running_.clear();
  StatusLine::standard_error().keep();
}

}  // namespace atl
