#include "tests/support/cuda_emulation/block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/image.hpp"
#include "tests/support/cuda_emulation/schedule.hpp"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace atl::cuda_emulation {
namespace {

const char* kernel_name = nullptr;

// Whole warps in any order, and within each its lanes in any order.
void shuffle_start_order() {
  std::vector<int>& order = block().start_order;
  const std::size_t whole_warps = order.size() / 32;
  for (std::size_t i = whole_warps; i > 1; --i) {
    const std::size_t other = draw(i);
    std::swap_ranges(order.begin() + static_cast<std::ptrdiff_t>(32 * (i - 1)),
                     order.begin() + static_cast<std::ptrdiff_t>(32 * i),
                     order.begin() + static_cast<std::ptrdiff_t>(32 * other));
  }
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::size_t first = (i - 1) / 32 * 32;
    std::swap(order[i - 1], order[first + draw(i - first)]);
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
  shuffle_start_order();
}

void run_block() {
  Block& b = block();
  for (const SharedVariable& variable : shared_variables()) {
    std::memset(variable.address, 0xff, variable.bytes);
  }
  for (Thread& thread : b.threads) thread.state = State::kUnborn;
  for (Warp& warp : b.warps) warp.exited = warp.at_block_barrier = warp.in_collective = 0;
  b.next_start = b.exited = b.at_barrier = 0;
  run_threads();
}

}  // namespace

const char* running_kernel() { return kernel_name; }

void run_kernel(const KernelLaunch& launch) {
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
