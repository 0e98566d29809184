#include "engine/comm/watchdog.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"

namespace atl {

namespace {

// Who waits looks so many times in one timeout.
constexpr int kLooks = 8;

}  // namespace

Watchdog::Clock::time_point Watchdog::next_look() const {
  return std::min(deadline(), last_look_ + timeout() / kLooks);
}

bool Watchdog::expired() {
  if (endless()) return false;
  const Clock::time_point now = Clock::now();
  // Nobody looked for much longer than anybody sleeps: the process was stopped, and what its peers
  // have sent meanwhile is yet to be seen.
  if (now - last_look_ > timeout() / 2) sign_of_life(now);
  last_look_ = now;
  return now >= deadline();
}

std::string describe_silence(int rank, const std::vector<int>& peers, double seconds,
                             const std::string& activity) {
  if (peers.size() == 1) {
    return fmt::format(
        "rank {} heard nothing from rank {} for {:g} s while {}; is that rank stopped or its host "
        "unreachable?",
        rank, peers.front(), seconds, activity);
  }
  return fmt::format(
      "rank {} heard nothing from ranks {} for {:g} s while {}; are those ranks stopped or their "
      "hosts unreachable?",
      rank, fmt::join(peers, ", "), seconds, activity);
}

void fail_silent(int rank, const std::vector<int>& peers, double seconds,
                 const std::string& operation) {
  throw Error(ErrorKind::kTimeout,
              describe_silence(rank, peers, seconds, "waiting for " + operation));
}

CallLimit::CallLimit(const char* call, double seconds) : call_(call), seconds_(seconds) {
  if (seconds > 0) thread_ = std::thread([this] { watch(); });
}

CallLimit::~CallLimit() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void CallLimit::watch() {
  std::unique_lock lock(mutex_);
  // In slices, so that time in which this process itself was stopped counts as one of them at most.
  const std::chrono::duration<double> slice(seconds_ / kLooks);
  for (int k = 0; k < kLooks; ++k) {
    if (ended_.wait_for(lock, slice, [this] { return has_ended_; })) return;
  }
  const int rank = launcher_info().rank;
  std::fprintf(stderr,
               "atoll: error: rank %d: %s has not returned for %g s; is another process of this "
               "job stopped, or has it ended?\n",
               rank, call_, seconds_);
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace atl
