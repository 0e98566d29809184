// How every kernel of this backend is launched, and how a failed CUDA call becomes an Error.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace atl {

class Queue;

namespace cuda {

class CudaBackend;

// Scratch that each queue owns for second stages of reductions.
inline constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

// Where an operation runs. `workspace` is 256-byte aligned and free for any operation to overwrite:
// what one leaves there is gone with the next on the same queue.
struct Launch {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  std::span<std::byte> workspace;

  // Blocks of an operation element by element, at most: whole waves whether two, three, four or six
  // run at once.
  std::int64_t most_blocks() const { return std::int64_t{12} * multiprocessors; }
};

// Where the operations of the backend's queue run, its device made the thread's current one: all
// that the files of kernels see of the backend.
const Launch& launch_of(CudaBackend& backend, Queue& queue);

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
template <typename... Parameters, typename... Arguments>
void launch(const Launch& where, std::int64_t blocks, unsigned threads,
            void (*kernel)(Parameters...), Arguments&&... arguments) {
  launch(where, dim3(static_cast<unsigned>(blocks)), threads, kernel,
         std::forward<Arguments>(arguments)...);
}

}  // namespace cuda

}  // namespace atl
