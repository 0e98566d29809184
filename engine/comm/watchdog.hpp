// Deadlines of waits: how long a peer may stay silent, and what is said when it does.
#pragma once

#include <chrono>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// Runs from construction or from the last sign of life of a peer that is waited for.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // 0 seconds: never expires.
  explicit Watchdog(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}

  void sign_of_life(Clock::time_point when = Clock::now()) {
    if (when > last_sign_) last_sign_ = when;
  }
  bool endless() const { return timeout_seconds_ <= 0; }
  Clock::time_point deadline() const {
    return last_sign_ + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(timeout_seconds_));
  }
  bool expired() const { return !endless() && Clock::now() >= deadline(); }

 private:
  double timeout_seconds_;
  Clock::time_point last_sign_ = Clock::now();
};

// Throws Error{kTimeout}: `rank` heard nothing from `peers` (not empty) for `seconds` in `label`.
[[noreturn]] void fail_silent(int rank, const std::vector<int>& peers, double seconds,
                              const OperationLabel& label);

}  // namespace atl
