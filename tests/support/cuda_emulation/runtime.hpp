// State that every part of the emulator shares: the lock, devices with their sticky errors, and the
// frame that each function of the CUDA runtime runs in.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

struct CUstream_st;

namespace atl::cuda_emulation {

using Stream = CUstream_st;
using Lock = std::unique_lock<std::mutex>;

struct Device {
  int index = 0;
  cudaError_t sticky = cudaSuccess;
  std::shared_ptr<Stream> null_stream;
  std::set<std::shared_ptr<Stream>> streams;  // all of them, the null stream too
  // Destroyed by the host with work left, which is still executed when something needs it.
  std::set<std::shared_ptr<Stream>> orphans;
};

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;  // some work was added, executed or given up
  std::vector<std::unique_ptr<Device>> devices;
  cudaError_t next_kernel_fails = cudaSuccess;
  struct Failure {
    int status = 0;
    int calls = 0;  // left
  };
  std::map<std::string, Failure> next_calls_fail;  // by function
  std::size_t executed_kernels = 0;
  std::size_t host_waits = 0;
  std::size_t library_handles_made = 0;
  bool lazy = true;
};

Runtime& runtime();
Device& current_device();

// Runs `body` under the lock and remembers its error for cudaGetLastError(). Returns at once where
// there is no device, where the current device has a sticky error, or from within a host function.
cudaError_t api(const std::function<cudaError_t(Lock&)>& body);

// The status that fail_next_calls() asked of this call, or 0. Not under the lock.
int injected_failure(const char* function);
// The same in a function of the runtime, which then returns it: under the lock.
cudaError_t injected_error(const char* function);

// For functions that must not be called while the calling thread captures: invalidates its captures
// and returns cudaErrorStreamCaptureUnsupported then, cudaSuccess otherwise.
cudaError_t refuse_in_capture();

// Marks the calling thread as being inside a function given to cudaLaunchHostFunc.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace atl::cuda_emulation
