// A job of a schedule at work: `atoll launch` with some hosts, and how it has ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "launch/jobs/job_list.hpp"
#include "launch/supervisor/child_process.hpp"

namespace atl {

// Options of `atoll launch` that all jobs share; empty texts: its own defaults.
struct LaunchSetting {
  std::filesystem::path out;  // of the schedule
  std::string program;        // path of this one
  std::string rsh;
  std::string mpirun;
  std::string address;
  int restarts = 10;
};

struct JobHosts {
  std::vector<std::string> names;
  int ranks_per_host = 1;
};

struct LaunchEnd {
  enum class How : std::uint8_t {
    kDone,
    kAsked,     // after an epoch, and can go on
    kHostLost,  // too few ranks were left
    kKilled,    // by somebody else, or it could not start: worth another try
    kFailed,    // it would fail again
  };
  How how = How::kDone;
  std::string why = {};                                // for the last two
  std::map<std::string, std::string> lost_hosts = {};  // by name: what `atoll launch` says of it
};
// "done", "moved", "lost", "killed", "failed": in the journal.
const char* in_words(LaunchEnd::How how);

// The command that trains a job on these hosts, from its beginning or, `goes_on`, from its last
// checkpoint or snapshot. number: of the job in the schedule.
std::vector<std::string> launch_words(const LaunchSetting& setting, const ListedJob& job,
                                      int number, const JobHosts& hosts, bool goes_on);

class JobLaunch {
 public:
  // Starts it. What it prints goes to the end of the job's log.
  JobLaunch(const LaunchSetting& setting, ListedJob job, int number, const JobHosts& hosts);

  pid_t pid() const { return child_.pid(); }
  // Asks it to end after its epoch, with a checkpoint; the first call does. From any thread.
  void ask_to_end();
  // Once it has ended.
  std::optional<LaunchEnd> end();

 private:
  LaunchEnd read_end(int exit_code) const;

  ListedJob job_;
  std::filesystem::path folder_;
  std::filesystem::path out_;
  std::filesystem::path events_;
  // Bytes that earlier starts have written there.
  std::uintmax_t old_events_ = 0;
  std::uintmax_t old_log_ = 0;
  std::mutex mutex_;
  ChildProcess child_;     // guarded by mutex_
  bool is_asked_ = false;  // guarded by mutex_
};

// Launches that a signal asks to end, at once and by the thread that waits for signals: a scheduler
// may be busy with a search. A second signal, which kills the scheduler, is then the second one for
// them, too.
class LaunchesToAsk {
 public:
  void add(const std::shared_ptr<JobLaunch>& launch);
  void ask_to_end();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<JobLaunch>> launches_;  // guarded by mutex_
};

// Whether a launch of this job lives that an earlier scheduler has started.
bool is_launch_alive(const std::filesystem::path& out, int number);
// The end of such a one, which is no more, by what it has left in the job's folder.
LaunchEnd end_of_former_launch(const ListedJob& job, const std::filesystem::path& out);

}  // namespace atl
