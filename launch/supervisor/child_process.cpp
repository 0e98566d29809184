#include "launch/supervisor/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

extern char** environ;

namespace atl {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> with(const std::vector<std::string>& environment) {
  std::vector<std::string> all = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::strcspn(*entry, "=") + 1);
    bool replaced = false;
    for (const std::string& own : environment) replaced = replaced || own.starts_with(name);
    if (!replaced) all.emplace_back(*entry);
  }
  return all;
}

// In the child, between fork and exec: only what may be called there.
[[noreturn]] void become(char** words, char** environment, pid_t parent, bool quiet) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (quiet) {
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) ::dup2(nothing, stream);
  }
  ::execvpe(words[0], words, environment);
  constexpr const char* kText = "atoll: error: can't run ";
  for (const char* part : {kText, static_cast<const char*>(words[0]), "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(2, part, std::strlen(part));
  }
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment, bool quiet) {
  const std::vector<std::string> whole = with(environment);
  std::vector<char*> arguments = pointers(words);
  std::vector<char*> variables = pointers(whole);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), variables.data(), parent, quiet);
  if (pid_ < 0) fail_option("{}: can't start a process: {}", words[0], std::strerror(errno));
  ::setpgid(pid_, pid_);  // whoever of both comes first
}

ChildProcess::~ChildProcess() {
  if (exit_code()) return;
  signal_group(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::exit_code() {
  int status = 0;
  if (!exit_code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return exit_code_;
}

void ChildProcess::signal(int signal) {
  if (!exit_code()) ::kill(pid_, signal);
}

void ChildProcess::signal_group(int signal) {
  if (!exit_code()) ::kill(-pid_, signal);
}

}  // namespace atl
