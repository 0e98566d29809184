// Kernel launches and what CUDA tells about kernels.
#include <cuda_runtime.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "tests/support/cuda_emulation/block.hpp"
#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

namespace {

constexpr unsigned kMostThreads = 1024;

class KernelOperation : public Operation {
 public:
  KernelOperation(Device& device, KernelLaunch launch)
      : device_(device), launch_(std::move(launch)) {}

  bool run(Lock&) override {
    if (device_.sticky != cudaSuccess) return true;
    const cudaError_t injected = std::exchange(runtime().next_kernel_fails, cudaSuccess);
    if (injected != cudaSuccess) {
      device_.sticky = injected;
      return true;
    }
    memory().open();
    run_kernel(launch_);
    ++runtime().executed_kernels;
    return true;
  }

 private:
  Device& device_;
  KernelLaunch launch_;
};

bool is_valid_launch(const dim3& grid, const dim3& block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return false;
  }
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return false;
  if (block.x > kMostThreads || block.y > kMostThreads || block.z > 64) return false;
  return static_cast<unsigned long long>(block.x) * block.y * block.z <= kMostThreads;
}

}  // namespace

namespace atl::cuda_emulation {

cudaError_t launch_kernel(const cudaLaunchConfig_t* config, const void* kernel,
                          std::function<void()> thread) {
  return api([&](Lock& lock) {
    if (!is_valid_launch(config->gridDim, config->blockDim)) return cudaErrorInvalidConfiguration;
    if (config->dynamicSmemBytes != 0 || config->numAttrs != 0) {
      std::fprintf(stderr, "CUDA emulation: no dynamic shared memory, no launch attributes\n");
      return cudaErrorNotSupported;
    }
    if (environment_number("ATOLL_EMULATION_CODE", 1) == 0) return cudaErrorNoKernelImageForDevice;
    Stream* const stream = find_stream(config->stream);
    if (stream == nullptr || stream->device != &current_device()) {
      return cudaErrorInvalidResourceHandle;
    }
    KernelLaunch launch{config->gridDim, config->blockDim, kernel, std::move(thread)};
    return enqueue(*stream, std::make_shared<KernelOperation>(*stream->device, std::move(launch)),
                   lock);
  });
}

}  // namespace atl::cuda_emulation

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return api([&](Lock&) { return value < -1 ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size,
                                                          size_t) {
  return api([&](Lock&) {
    if (block_size < 1 || block_size > static_cast<int>(kMostThreads)) {
      return cudaErrorInvalidValue;
    }
    *blocks = 2048 / block_size < 32 ? 2048 / block_size : 32;
    return cudaSuccess;
  });
}
