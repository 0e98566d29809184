// Deadlines of waits: how long a peer may stay silent, and what is said when it does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// Runs from construction or from the last sign of life of a peer that is waited for. Time in which
// this process itself was stopped does not count: then it starts anew.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // 0 seconds: never expires.
  explicit Watchdog(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}

  void sign_of_life(Clock::time_point when = Clock::now()) {
    if (when > last_sign_) last_sign_ = when;
  }
  bool endless() const { return timeout_seconds_ <= 0; }
  Clock::time_point last_sign() const { return last_sign_; }
  Clock::time_point deadline() const { return last_sign_ + timeout(); }
  // When expired() wants to be called again at the latest.
  Clock::time_point next_look() const;
  bool expired();
  Clock::duration timeout() const {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(timeout_seconds_));
  }

 private:
  double timeout_seconds_;
  Clock::time_point last_sign_ = Clock::now();
  Clock::time_point last_look_ = last_sign_;
};

// "rank 0 heard nothing from rank 2 for 10 s while <activity>; is ..."; `peers` is not empty.
std::string describe_silence(int rank, const std::vector<int>& peers, double seconds,
                             const std::string& activity);
// Throws Error{kTimeout}: `rank` heard nothing from `peers` (not empty; ranks of the job like
// `rank`) while waiting for `operation`.
[[noreturn]] void fail_silent(int rank, const std::vector<int>& peers, double seconds,
                              const std::string& operation);

// Ends this process with exit code 1 if `call`, which waits for other processes and knows no
// deadline, has not returned after so many seconds.
class CallLimit {
 public:
  CallLimit(const char* call, double seconds);  // 0 seconds: no limit
  ~CallLimit();
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;

 private:
  void watch();

  const char* call_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace atl
