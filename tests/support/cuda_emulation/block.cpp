#include "tests/support/cuda_emulation/block.hpp"

#include <cxxabi.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/fibers.hpp"
#include "tests/support/cuda_emulation/image.hpp"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace atl::cuda_emulation {
namespace {

enum class State : std::uint8_t { kUnborn, kRunnable, kAtBlockBarrier, kInWarp, kExited };
enum class Collective : std::uint8_t { kBarrier, kExchange, kBallot };

constexpr const char* kCollectiveName[] = {"__syncwarp", "a shuffle", "a vote"};

struct Worker;

struct Thread {
  State state;
  Collective collective;
  uint3 index;
  Worker* worker;
  std::source_location where;
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
};

// The block that is running. Only one exists at a time, in the whole process.
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
  std::uint64_t random = 0;
};

Block& block() {
  static Block* const only = new Block;
  return *only;
}

std::uint64_t draw(std::uint64_t bound) {
  std::uint64_t& x = block().random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(x) * bound >> 64);
}

std::string readable_name(const void* function) {
  const char* name = function_name(function);
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? plain : name;
  std::free(plain);
  return result;
}

// Ends the process: a kernel that diverges at a barrier has no defined outcome.
[[noreturn]] void fail(const std::string& what) {
  Block& b = block();
  std::fprintf(stderr, "CUDA emulation: kernel %s, block (%u,%u,%u): %s\n",
               readable_name(b.launch->function).c_str(), blockIdx.x, blockIdx.y, blockIdx.z,
               what.c_str());
  std::abort();
}

