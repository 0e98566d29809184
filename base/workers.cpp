#include "base/workers.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

// Longer than most gaps between two loops of an epoch, so that a helper is awake when the next one
// comes; as short as waking a sleeping one takes, so that little is lost if none comes.
constexpr std::chrono::microseconds kSpin{50};

void pause_briefly() {
#if defined(__x86_64__)
  for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
#endif
}

// Until value != old: spins, then sleeps.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (value.load(std::memory_order_acquire) == old) {
    if (std::chrono::steady_clock::now() > end) return value.wait(old, std::memory_order_acquire);
    pause_briefly();
  }
}

}  // namespace

Workers::~Workers() {
  stopping_ = true;
  ++calls_;
  calls_.notify_all();
  helpers_.clear();  // joins them while what they read is there
}

void Workers::start(int helpers) {
  ATOLL_ASSERT(static_cast<std::uint64_t>(helpers) <= kCountMask, "{} threads", helpers);
  try {
    while (std::ssize(helpers_) < helpers) helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {  // no more than there are
  }
}

void Workers::share(const Loop& loop, int helpers) {
  start(helpers);
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  left_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = gate_.load(std::memory_order_relaxed) / kNextLoop + 1;
  gate_.store(number * kNextLoop | kOpen | static_cast<std::uint64_t>(helpers) << kCountBits,
              std::memory_order_release);
  ++calls_;
  if (helpers == std::ssize(helpers_)) {
    calls_.notify_all();
  } else {
    for (int i = 0; i < helpers; ++i) calls_.notify_one();
  }
  take_chunks(0);
  const std::uint64_t joined = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & kCountMask;
  for (;;) {
    const std::uint32_t left = left_.load(std::memory_order_acquire);
    if (left == joined) break;
    wait_for_change(left_, left);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Workers::help() {
  if (at_start_ != nullptr) at_start_();
  std::uint32_t seen = 0;
  while (!stopping_) {
    if (int slot = 0; join_loop(slot)) {
      take_chunks(slot);
      ++left_;
      left_.notify_one();
    }
    wait_for_change(calls_, seen);
    seen = calls_.load(std::memory_order_acquire);
  }
}

bool Workers::join_loop(int& slot) {
  std::uint64_t gate = gate_.load(std::memory_order_acquire);
  do {
    const std::uint64_t joined = gate & kCountMask;
    const std::uint64_t most = gate >> kCountBits & kCountMask;
    if ((gate & kOpen) == 0 || joined == most) return false;
    slot = static_cast<int>(joined) + 1;
  } while (!gate_.compare_exchange_weak(gate, gate + kJoined, std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  return true;
}

void Workers::take_chunks(int slot) {
  try {
    for (;;) {
      const std::int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= loop_.chunks) return;
      loop_.call(loop_.context, chunk, slot);
    }
  } catch (...) {
    next_.store(loop_.chunks, std::memory_order_relaxed);
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace atl
