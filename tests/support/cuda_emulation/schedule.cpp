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

}  // namespace

Worker* idle_worker() {
  Block& b = block();
  if (b.idle.empty()) return new Worker;
  Worker* const worker = b.idle.back();
  b.idle.pop_back();
  return worker;
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

void fail_stuck() {
  std::string text = "divergence: no thread can go on;";
  int shown = 0;
  for (const Thread& thread : block().threads) {
    if (thread.state == State::kExited || shown == 8) continue;
    text += (shown++ > 0 ? ", " : " ") + describe(thread);
  }
  fail(text);
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

void run_threads() {
  if (!block().threads.empty()) run_next();
}

}  // namespace atl::cuda_emulation
