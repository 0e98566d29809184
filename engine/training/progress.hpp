// The progress of epochs for a user: one status line that renews itself.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/progress.hpp"
#include "engine/training/trainer.hpp"

namespace atl {

class Progress {
 public:
  Progress(int first_epoch, int epochs, std::string metric, bool enabled);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // metrics: null if the epoch was not evaluated.
  void report(const EpochResult& result, const Metrics* metrics);

 private:
  using Clock = std::chrono::steady_clock;
  int first_epoch_;
  int epochs_;
  std::string metric_;
  bool enabled_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  std::string last_metrics_;       // of the last evaluation, all of them
  std::string last_valid_;         // and the one that decides
  std::optional<Activity> first_;  // until there is an epoch to report
};

}  // namespace atl
