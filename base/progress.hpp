// Progress of everything that takes more than two seconds: an Activity says what goes on, and a
// timer thread shows it, with the time that has passed, also while a library is at work.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status_line.hpp"

namespace atl {

// One activity's report of itself.
struct ActivityState {
  ActivityState(std::string name, std::int64_t whole) : what(std::move(name)), total(whole) {}
  const std::string what;
  const std::int64_t total;  // 0: unknown
  std::atomic<std::int64_t> done{0};
};

// The activities of this moment, outermost first, and when their line is due. It has no clock and
// no thread: the caller passes the time in seconds since any moment.
class ActivityBoard {
 public:
  explicit ActivityBoard(StatusLine& line) : line_(line) {}

  // False if it isn't shown: one thread is at a time, the one that began the outermost activity.
  bool begin(const ActivityState& state, double now);
  void end(const ActivityState& state);
  bool empty() const;
  // Shows the line if it is due, or if the innermost activity has gone on for long and no line has
  // named it yet.
  void tick(double now);

  static constexpr double kQuiet = 2;               // seconds before the first line
  static constexpr double kTerminalInterval = 0.5;  // seconds between renewals
  static constexpr double kPipeInterval = 10;       // seconds between lines in a pipe

 private:
  std::string text(double seconds) const;

  StatusLine& line_;
  mutable std::mutex mutex_;
  struct Running {
    const ActivityState* state = nullptr;
    double since = 0;
    bool shown = false;  // in a line
  };
  std::vector<Running> running_;
  std::thread::id owner_;
  double start_ = 0;
  double due_ = 0;
};

// "12 s", "3 min 20 s", "2 h 5 min".
std::string format_elapsed(double seconds);

// Work that may take long, from construction to destruction. Activities nest: the line names the
// outermost and the innermost, and the time since the outermost began.
class Activity {
 public:
  // `total`: what advance_to counts up to; 0 where the end is unknown. `shown`: where ranks are
  // threads, the one that speaks for all says so.
  explicit Activity(std::string what, std::int64_t total = 0, bool shown = true);
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  ~Activity() { end(); }
  // Before results are printed.
  void end();
  // Cheap, from any thread.
  void advance_to(std::int64_t done) { state_.done.store(done, std::memory_order_relaxed); }

  // Whether this process shows activities at all; off until it is called. One process of a job
  // should.
  static void show_all(bool shown);

 private:
  ActivityState state_;
  bool shown_ = false;
};

}  // namespace atl
