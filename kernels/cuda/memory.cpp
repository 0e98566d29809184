#include "kernels/cuda/memory.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"

namespace atl::cuda {

namespace {

// NCCL and copies between devices may reach into another device's memory; a pool is closed to other
// devices unless it is opened.
void open_to_peers(cudaMemPool_t pool, int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<cudaMemAccessDesc> peers;
  for (int other = 0; other < count; ++other) {
    int reaches = 0;
    if (other == device) continue;
    check(cudaDeviceCanAccessPeer(&reaches, other, device), "cudaDeviceCanAccessPeer");
    if (reaches == 0) continue;
    cudaMemAccessDesc peer{};
    peer.location.type = cudaMemLocationTypeDevice;
    peer.location.id = other;
    peer.flags = cudaMemAccessFlagsProtReadWrite;
    peers.push_back(peer);
  }
  if (peers.empty()) return;
  // One that another process holds for itself refuses; messages then take another way.
  const cudaError_t status = cudaMemPoolSetAccess(pool, peers.data(), peers.size());
  if (status == cudaSuccess) return;
  cudaGetLastError();
  log::debug("memory of device {} stays closed to other devices: {}", device,
             cudaGetErrorString(status));
}

bool has_pools(int device) {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device),
        "cudaDeviceGetAttribute");
  return supported != 0;
}

// Null where the device, or the driver in this environment, has no pools.
Pool make_pool(int device) {
  if (!has_pools(device)) return {};
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  const cudaError_t status = cudaMemPoolCreate(&pool, &properties);
  if (status == cudaErrorNotSupported) {
    cudaGetLastError();
    return {};
  }
  check(status, "cudaMemPoolCreate");
  Pool made(pool);
  // Never given back to the system before the pool is destroyed: that would wait for the device.
  auto threshold = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
        "cudaMemPoolSetAttribute");
  open_to_peers(pool, device);
  return made;
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

// Bytes of the device.
struct MemoryInfo {
  std::int64_t free;
  std::int64_t total;
};

MemoryInfo memory_info() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

std::int64_t pool_bytes(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  check(cudaMemPoolGetAttribute(pool, attribute, &value), "cudaMemPoolGetAttribute");
  return static_cast<std::int64_t>(value);
}

}  // namespace

MemoryPool::MemoryPool(int device)
    : pool_(make_pool(device)),
      stream_(make_stream()),
      taken_(make_event()),
      finished_(make_event()) {
  if (!pool_) log::debug("device {} has no memory pools: memory is taken by cudaMalloc", device);
}

MemoryPool::~MemoryPool() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

void* MemoryPool::try_allocate(std::int64_t bytes) {
  void* data = nullptr;
  const auto taken = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const cudaError_t status = pool_
                                 ? cudaMallocFromPoolAsync(&data, taken, pool_.get(), stream_.get())
                                 : cudaMalloc(&data, taken);
  if (status == cudaSuccess) return data;
  cudaGetLastError();
  // Drivers call a size that no device has an invalid value.
  if (status == cudaErrorMemoryAllocation || bytes > memory_info().total) return nullptr;
  fail_call(status, pool_ ? "cudaMallocFromPoolAsync" : "cudaMalloc");
}

void* MemoryPool::allocate(std::int64_t bytes) {
  ATOLL_ASSERT(bytes >= 0, "{} bytes", bytes);
  if (void* data = try_allocate(bytes)) return data;
  // Released memory may still wait for queues, or lie in pieces of the wrong size.
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  if (pool_) check(cudaMemPoolTrimTo(pool_.get(), 0), "cudaMemPoolTrimTo");
  if (void* data = try_allocate(bytes)) return data;
  const std::int64_t available = available_bytes();
  fail(ErrorKind::kMemory,
       "backend cuda: {} ({} bytes) of device memory asked for, {} ({} bytes) available",
       format_bytes(bytes), bytes, format_bytes(available), available);
}

void MemoryPool::release(void* data) noexcept {
  if (data == nullptr) return;
  // cudaFree waits for all work of the device.
  static_cast<void>(pool_ ? cudaFreeAsync(data, stream_.get()) : cudaFree(data));
}

std::int64_t MemoryPool::available_bytes() const {
  const std::int64_t free = memory_info().free;
  if (!pool_) return free;
  return free + pool_bytes(pool_.get(), cudaMemPoolAttrReservedMemCurrent) -
         pool_bytes(pool_.get(), cudaMemPoolAttrUsedMemCurrent);
}

void MemoryPool::order_after(cudaStream_t queue) {
  check(cudaEventRecord(taken_.get(), stream_.get()), "cudaEventRecord");
  check(cudaStreamWaitEvent(queue, taken_.get()), "cudaStreamWaitEvent");
}

void MemoryPool::order_before(cudaStream_t queue) noexcept {
  // A failure is one of the work before, which synchronize() reports.
  static_cast<void>(cudaEventRecord(finished_.get(), queue));
  static_cast<void>(cudaStreamWaitEvent(stream_.get(), finished_.get()));
}

}  // namespace atl::cuda
