// How calls of CUB behave on the emulated device.
#pragma once

#include <cuda_runtime.h>

#include <cstring>

namespace atl::cuda_emulation {

// Without scratch memory, the bytes that a call wants of it. Otherwise queues `work` as a kernel of
// one thread, which finds the scratch memory full of what it did not write.
template <typename Work>
cudaError_t library_call(void* scratch, size_t& bytes, cudaStream_t stream, const Work& work) {
  constexpr size_t kBytes = 767;  // some size, so that callers have to provide it
  if (scratch == nullptr) {
    bytes = kBytes;
    return cudaSuccess;
  }
  if (bytes < kBytes) return cudaErrorInvalidValue;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, 1, 1);
  config.blockDim = dim3(1, 1, 1);
  config.stream = stream;
  const auto thread = [scratch, work] {
    std::memset(scratch, 0xFF, kBytes);
    work();
  };
  return launch_kernel(&config, nullptr, thread);
}

}  // namespace atl::cuda_emulation
