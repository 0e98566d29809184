#include "tests/support/cuda_emulation/runtime.hpp"

#include <cuda_emulation.h>
#include <pthread.h>

#include <cstdlib>
#include <set>

#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

namespace atl::cuda_emulation {
namespace {

thread_local int current_device_index = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool in_host_function = false;

Runtime* make_runtime() {
  auto* made = new Runtime;
  made->lazy = environment_number("ATOLL_EMULATION_LAZY", 1) != 0;
  const std::uint64_t count = environment_number("ATOLL_EMULATION_DEVICES", 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto device = std::make_unique<Device>();
    device->index = static_cast<int>(i);
    device->null_stream = std::make_shared<Stream>();
    device->null_stream->device = device.get();
    device->streams.insert(device->null_stream);
    made->devices.push_back(std::move(device));
  }
  // A death test forks, perhaps while another thread holds the lock.
  pthread_atfork([] { runtime().mutex.lock(); }, [] { runtime().mutex.unlock(); },
                 [] { runtime().mutex.unlock(); });
  return made;
}

}  // namespace

// Never destroyed: static objects of a test may still free device memory.
Runtime& runtime() {
  static Runtime* const only = make_runtime();
  return *only;
}

Device& current_device() {
  return *runtime().devices[static_cast<std::size_t>(current_device_index)];
}

cudaError_t api(const std::function<cudaError_t(Lock&)>& body) {
  Runtime& state = runtime();
  cudaError_t error = cudaSuccess;
  if (state.devices.empty()) {
    error = cudaErrorNoDevice;
  } else if (in_host_function) {
    error = cudaErrorNotPermitted;
  } else {
    Lock lock(state.mutex);
    error = current_device().sticky;
    if (error == cudaSuccess) error = body(lock);
    if (current_device().sticky != cudaSuccess) error = current_device().sticky;
  }
  if (error != cudaSuccess) last_error = error;
  return error;
}

HostFunctionScope::HostFunctionScope() { in_host_function = true; }
HostFunctionScope::~HostFunctionScope() { in_host_function = false; }

void fail_next_kernel(cudaError_t error) {
  Lock lock(runtime().mutex);
  runtime().next_kernel_fails = error;
}

void fail_next_calls(const std::string& function, int status, int calls) {
  static const std::set<std::string> known{
      "cudaGraphInstantiate", "cudaHostAlloc",           "cudaMallocFromPoolAsync",
      "cudaMemPoolCreate",    "cublasLtMatmul",          "cusparseCreateCsr",
      "cusparseSpMM",         "cusparseSpMM_bufferSize", "cusparseSpMM_preprocess"};
  if (!known.contains(function)) std::abort();
  Lock lock(runtime().mutex);
  runtime().next_calls_fail[function] = {status, calls};
}

cudaError_t injected_error(const char* function) {
  const auto found = runtime().next_calls_fail.find(function);
  if (found == runtime().next_calls_fail.end()) return cudaSuccess;
  const auto status = static_cast<cudaError_t>(found->second.status);
  if (--found->second.calls == 0) runtime().next_calls_fail.erase(found);
  return status;
}

int injected_failure(const char* function) {
  Lock lock(runtime().mutex);
  return injected_error(function);
}

void clear_errors() {
  Lock lock(runtime().mutex);
  runtime().next_kernel_fails = cudaSuccess;
  runtime().next_calls_fail.clear();
  for (auto& device : runtime().devices) device->sticky = cudaSuccess;
  last_error = cudaSuccess;
}

std::size_t pending_items() {
  Lock lock(runtime().mutex);
  std::size_t count = 0;
  for (auto& device : runtime().devices) {
    for (const auto& stream : device->streams) count += stream->queue.size();
    for (const auto& stream : device->orphans) count += stream->queue.size();
  }
  return count;
}

std::size_t executed_kernels() {
  Lock lock(runtime().mutex);
  return runtime().executed_kernels;
}

std::size_t library_handles_made() {
  Lock lock(runtime().mutex);
  return runtime().library_handles_made;
}

std::size_t host_waits() {
  Lock lock(runtime().mutex);
  return runtime().host_waits;
}

std::size_t allocated_bytes() {
  Lock lock(runtime().mutex);
  return memory().used(current_device_index);
}

}  // namespace atl::cuda_emulation

using namespace atl::cuda_emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  if (!runtime().devices.empty()) {
    Lock lock(runtime().mutex);
    if (current_device().sticky != cudaSuccess) return current_device().sticky;
  }
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t kept = last_error;
  const cudaError_t error = cudaGetLastError();
  last_error = kept;
  return error;
}

cudaError_t cudaSetDevice(int device) {
  if (runtime().devices.empty()) return last_error = cudaErrorNoDevice;
  if (device < 0 || device >= static_cast<int>(runtime().devices.size())) {
    return last_error = cudaErrorInvalidDevice;
  }
  current_device_index = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (runtime().devices.empty()) return last_error = cudaErrorNoDevice;
  *device = current_device_index;
  return cudaSuccess;
}
