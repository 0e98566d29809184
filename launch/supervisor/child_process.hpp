// A program started by this one, at the head of a process group of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace atl {

class ChildProcess {
 public:
  // Starts words[0], found on the PATH. `environment`: what it gets beside this process's, as
  // "NAME=value". It gets SIGTERM should this process be killed. `quiet`: what it prints is
  // dropped. Throws Error{kOption} if no process can be made; a program that can't be run ends with
  // 127.
  ChildProcess(const std::vector<std::string>& words, const std::vector<std::string>& environment,
               bool quiet = false);
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
