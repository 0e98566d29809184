#include "launch/supervisor/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
[[noreturn]] void become(char** words, char** environment, pid_t parent,
                         const ChildSetting& setting) {
  ::setpgid(0, 0);
  if (!setting.outlives) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int file : setting.kept) ::fcntl(file, F_SETFD, 0);
  if (setting.quiet || setting.output >= 0) {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int output = setting.output >= 0 ? setting.output : nothing;
    ::dup2(nothing, 0);
    ::dup2(output, 1);
    ::dup2(output, 2);
  }
  ::execvpe(words[0], words, environment);
  constexpr const char* kText = "atoll: error: can't run ";
  for (const char* part : {kText, static_cast<const char*>(words[0]), "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(2, part, std::strlen(part));
  }
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const ChildSetting& setting) {
  const std::vector<std::string> whole = with(setting.environment);
  std::vector<char*> arguments = pointers(words);
  std::vector<char*> variables = pointers(whole);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), variables.data(), parent, setting);
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
