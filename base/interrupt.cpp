#include "base/interrupt.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/lost_pages.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

std::mutex g_mutex;
std::set<fs::path> g_temporaries;  // guarded by g_mutex
std::atomic<int> g_listeners = 0;  // StopRequests alive
std::atomic<int> g_noted = 0;      // the signal noted for them
StopRequest::Noted g_tell;         // what one of them does with it; guarded by g_mutex
bool g_told = false;               // guarded by g_mutex
std::atomic<bool> g_ending = false;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      sigaddset(&set, signal);
    }
  }
  return set;
}

void unblock_in_child() {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

// Whoever writes goes on while this thread removes: what it has just made is removed by a further
// try.
void remove_temporaries() {
  constexpr int kTries = 20;
  const std::lock_guard lock(g_mutex);
  for (int k = 0; k < kTries && !g_temporaries.empty(); ++k) {
    std::erase_if(g_temporaries, [](const fs::path& path) {
      std::error_code error;
      fs::remove_all(path, error);
      return !error && !fs::exists(path, error);
    });
    if (!g_temporaries.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

[[noreturn]] void end_process(int signal) {
  g_ending = true;
  remove_temporaries();
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

// Once there is both a signal and somebody to tell.
void tell_once() {
  StopRequest::Noted tell;
  {
    const std::lock_guard lock(g_mutex);
    if (g_told || g_noted == 0 || !g_tell) return;
    g_told = true;
    tell = g_tell;
  }
  tell(g_noted);
}

void wait_for_signals(sigset_t set, bool ends_in_good_order) {
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    int none = 0;
    const bool noted = g_listeners > 0 || (ends_in_good_order && signal == SIGUSR1);
    if (!noted || !g_noted.compare_exchange_strong(none, signal)) end_process(signal);
    tell_once();
  }
}

}  // namespace

void handle_signals(bool ends_in_good_order) {
  report_lost_pages();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is an error that names it
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A program started from here must not inherit the blocked signals.
  ::pthread_atfork(nullptr, nullptr, unblock_in_child);
  std::thread(wait_for_signals, set, ends_in_good_order).detach();
}

void hold_signals() {
  struct sigaction action {};
  if (::sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopRequest::StopRequest(Noted noted) {
  ++g_listeners;
  if (!noted) return;
  {
    const std::lock_guard lock(g_mutex);
    g_tell = std::move(noted);
  }
  tell_once();
}

StopRequest::~StopRequest() {
  if (--g_listeners > 0) return;
  g_noted = 0;
  const std::lock_guard lock(g_mutex);
  g_tell = {};
  g_told = false;
}

int StopRequest::signal() const { return g_noted; }

void note_signal(int signal) {
  {
    const std::lock_guard lock(g_mutex);
    g_told = true;  // whoever calls this knows
  }
  int none = 0;
  g_noted.compare_exchange_strong(none, signal);
}

void forget_signal() {
  if (g_listeners > 0) return;
  g_noted = 0;
  const std::lock_guard lock(g_mutex);
  g_told = false;
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return fmt::format("signal {}", signal);
  }
}

void remove_on_signal(const fs::path& path) {
  const std::lock_guard lock(g_mutex);
  g_temporaries.insert(fs::absolute(path));
}

bool remove_on_signal(const fs::path& path, const std::function<bool()>& make) {
  const fs::path absolute = fs::absolute(path);
  {
    const std::lock_guard lock(g_mutex);
    if (!g_ending) {
      if (!make()) return false;
      g_temporaries.insert(absolute);
      return true;
    }
  }
  yield_to_signal();
  return false;
}

void keep_on_signal(const fs::path& path, const std::function<void()>& last_step) {
  const fs::path absolute = fs::absolute(path);
  {
    const std::lock_guard lock(g_mutex);
    if (!g_ending) {
      if (last_step) last_step();
      g_temporaries.erase(absolute);
      return;
    }
  }
  yield_to_signal();
}

void yield_to_signal() {
  while (g_ending) std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace atl
