// The threads of the block that is running, and how they take turns. Internal to the execution of
// kernels: only one block exists at a time, in the whole process.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/block.hpp"
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

Block& block();

// A number below bound, from the generator that ATOLL_EMULATION_SEED starts.
std::uint64_t draw(std::uint64_t bound);

// Runs all threads of the prepared block to their end.
void run_threads();

// Leaves the current thread until make_runnable() was called for it and its turn has come.
void wait_until_runnable(Thread& self);
void make_runnable(int thread);

Warp& warp_of(int thread);
Thread& lane_of_warp(int thread, int lane);

// Ends the process if a lane waits in a warp collective whose mask names the given thread, which
// went elsewhere.
void check_nobody_in_warp_needs(int thread);

// Ends the process with a message that names kernel and block: what breaks the rules of barriers
// has no defined outcome.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_divergence(const Thread& one, const Thread& other);
// The thread and what it does, for messages.
std::string describe(const Thread& thread);

}  // namespace atl::cuda_emulation