std::string describe(const Thread& thread) {
  std::string text = "thread (" + std::to_string(thread.index.x) + "," +
                     std::to_string(thread.index.y) + "," + std::to_string(thread.index.z) + ") ";
  const std::string place =
      std::string(" at ") + thread.where.file_name() + ":" + std::to_string(thread.where.line());
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

void enter(int thread) {
  block().current = thread;
  threadIdx = block().threads[static_cast<std::size_t>(thread)].index;
}

Warp& warp_of(int thread) { return block().warps[static_cast<std::size_t>(thread) / 32]; }
Thread& lane_of_warp(int thread, int lane) {
  return block().threads[static_cast<std::size_t>(thread) / 32 * 32 + lane];
}

// A lane that went elsewhere must not be named by one that waits for it in a warp collective.
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

void end_thread(int thread) {
  Block& b = block();
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  self.state = State::kExited;
  ++b.exited;
  if (b.at_barrier > 0) {
    for (const Thread& other : b.threads) {
      if (other.state == State::kAtBlockBarrier) {
        fail("divergence: " + describe(other) + ", and " + describe(self));
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

Worker::Worker()
    : fiber([this] {
        while (true) {
          run_threads_to_their_end();
          block().idle.push_back(this);
          fiber.suspend();
        }
      }) {}

// The worker whose stack the current thread is on; set before its fiber is resumed.
Worker* running_worker = nullptr;

void resume(Worker* worker) {
  running_worker = worker;
  worker->fiber.resume();
}

void wait_until_runnable(Thread& self) {
  Worker* const worker = running_worker;
  self.worker = worker;
  worker->fiber.suspend();
  // The scheduler made this thread the current one again.
}

void make_runnable(int thread) {
  block().threads[static_cast<std::size_t>(thread)].state = State::kRunnable;
  block().runnable.push_back(thread);
}

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

void run_block() {
  Block& b = block();
  for (const SharedVariable& variable : shared_variables()) {
    std::memset(variable.address, 0xff, variable.bytes);
  }
  for (Thread& thread : b.threads) thread.state = State::kUnborn;
  for (Warp& warp : b.warps) warp.exited = warp.at_block_barrier = warp.in_collective = 0;
  b.next_start = b.exited = b.at_barrier = 0;
  while (b.exited < b.threads.size()) {
    const bool can_start = b.next_start < b.start_order.size();
    if (can_start && (b.runnable.empty() || draw(2) == 0)) {
      resume(idle_worker());
    } else if (!b.runnable.empty()) {
      std::swap(b.runnable[draw(b.runnable.size())], b.runnable.back());
      const int thread = b.runnable.back();
      b.runnable.pop_back();
      enter(thread);
      resume(b.threads[static_cast<std::size_t>(thread)].worker);
    } else {
      fail_stuck();
    }
  }
}

void prepare(const KernelLaunch& launch) {
  Block& b = block();
  b.launch = &launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  const std::size_t count =
      static_cast<std::size_t>(launch.block.x) * launch.block.y * launch.block.z;
  b.threads.assign(count, Thread{});
  b.warps.assign((count + 31) / 32, Warp{});
  b.start_order.resize(count);
  std::iota(b.start_order.begin(), b.start_order.end(), 0);
  std::size_t next = 0;
  for (unsigned z = 0; z < launch.block.z; ++z) {
    for (unsigned y = 0; y < launch.block.y; ++y) {
      for (unsigned x = 0; x < launch.block.x; ++x, ++next) {
        b.threads[next].index = uint3{x, y, z};
        b.warps[next / 32].present |= 1u << (next % 32);
      }
    }
  }
  for (std::size_t i = count; i > 1; --i) std::swap(b.start_order[i - 1], b.start_order[draw(i)]);
}

// Arrival of the current thread at a collective of its warp; returns when all lanes of `mask` have
// arrived, with what this lane receives.
std::uint64_t collective(Collective kind, unsigned mask, std::uint64_t value, int source,
                         const std::source_location& where) {
  Block& b = block();
  const int thread = b.current;
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  Warp& warp = warp_of(thread);
  self.collective = kind;
  self.where = where;
  self.mask = mask;
  self.value = value;
  self.source = source;
  self.state = State::kInWarp;
  if ((mask >> (thread % 32) & 1u) == 0) fail("the mask lacks its own lane: " + describe(self));
  if ((mask & ~warp.present) != 0) fail("the mask names absent lanes: " + describe(self));
  if (const unsigned gone = mask & (warp.exited | warp.at_block_barrier); gone != 0) {
    fail("divergence: " + describe(self) + ", and " +
         describe(lane_of_warp(thread, std::countr_zero(gone))));
  }
  for (unsigned lanes = mask & warp.in_collective; lanes != 0; lanes &= lanes - 1) {
    const Thread& other = lane_of_warp(thread, std::countr_zero(lanes));
    if (other.collective == kind && other.mask == mask) continue;
    fail("divergence: " + describe(self) + ", and " + describe(other) +
         (other.mask == mask ? "" : " with another mask"));
  }
  warp.in_collective |= 1u << (thread % 32);
  if ((warp.in_collective & mask) != mask) {
    wait_until_runnable(self);
    return self.value;
  }

  // The last lane works out what everyone receives.
  std::array<std::uint64_t, 32> values{};
  unsigned ballot = 0;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    values[static_cast<std::size_t>(lane)] = lane_of_warp(thread, lane).value;
    if (lane_of_warp(thread, lane).value != 0) ballot |= 1u << lane;
  }
  warp.in_collective &= ~mask;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    Thread& other = lane_of_warp(thread, lane);
    const bool named = (mask >> (other.source & 31) & 1u) != 0;
    other.value = kind == Collective::kBallot ? ballot
                  : named                     ? values[static_cast<std::size_t>(other.source & 31)]
                                              : ~std::uint64_t{0};
    if (lane != thread % 32) make_runnable(thread / 32 * 32 + lane);
  }
  self.state = State::kRunnable;
  return self.value;
}

const char* kernel_name = nullptr;

}  // namespace

void block_barrier(const std::source_location& where) {
  Block& b = block();
  const int thread = b.current;
  Thread& self = b.threads[static_cast<std::size_t>(thread)];
  self.where = where;
  self.state = State::kAtBlockBarrier;
  if (b.exited > 0) {
    for (const Thread& other : b.threads) {
      if (other.state == State::kExited) {
        fail("divergence: " + describe(self) + ", and " + describe(other));
      }
    }
  }
  if (warp_of(thread).in_collective != 0) check_nobody_in_warp_needs(thread);
  if (++b.at_barrier < b.threads.size()) {
    warp_of(thread).at_block_barrier |= 1u << (thread % 32);
    wait_until_runnable(self);
    return;
  }
  b.at_barrier = 0;
  for (Warp& warp : b.warps) warp.at_block_barrier = 0;
  for (std::size_t i = 0; i < b.threads.size(); ++i) {
    const Thread& other = b.threads[i];
    if (other.where.line() != where.line() ||
        std::strcmp(other.where.file_name(), where.file_name()) != 0) {
      fail("divergence: " + describe(self) + ", and " + describe(other));
    }
    if (static_cast<int>(i) != thread) make_runnable(static_cast<int>(i));
  }
  self.state = State::kRunnable;
}

void warp_barrier(unsigned mask, const std::source_location& where) {
  collective(Collective::kBarrier, mask, 0, 0, where);
}

std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, int source,
                            const std::source_location& where) {
  return collective(Collective::kExchange, mask, value, source, where);
}

unsigned warp_ballot(unsigned mask, bool predicate, const std::source_location& where) {
  return static_cast<unsigned>(collective(Collective::kBallot, mask, predicate ? 1 : 0, 0, where));
}

int lane_index() { return block().current % 32; }

const char* running_kernel() { return kernel_name; }

void run_kernel(const KernelLaunch& launch) {
  Block& b = block();
  // A generator of its own per process, never zero.
  if (b.random == 0) {
    b.random = (environment_number("ATOLL_EMULATION_SEED", 1) + 1) * 0x9e3779b97f4a7c15u | 1u;
  }
  kernel_name = function_name(launch.function);
  prepare(launch);
  const std::uint64_t blocks =
      static_cast<std::uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
  // Any start and any stride without a common divisor visit each block once.
  std::uint64_t stride = draw(blocks) + 1;
  while (std::gcd(stride, blocks) != 1) ++stride;
  std::uint64_t position = draw(blocks);
  for (std::uint64_t i = 0; i < blocks; ++i, position = (position + stride) % blocks) {
    blockIdx.x = static_cast<unsigned>(position % launch.grid.x);
    blockIdx.y = static_cast<unsigned>(position / launch.grid.x % launch.grid.y);
    blockIdx.z = static_cast<unsigned>(position / launch.grid.x / launch.grid.y);
    run_block();
  }
  kernel_name = nullptr;
}

}  // namespace atl::cuda_emulation
