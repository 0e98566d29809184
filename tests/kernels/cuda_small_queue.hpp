// A queue of the cuda backend with less scratch memory than others, so that small matrices are
// computed in as many steps as large ones.
#pragma once

#include "kernels/cuda/queue.hpp"

namespace atl::cuda {

class SmallQueue {
 public:
  explicit SmallQueue(std::int64_t workspace_bytes)
      : device_(choose_device({.device = 0})),
        memory_(device_.index),
        queue_(device_, memory_, queues_, QueuePriority::kNormal, workspace_bytes) {}

  // Computes the operation to its end.
  template <typename Operation>
  void run(Backend& backend, const Operation& operation) {
    backend.run(queue_, operation);
    backend.synchronize(queue_);
  }

 private:
  Device device_;
  MemoryPool memory_;
  QueueList queues_;
  CudaQueue queue_;
};

}  // namespace atl::cuda
