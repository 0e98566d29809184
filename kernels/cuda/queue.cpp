#include "kernels/cuda/queue.hpp"

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

// A given workspace and one stream per handle make cuBLAS's results the same in every run, and its
// calls fit for recording.
Blas make_blas(const Launch& where) {
  cublasHandle_t handle = nullptr;
  check(libraries().cublasCreate(&handle), "cublasCreate");
  Blas blas(handle);
  check(libraries().cublasSetStream(handle, where.stream), "cublasSetStream");
  check(libraries().cublasSetWorkspace(handle, where.workspace.data(), where.workspace.size()),
        "cublasSetWorkspace");
  // Sums of bf16 products stay f32 until they are complete.
  check(libraries().cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
        "cublasSetMathMode");
  return blas;
}

BlasLt make_blas_lt() {
  cublasLtHandle_t handle = nullptr;
  check(libraries().cublasLtCreate(&handle), "cublasLtCreate");
  return BlasLt(handle);
}

Sparse make_sparse(cudaStream_t stream) {
  cusparseHandle_t handle = nullptr;
  check(libraries().cusparseCreate(&handle), "cusparseCreate");
  Sparse sparse(handle);
  check(libraries().cusparseSetStream(handle, stream), "cusparseSetStream");
  return sparse;
}

std::int64_t cache_bytes(int device) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  return bytes;
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
}

cublasHandle_t CudaQueue::blas() {
  if (!blas_) {
    require_no_recording("a handle of cuBLAS");
    blas_ = make_blas(launch_);
  }
  return blas_.get();
}

cublasLtHandle_t CudaQueue::blas_lt() {
  if (!blas_lt_) {
    require_no_recording("a handle of cuBLASLt");
    blas_lt_ = make_blas_lt();
  }
  return blas_lt_.get();
}

cusparseHandle_t CudaQueue::sparse() {
  if (!sparse_) {
    require_no_recording("a handle of cuSPARSE");
    sparse_ = make_sparse(stream_.get());
  }
  return sparse_.get();
}

std::span<std::byte> CudaQueue::product_rows() {
  if (!product_rows_) {
    require_no_recording("memory for rows of products");
    product_bytes_ = product_bytes(cache_bytes(device_));
    product_rows_ = PoolMemory(memory_.allocate(product_bytes_), PoolDeleter{&memory_});
    memory_.order_after(stream_.get());
  }
  return {static_cast<std::byte*>(product_rows_.get()), static_cast<std::size_t>(product_bytes_)};
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
