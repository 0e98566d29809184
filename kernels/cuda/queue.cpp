#include "kernels/cuda/queue.hpp"

#include "base/error.hpp"

namespace atl::cuda {

namespace {

Stream make_stream(QueuePriority priority) {
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

}  // namespace

CudaQueue::CudaQueue(const Device& device, MemoryPool& memory, QueueList& queues,
                     QueuePriority priority)
    : memory_(memory),
      queues_(queues),
      stream_(make_stream(priority)),
      done_(make_event()),
      workspace_(memory.allocate(kWorkspaceBytes), PoolDeleter{&memory}),
      product_rows_(memory.allocate(kProductBytes), PoolDeleter{&memory}),
      launch_{stream_.get(),
              device.multiprocessors,
              {static_cast<std::byte*>(workspace_.get()), kWorkspaceBytes}},
      blas_(make_blas(launch_)),
      blas_lt_(make_blas_lt()),
      sparse_(make_sparse(stream_.get())) {
  memory_.order_after(stream_.get());
  queues_.push_back(this);
}

CudaQueue::~CudaQueue() {
  memory_.order_before(stream_.get());
  std::erase(queues_, this);
}

void CudaQueue::wait_for(const CudaQueue& before) {
  check(cudaEventRecord(before.done_.get(), before.stream()), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream(), before.done_.get()), "cudaStreamWaitEvent");
}

}  // namespace atl::cuda
