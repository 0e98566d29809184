#include "base/progress.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <system_error>
#include <utility>

namespace atl {

bool ActivityBoard::begin(const ActivityState& state, double now) {
  const std::lock_guard lock(mutex_);
  if (running_.empty()) {
    owner_ = std::this_thread::get_id();
    start_ = now;
    due_ = now + kQuiet;
  } else if (owner_ != std::this_thread::get_id()) {
    return false;
  }
  running_.push_back({&state, now});
  return true;
}

void ActivityBoard::end(const ActivityState& state) {
  const std::lock_guard lock(mutex_);
  std::erase_if(running_, [&](const Running& running) { return running.state == &state; });
  if (running_.empty()) line_.clear();
}

bool ActivityBoard::empty() const {
  const std::lock_guard lock(mutex_);
  return running_.empty();
}

void ActivityBoard::tick(double now) {
  const std::lock_guard lock(mutex_);
  if (running_.empty()) return;
  Running& inner = running_.back();
  const bool unnamed = !inner.shown && now >= inner.since + kQuiet;
  if (now < due_ && !unnamed) return;
  inner.shown = true;
  due_ = now + (line_.terminal() ? kTerminalInterval : kPipeInterval);
  line_.show(text(now - start_));
}

std::string ActivityBoard::text(double seconds) const {
  const ActivityState& inner = *running_.back().state;
  std::string result = running_.front().state->what;
  if (running_.size() > 1) result += ": " + inner.what;
  const std::int64_t done = inner.done.load(std::memory_order_relaxed);
  if (inner.total > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(inner.total);
    result += fmt::format(", {:.0f} %", 100 * std::clamp(share, 0.0, 1.0));
  }
  return result + ", " + format_elapsed(seconds);
}

std::string format_elapsed(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::floor(seconds));
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

namespace {

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// The board of this process, and the thread that looks at it while anything goes on.
class Monitor {
 public:
  Monitor() = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor() { stop(); }

  bool begin(const ActivityState& state) {
    const std::lock_guard lock(turn_);
    if (!board_.begin(state, now())) return false;
    if (!thread_.joinable()) start();
    return true;
  }
  void end(const ActivityState& state) {
    const std::lock_guard lock(turn_);
    board_.end(state);
    if (board_.empty()) stop();
  }

 private:
  // Signals are for the threads that work: the new one takes none.
  void start() {
    stopping_ = false;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {  // no thread to be had: the work itself goes on
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  void watch() {
    constexpr std::chrono::milliseconds kLook(100);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kLook, [this] { return stopping_; })) board_.tick(now());
  }

  ActivityBoard board_{StatusLine::standard_error()};
  std::mutex turn_;   // one begin or end at a time
  std::mutex mutex_;  // of stopping_
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

Monitor& monitor() {
  static Monitor instance;
  return instance;
}

std::atomic<bool> g_shown{false};

}  // namespace

Activity::Activity(std::string what, std::int64_t total, bool shown)
    : state_(std::move(what), total) {
  shown_ = shown && g_shown && monitor().begin(state_);
}

void Activity::end() {
  if (std::exchange(shown_, false)) monitor().end(state_);
}

void Activity::show_all(bool shown) { g_shown = shown; }

}  // namespace atl
