// CUDA's facts about devices, versions and error codes.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"

using namespace atl::cuda_emulation;

namespace {

constexpr int kMultiprocessors = 4;
constexpr int kSharedBytes = 48 * 1024;

int driver_version() {
  return static_cast<int>(environment_number("ATOLL_EMULATION_DRIVER", CUDART_VERSION));
}

bool is_device(int device) {
  return device >= 0 && device < static_cast<int>(runtime().devices.size());
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  // A driver serves all versions of CUDA with its major version, and earlier ones.
  if (driver_version() / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  return api([&](Lock&) {
    *count = static_cast<int>(runtime().devices.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return api([&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    *prop = cudaDeviceProp{};
    std::strcpy(prop->name, "emulated device");
    prop->totalGlobalMem = Memory::capacity();
    prop->sharedMemPerBlock = kSharedBytes;
    prop->sharedMemPerMultiprocessor = kSharedBytes;
    prop->sharedMemPerBlockOptin = kSharedBytes;
    prop->regsPerBlock = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->major = 9;
    prop->minor = 0;
    prop->multiProcessorCount = kMultiprocessors;
    prop->canMapHostMemory = 1;
    prop->concurrentKernels = 1;
    prop->pciBusID = device + 1;
    prop->asyncEngineCount = 2;
    prop->unifiedAddressing = 1;
    prop->memoryBusWidth = 64;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->memoryPoolsSupported = has_pools() ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api([&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        return cudaSuccess;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = kSharedBytes;
        return cudaSuccess;
      case cudaDevAttrWarpSize:
        *value = 32;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = kMultiprocessors;
        return cudaSuccess;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        return cudaSuccess;
      case cudaDevAttrAsyncEngineCount:
        *value = 2;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMemoryPoolsSupported:
        *value = has_pools() ? 1 : 0;
        return cudaSuccess;
      case cudaDevAttrUnifiedAddressing:
        *value = 1;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api([&](Lock&) {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (length < 13) return cudaErrorInvalidValue;
    std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", (device + 1) & 0xff);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api([&](Lock&) {
    if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
