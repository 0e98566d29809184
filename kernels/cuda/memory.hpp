// Memory of one device for one backend: a pool in the order of a stream of its own, or plain
// allocations where the device has no pools.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/handles.hpp"

namespace atl::cuda {

// Memory is taken and given back in the order of an internal stream, which waits for queues and is
// waited for, so that neither blocks the host: what allocate() returns may be used on a queue after
// order_after(), and work queued before order_before() still has the memory that is released later.
// Without pools releasing waits for the device.
class MemoryPool {
 public:
  explicit MemoryPool(int device);
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();  // when what was released is free

  // Throws Error{kMemory} with the bytes asked for and the bytes left.
  void* allocate(std::int64_t bytes);
  void release(void* data) noexcept;
  // Bytes that no allocation of any process holds, those this pool keeps for reuse included.
  std::int64_t available_bytes() const;

  void order_after(cudaStream_t queue);
  void order_before(cudaStream_t queue) noexcept;

 private:
  void* try_allocate(std::int64_t bytes);  // null if there is too little

  Pool pool_;  // null: there are none
  Stream stream_;
  Event taken_;     // recorded on stream_ by order_after
  Event finished_;  // recorded on a queue by order_before
};

// Gives memory back to its pool; the owner sees to order_before().
struct PoolDeleter {
  MemoryPool* pool = nullptr;
  void operator()(void* data) const noexcept { pool->release(data); }
};
using PoolMemory = std::unique_ptr<void, PoolDeleter>;

}  // namespace atl::cuda
