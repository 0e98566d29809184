// A program started by this one, at the head of a process group of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace atl {

struct ChildSetting {
  std::vector<std::string> environment = {};  // beside this process's, as "NAME=value"
  bool quiet = false;                         // what it prints is dropped, and it reads nothing
  // The open file that gets what it prints; it then reads nothing. -1: as this process.
  int output = -1;
  // Open files that it and all that it starts hold open, too: so does a lock outlive this process.
  std::vector<int> kept = {};
  bool outlives = false;  // it goes on should this process be killed; otherwise it gets SIGTERM
};

class ChildProcess {
 public:
  // Starts words[0], found on the PATH. Throws Error{kOption} if no process can be made; a program
  // that can't be run ends with 127.
  explicit ChildProcess(const std::vector<std::string>& words, const ChildSetting& setting = {});
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills the group if the child still runs

  pid_t pid() const { return pid_; }
  // Its exit code once it has ended, 128 + the signal that ended it; never waits.
  std::optional<int> exit_code();
  void signal(int signal);        // the child alone
  void signal_group(int signal);  // and all that it has started and left in its group

 private:
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace atl
