// The threads of the block that is running, and how they take turns. Internal to the execution of
// kernels: only one block exists at a time, in the whole process.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/block.hpp"
#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/fibers.hpp"

namespace atl::cuda_emulation {

enum class State : std::uint8_t { kUnborn, kRunnable, kAtBlockBarrier, kInWarp, kExited };
enum class Collective : std::uint8_t { kBarrier, kExchange, kBallot };

struct Worker;

struct Thread {
  State state;
  Collective collective;
  uint3 index;
  Worker* worker;
  CodePlace where;
  unsigned mask;
  int source;
  std::uint64_t value;  // what the lane passes, then what it receives
};

// A fiber that runs threads to their end, one after another, until one of them has to wait: then
// another worker takes the rest. A kernel without barriers needs a single worker.
struct Worker {
  Worker();
  Fiber fiber;
};

// Lanes of a warp by what they do, one bit each.
struct Warp {
  unsigned present, exited, at_block_barrier, in_collective;
  // The collective of the first lane that is in one, and whether all others do the same.
  Collective collective;
  unsigned mask;
  bool uniform;
};

struct Block {
  const KernelLaunch* launch = nullptr;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<int> start_order;
  std::size_t next_start = 0;
  std::size_t exited = 0;
  std::size_t at_barrier = 0;
  std::vector<int> runnable;
  std::vector<Worker*> idle;  // never freed: their stacks serve the whole process
  int current = -1;
};

inline Block& block() {
  static Block* const only = new Block;
  return *only;
}

// A number below bound, from the generator that ATOLL_EMULATION_SEED starts.
inline std::uint64_t draw(std::uint64_t bound) {
  static std::uint64_t x =
      (environment_number("ATOLL_EMULATION_SEED", 1) + 1) * 0x9e3779b97f4a7c15u | 1u;  // never 0
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(x) * bound >> 64);
}

// Runs all threads of the prepared block to their end.
void run_threads();

inline Warp& warp_of(int thread) { return block().warps[static_cast<std::size_t>(thread) / 32]; }
inline Thread& lane_of_warp(int thread, int lane) {
  return block()
      .threads[static_cast<std::size_t>(thread) / 32 * 32 + static_cast<std::size_t>(lane)];
}

// Ends the process if a lane waits in a warp collective whose mask names the given thread, which
// went elsewhere.
void check_nobody_in_warp_needs(int thread);

// Ends the process with a message that names kernel and block: what breaks the rules of barriers
// has no defined outcome.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_divergence(const Thread& one, const Thread& other);
[[noreturn]] void fail_stuck();
// The thread and what it does, for messages.
std::string describe(const Thread& thread);

// The worker whose stack the current thread is on; set before its fiber is resumed.
inline Worker* running_worker = nullptr;
// One on which no thread is.
Worker* idle_worker();

inline void enter(int thread) {
  block().current = thread;
  threadIdx = block().threads[static_cast<std::size_t>(thread)].index;
}

// Leaves the running stack for that of another thread, or for one on which threads start.
[[gnu::always_inline]] inline void run_next() {
  Block& b = block();
  // Mostly the thread that became runnable last: its warp's stacks are in the cache.
  const bool surprise = draw(16) == 0;
  const bool can_start = b.next_start < b.start_order.size();
  if (can_start && (b.runnable.empty() || surprise)) {
    running_worker = idle_worker();
  } else if (!b.runnable.empty()) {
    if (surprise) std::swap(b.runnable[draw(b.runnable.size())], b.runnable.back());
    const int thread = b.runnable.back();
    b.runnable.pop_back();
    enter(thread);
    running_worker = b.threads[static_cast<std::size_t>(thread)].worker;
  } else {
    fail_stuck();
  }
  running_worker->fiber.resume();
}

// Leaves the current thread until make_runnable() was called for it and its turn has come.
[[gnu::always_inline]] inline void wait_until_runnable(Thread& self) {
  self.worker = running_worker;
  run_next();
}

inline void make_runnable(int thread) {
  Block& b = block();
  b.threads[static_cast<std::size_t>(thread)].state = State::kRunnable;
  b.runnable.push_back(thread);
}

}  // namespace atl::cuda_emulation
