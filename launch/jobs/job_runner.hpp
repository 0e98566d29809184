// Runs the jobs of a list in run folders of their own, several at once if asked to, until all are
// done, a signal comes or time is up. Whoever runs the list again goes on there.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/interrupt.hpp"
#include "launch/jobs/job_folder.hpp"
#include "launch/jobs/job_list.hpp"

namespace atl {

struct JobRunSetting {
  std::filesystem::path out;  // of the run folders
  std::string program;        // of atoll
  std::size_t at_once = 1;
  std::optional<double> limit_s;  // from now on; none: as long as it takes
};

// The words that run a job, or go on with it from its checkpoint.
std::vector<std::string> command_of(const ListedJob& job, const std::filesystem::path& out,
                                    const std::string& program);

class JobRunner {
 public:
  struct Failure {
    const ListedJob* job = nullptr;
    std::string problem;
  };

  // From now on signals are noted, not obeyed.
  explicit JobRunner(JobRunSetting setting);
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;
  ~JobRunner();  // ends the jobs that still run

  // Only one list runs in a folder. Jobs that a killed list has left hold its lock, too: they are
  // waited for. False if it must stop before that.
  bool take_lock();
  // Runs the jobs that are not done; only with the lock. `jobs` must outlive this.
  void run(std::span<const ListedJob> jobs);

  std::size_t done() const { return done_; }
  const std::vector<Failure>& failures() const { return failures_; }
  int signal() const { return stop_request_.signal(); }  // that has ended it; 0: none

 private:
  using Clock = std::chrono::steady_clock;
  struct Running;

  bool must_stop() const;
  void look_for_done(std::span<const ListedJob> jobs);
  void start(const ListedJob& job);
  void collect_ended();
  void collect(Running& job, int exit_code);
  std::string time_left() const;
  void end_running();

  JobRunSetting setting_;
  Clock::time_point begin_ = Clock::now();
  StopRequest stop_request_;
  Descriptor lock_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  std::deque<const ListedJob*> waiting_;
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<Failure> failures_;
  std::map<std::string, std::vector<double>> seconds_;  // by group: what its jobs have taken
};

}  // namespace atl
