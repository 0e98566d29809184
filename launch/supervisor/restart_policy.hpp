// The words that a supervised job is started with, attempt by attempt, and when it is given up.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace atl {

// Counts failures.
class RestartPolicy {
 public:
  // In a row without an epoch between them: then no machine is to blame.
  static constexpr int kMostWithoutProgress = 3;

  explicit RestartPolicy(int restarts) : restarts_(restarts) {}

  // After an attempt that failed, `epoch` being the last one that is done and kept so far: why not
  // to try again; empty: try.
  std::string failed(int epoch);
  int failures() const { return failures_; }

 private:
  int restarts_;
  int failures_ = 0;
  int without_progress_ = 0;
  int epoch_ = 0;
};

// The run in the folder of a job: none; one from before this job; its own.
enum class RunThere { kNone, kOld, kOwn };

// The words of `atoll train` for an attempt. From the second one on it takes its folder over from a
// process that was left behind, and the job's own run goes on; until that is there, --overwrite
// still holds, and an old run is not touched without it. snapshot_every: 0: as `words` say.
std::vector<std::string> words_of_attempt(const std::vector<std::string>& words, int attempt,
                                          RunThere run, int snapshot_every);

struct LauncherWords {
  std::vector<std::string> mpirun = {"mpirun", "--bind-to", "none"};
  std::string rsh;  // starts commands on other hosts; empty: as mpirun does by itself
  std::vector<std::string> hosts;
  int ranks_per_host = 1;
  std::vector<std::string> exported;  // names in the environment that ranks get
};

// The command that starts `program` with `words` on all hosts.
std::vector<std::string> launcher_command(const LauncherWords& launcher, const std::string& program,
                                          const std::vector<std::string>& words);

}  // namespace atl
