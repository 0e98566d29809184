#include "kernels/cuda/queue.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace atl::cuda {

namespace {

Stream make_queue_stream(QueuePriority priority) {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == QueuePriority::kHigh ? highest : lowest),
        "cudaStreamCreateWithPriority");
  return Stream(stream);
}

// Whether its work ends well and soon: a stream may wait for a peer that has failed, so that
// waiting for it might never end.
bool becomes_idle(cudaStream_t stream) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  cudaError_t status = cudaStreamQuery(stream);
  while (status == cudaErrorNotReady && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    status = cudaStreamQuery(stream);
  }
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess;
}

// A given workspace and one stream per handle make cuBLAS's results the same in every run, and its
// calls fit for recording.
Blas make_blas(int device, const Launch& where) {
  Blas blas = take_blas(device);
  check(libraries().cublasSetStream(blas.get(), where.stream), "cublasSetStream");
  check(libraries().cublasSetWorkspace(blas.get(), where.workspace.data(), where.workspace.size()),
        "cublasSetWorkspace");
  // Sums of bf16 products stay f32 until they are complete.
  check(libraries().cublasSetMathMode(blas.get(), CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
        "cublasSetMathMode");
  return blas;
}

Sparse make_sparse(int device, cudaStream_t stream) {
  Sparse sparse = take_sparse(device);
  check(libraries().cusparseSetStream(sparse.get(), stream), "cusparseSetStream");
  return sparse;
}

}  // namespace

CudaQueue::CudaQueue(const Device& device, MemoryPool& memory, QueueList& queues,
                     QueuePriority priority, std::int64_t workspace_bytes)
    : device_(device.index),
      memory_(memory),
      queues_(queues),
      stream_(make_queue_stream(priority)),
      done_(make_event()),
      workspace_(workspace_bytes > 0 ? memory.allocate(workspace_bytes) : nullptr,
                 PoolDeleter{&memory}),
      launch_{
          stream_.get(),
          device.multiprocessors,
          {static_cast<std::byte*>(workspace_.get()), static_cast<std::size_t>(workspace_bytes)}} {
  libraries();  // where they are missing, the first queue says so, not an operation in an epoch
  memory_.order_after(stream_.get());
  queues_.push_back(this);
}

CudaQueue::~CudaQueue() {
  memory_.order_before(stream_.get());
  std::erase(queues_, this);
  // Handles that are still at work, or whose work has failed, are destroyed.
  if ((!blas_ && !blas_lt_ && !sparse_) || !becomes_idle(stream_.get())) return;
  idle_handles<cublasHandle_t>().put(device_, std::move(blas_));
  idle_handles<cublasLtHandle_t>().put(device_, std::move(blas_lt_));
  idle_handles<cusparseHandle_t>().put(device_, std::move(sparse_));
}

cublasHandle_t CudaQueue::blas() {
  if (!blas_) {
    require_no_recording("a handle of cuBLAS");
    blas_ = make_blas(device_, launch_);
  }
  return blas_.get();
}

cublasLtHandle_t CudaQueue::blas_lt() {
  if (!blas_lt_) {
    require_no_recording("a handle of cuBLASLt");
    blas_lt_ = take_blas_lt(device_);
  }
  return blas_lt_.get();
}

cusparseHandle_t CudaQueue::sparse() {
  if (!sparse_) {
    require_no_recording("a handle of cuSPARSE");
    sparse_ = make_sparse(device_, stream_.get());
  }
  return sparse_.get();
}

std::span<std::byte> CudaQueue::product_rows() {
  if (!product_rows_) {
    require_no_recording("memory for rows of products");
    product_rows_ = PoolMemory(memory_.allocate(kProductBytes), PoolDeleter{&memory_});
    memory_.order_after(stream_.get());
  }
  return {static_cast<std::byte*>(product_rows_.get()), static_cast<std::size_t>(kProductBytes)};
}

// All these allocate, which a recording does not survive.
void CudaQueue::require_no_recording(const char* what) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_.get(), &status), "cudaStreamIsCapturing");
  ATOLL_ASSERT(status == cudaStreamCaptureStatusNone,
               "{} is made while recording; run once on this queue what is to be recorded", what);
}

void CudaQueue::wait_for(const CudaQueue& before) {
  check(cudaEventRecord(before.done_.get(), before.stream()), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream(), before.done_.get()), "cudaStreamWaitEvent");
}

}  // namespace atl::cuda
