// A queue of the cuda backend: a stream with the library handles that are its own while it lives.
// It gets them when they are first used: queues that only carry messages need none.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/handles.hpp"
#include "kernels/cuda/memory.hpp"

namespace atl::cuda {

class CudaQueue;

// The queues of one backend that live now.
using QueueList = std::vector<CudaQueue*>;

// Library calls of a queue use its workspace, too: they are operations like any other.
class CudaQueue final : public Queue {
 public:
  // The memory and the list must outlive the queue. workspace_bytes: kWorkspaceBytes, or 0 where
  // nothing is launched.
  CudaQueue(const Device& device, MemoryPool& memory, QueueList& queues, QueuePriority priority,
            std::int64_t workspace_bytes);
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;
  ~CudaQueue() override;

  void* native_handle() const override { return stream_.get(); }

  cudaStream_t stream() const { return stream_.get(); }
  const Launch& launch() const {
    ATOLL_ASSERT(workspace_, "a queue for copies alone");
    return launch_;
  }
  // Not for the first time while recording.
  cublasHandle_t blas();
  cublasLtHandle_t blas_lt();
  cusparseHandle_t sparse();
  // Work queued on this queue from now on runs after what `before` holds now.
  void wait_for(const CudaQueue& before);
  BiasedProducts& products() { return products_; }
  // Scratch of kProductBytes for rows of a product, while the workspace is cuBLAS's. Not for the
  // first time while recording.
  std::span<std::byte> product_rows();

 private:
  void require_no_recording(const char* what) const;

  int device_;
  MemoryPool& memory_;
  QueueList& queues_;
  Stream stream_;
  Event done_;  // recorded on this stream for another to wait for
  PoolMemory workspace_;
  PoolMemory product_rows_;
  Launch launch_;
  Blas blas_;
  BlasLt blas_lt_;
  Sparse sparse_;
  BiasedProducts products_;
};

}  // namespace atl::cuda
