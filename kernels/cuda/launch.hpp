// How every kernel of this backend is launched, and how a failed CUDA call becomes an Error.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace atl::cuda {

// Scratch that each queue owns for second stages of reductions.
inline constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

// Where an operation runs. `workspace` is 256-byte aligned and free for any operation to overwrite:
// what one leaves there is gone with the next on the same queue.
struct Launch {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  std::span<std::byte> workspace;
};

// Throws Error{kDevice} that names the call and the error, Error{kMemory} where memory is short.
[[noreturn]] void fail_call(cudaError_t status, const char* call);
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    fail_call(status, call);
}

// Queues kernel(arguments...) on the stream.
template <typename... Parameters, typename... Arguments>
void launch(const Launch& where, dim3 blocks, unsigned threads, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads, 1, 1);
  config.stream = where.stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
        "cudaLaunchKernelEx");
}

}  // namespace atl::cuda
