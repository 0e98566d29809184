#include "tests/support/cuda_emulation/schedule.hpp"

#include <cxxabi.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/image.hpp"

namespace atl::cuda_emulation {
namespace {

constexpr const char* kCollectiveName[] = {"__syncwarp", "a shuffle", "a vote"};

std::string readable_name(const void* function) {
  const char* name = function_name(function);
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? plain : name;
  std::free(plain);
  return result;
}

// The worker whose stack the current thread is on; set before its fiber is resumed.
Worker* running_worker = nullptr;

void enter(int thread) {
  block().current = thread;
  threadIdx = block().threads[static_cast<std::size_t>(thread)].index;
}

void end_thread(int thread) {
  Block& b = block();
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  self.state = State::kExited;
  ++b.exited;
  if (b.at_barrier > 0) {
    for (const Thread& other : b.threads) {
      if (other.state == State::kAtBlockBarrier) {
        fail_divergence(other, self);
      }
    }
  }
  Warp& warp = warp_of(thread);
  warp.exited |= 1u << (thread % 32);
  if (warp.in_collective != 0) check_nobody_in_warp_needs(thread);
}

void run_threads_to_their_end() {
  Block& b = block();
  while (b.next_start < b.start_order.size()) {
    const int thread = b.start_order[b.next_start++];
    b.threads[static_cast<std::size_t>(thread)].state = State::kRunnable;
    enter(thread);
    b.launch->thread();
    end_thread(b.current);
  }
}

void resume(Worker* worker) {
  running_worker = worker;
  worker->fiber.resume();
}

void run_next();

Worker* idle_worker() {
  Block& b = block();
  if (b.idle.empty()) return new Worker;
  Worker* const worker = b.idle.back();
  b.idle.pop_back();
  return worker;
}

[[noreturn]] void fail_stuck() {
  std::string text = "divergence: no thread can go on;";
  int shown = 0;
  for (const Thread& thread : block().threads) {
    if (thread.state == State::kExited || shown == 8) continue;
    text += (shown++ > 0 ? ", " : " ") + describe(thread);
  }
  fail(text);
}

// Leaves the running stack for that of another thread, or for one on which threads start.
void run_next() {
  Block& b = block();
  // Mostly the thread that became runnable last: its warp's stacks are in the cache.
  const bool surprise = draw(16) == 0;
  const bool can_start = b.next_start < b.start_order.size();
  if (can_start && (b.runnable.empty() || surprise)) {
    resume(idle_worker());
  } else if (!b.runnable.empty()) {
    if (surprise) std::swap(b.runnable[draw(b.runnable.size())], b.runnable.back());
    const int thread = b.runnable.back();
    b.runnable.pop_back();
    enter(thread);
    resume(b.threads[static_cast<std::size_t>(thread)].worker);
  } else {
    fail_stuck();
  }
}

}  // namespace

Block& block() {
  static Block* const only = new Block;
  return *only;
}

std::uint64_t draw(std::uint64_t bound) {
  static std::uint64_t x =
      (environment_number("ATOLL_EMULATION_SEED", 1) + 1) * 0x9e3779b97f4a7c15u | 1u;  // never 0
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(x) * bound >> 64);
}

Worker::Worker()
    : fiber([this] {
        while (true) {
          run_threads_to_their_end();
          Block& b = block();
          b.idle.push_back(this);
          if (b.exited < b.threads.size()) {
            run_next();
          } else {
            Fiber::suspend();
          }
        }
      }) {}

void fail(const std::string& what) {
  Block& b = block();
  std::fprintf(stderr, "CUDA emulation: kernel %s, block (%u,%u,%u): %s\n",
               readable_name(b.launch->function).c_str(), blockIdx.x, blockIdx.y, blockIdx.z,
               what.c_str());
  std::abort();
}

void fail_divergence(const Thread& one, const Thread& other) {
  fail("divergence: " + describe(one) + ", and " + describe(other));
}

std::string describe(const Thread& thread) {
  std::string text = "thread (" + std::to_string(thread.index.x) + "," +
                     std::to_string(thread.index.y) + "," + std::to_string(thread.index.z) + ") ";
  const std::string place =
      std::string(" at ") + thread.where.file + ":" + std::to_string(thread.where.line);
  switch (thread.state) {
    case State::kUnborn:
      return text + "has not started";
    case State::kExited:
      return text + "has exited";
    case State::kAtBlockBarrier:
      return text + "waits in __syncthreads" + place;
    case State::kInWarp:
      return text + "waits in " + kCollectiveName[static_cast<int>(thread.collective)] + place;
    case State::kRunnable:
      break;
  }
  return text + "is running" + place;
}

Warp& warp_of(int thread) { return block().warps[static_cast<std::size_t>(thread) / 32]; }

Thread& lane_of_warp(int thread, int lane) {
  return block().threads[static_cast<std::size_t>(thread) / 32 * 32 + lane];
}

void check_nobody_in_warp_needs(int thread) {
  const unsigned bit = 1u << (thread % 32);
  unsigned waiting = warp_of(thread).in_collective;
  for (; waiting != 0; waiting &= waiting - 1) {
    const Thread& other = lane_of_warp(thread, std::countr_zero(waiting));
    if ((other.mask & bit) == 0) continue;
    fail("divergence: " + describe(other) + " with a mask that names a lane that went elsewhere: " +
         describe(block().threads[static_cast<std::size_t>(thread)]));
  }
}

void wait_until_runnable(Thread& self) {
  self.worker = running_worker;
  run_next();
  // This thread has become the current one again.
}

void make_runnable(int thread) {
  block().threads[static_cast<std::size_t>(thread)].state = State::kRunnable;
  block().runnable.push_back(thread);
}

void run_threads() {
  if (!block().threads.empty()) run_next();
}

}  // namespace atl::cuda_emulation
