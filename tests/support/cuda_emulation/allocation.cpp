// The CUDA functions that allocate and free memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>

#include "tests/support/cuda_emulation/capture.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

// Pools keep nothing: every allocation gets fresh addresses, and memory counts as used until its
// freeing has been executed.
struct CUmemPoolHandle_st {
  int device;
};

namespace {

// Frees the memory when the stream gets there.
class FreeOperation : public Operation {
 public:
  explicit FreeOperation(void* base) : base_(base) {}
  bool run(Lock&) override {
    memory().release(base_);
    return true;
  }

 private:
  void* base_;
};

cudaError_t allocate(void** pointer, size_t size, Device& device) {
  *pointer = nullptr;
  if (size == 0) return cudaSuccess;
  *pointer = memory().allocate(device.index, size);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

CUmemPoolHandle_st* default_pool(int device) {
  static auto* const pools = new std::map<int, CUmemPoolHandle_st>;
  return &pools->try_emplace(device, CUmemPoolHandle_st{device}).first->second;
}

// From the default pool if `pool` is null.
cudaError_t allocate_async(void** pointer, size_t size, cudaStream_t handle, cudaMemPool_t pool) {
  return api([&](Lock&) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    if (const cudaError_t failure = injected_error("cudaMallocFromPoolAsync")) return failure;
    if (pool == nullptr) pool = default_pool(stream->device->index);
    if (pool->device != stream->device->index) return cudaErrorInvalidValue;
    const cudaError_t error = allocate(pointer, size, *stream->device);
    if (Allocation* made = memory().find(*pointer)) made->pool = pool;
    return error;
  });
}

cudaError_t allocate_pinned(void** pointer, size_t size) {
  return api([&](Lock&) {
    const cudaError_t refused = refuse_in_capture();
    if (refused != cudaSuccess) return refused;
    *pointer = nullptr;
    if (size == 0) return cudaSuccess;
    *pointer = memory().allocate_pinned(size);
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return api([&](Lock&) {
    const cudaError_t refused = refuse_in_capture();
    return refused != cudaSuccess ? refused : allocate(pointer, size, current_device());
  });
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  {
    Lock lock(runtime().mutex);
    const cudaError_t refused = refuse_in_capture();
    if (refused != cudaSuccess) return refused;
  }
  // Waits for all work of the device, as the real one does.
  const cudaError_t error = cudaDeviceSynchronize();
  return api([&](Lock&) {
    const Allocation* const allocation = memory().find(pointer);
    if (allocation == nullptr || allocation->freed ||
        reinterpret_cast<std::uintptr_t>(pointer) != allocation->base) {
      return cudaErrorInvalidValue;
    }
    memory().release(pointer);
    return error;
  });
}

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t handle) {
  return allocate_async(pointer, size, handle, nullptr);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t handle) {
  return allocate_async(pointer, size, handle, pool);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  if (pointer == nullptr) return cudaSuccess;
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    Allocation* const allocation = memory().find(pointer);
    if (allocation == nullptr || allocation->freed ||
        reinterpret_cast<std::uintptr_t>(pointer) != allocation->base) {
      return cudaErrorInvalidValue;
    }
    allocation->freed = true;
    return enqueue(*stream, std::make_shared<FreeOperation>(pointer), lock);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t size) { return allocate_pinned(pointer, size); }

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned int) {
  const cudaError_t failure = api([](Lock&) { return injected_error("cudaHostAlloc"); });
  if (failure != cudaSuccess) return failure;
  return allocate_pinned(pointer, size);
}

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  return api([&](Lock&) {
    const cudaError_t refused = refuse_in_capture();
    if (refused != cudaSuccess) return refused;
    return memory().release_pinned(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api([&](Lock&) {
    *total = Memory::capacity();
    *free = *total - memory().used(current_device().index);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return api([&](Lock&) {
    if (const cudaError_t failure = injected_error("cudaMemPoolCreate")) return failure;
    if (!has_pools()) return cudaErrorNotSupported;
    if (properties->location.type != cudaMemLocationTypeDevice ||
        properties->allocType != cudaMemAllocationTypePinned) {
      return cudaErrorInvalidValue;
    }
    *pool = new CUmemPoolHandle_st{properties->location.id};
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return api([&](Lock&) {
    delete pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&](Lock&) {
    if (device < 0 || device >= static_cast<int>(runtime().devices.size())) {
      return cudaErrorInvalidDevice;
    }
    *pool = default_pool(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void* value) {
  return api([&](Lock&) {
    return pool == nullptr || value == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api([&](Lock&) {
    if (pool == nullptr || value == nullptr) return cudaErrorInvalidValue;
    if (attribute != cudaMemPoolAttrReservedMemCurrent &&
        attribute != cudaMemPoolAttrUsedMemCurrent) {
      return cudaErrorInvalidValue;
    }
    *static_cast<std::uint64_t*>(value) = memory().used_of_pool(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return api([&](Lock&) { return pool == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
}

// Emulated devices reach each other's memory anyway; what a device would refuse is refused.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* accesses,
                                 size_t count) {
  return api([&](Lock&) {
    if (pool == nullptr || accesses == nullptr || count == 0) return cudaErrorInvalidValue;
    const auto devices = static_cast<int>(runtime().devices.size());
    for (size_t i = 0; i < count; ++i) {
      const cudaMemAccessDesc& access = accesses[i];
      if (access.location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (access.location.id < 0 || access.location.id >= devices) return cudaErrorInvalidDevice;
      if (access.location.id == pool->device && access.flags != cudaMemAccessFlagsProtReadWrite) {
        return cudaErrorInvalidDevice;
      }
    }
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&](Lock&) {
    *attributes = cudaPointerAttributes{cudaMemoryTypeUnregistered, -2, nullptr, nullptr};
    void* const same = const_cast<void*>(pointer);
    if (const Allocation* allocation = memory().find(pointer)) {
      *attributes = {cudaMemoryTypeDevice, allocation->device, same, nullptr};
    } else if (memory().is_pinned(pointer)) {
      *attributes = {cudaMemoryTypeHost, 0, same, same};
    }
    return cudaSuccess;
  });
}
