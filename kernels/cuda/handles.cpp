#include "kernels/cuda/handles.hpp"

namespace atl::cuda {

void fail_call(cudaError_t status, const char* call) {
  cudaGetLastError();  // an error that is not sticky would surface again in the next launch
  const bool memory = status == cudaErrorMemoryAllocation;
  fail(memory ? ErrorKind::kMemory : ErrorKind::kDevice, "CUDA: {}: {} ({})", call,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

namespace {

// After a device has failed, libraries say only that nothing ran; another rank may have been the
// cause. Throws with the device's own error where there is one.
void fail_with_device(const char* call) {
  const cudaError_t cause = cudaStreamQuery(nullptr);
  if (cause != cudaSuccess && cause != cudaErrorNotReady) fail_call(cause, call);
}

}  // namespace

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) fail_with_device(call);
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  fail(memory ? ErrorKind::kMemory : ErrorKind::kDevice, "cuBLAS: {}: {} ({})", call,
       libraries().cublasGetStatusString(status), libraries().cublasGetStatusName(status));
}

void check(cusparseStatus_t status, const char* call) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  if (status == CUSPARSE_STATUS_EXECUTION_FAILED) fail_with_device(call);
  const std::string message =
      fmt::format("cuSPARSE: {}: {} ({})", call, libraries().cusparseGetErrorString(status),
                  libraries().cusparseGetErrorName(status));
  switch (status) {
    case CUSPARSE_STATUS_ALLOC_FAILED:
      throw Error(ErrorKind::kMemory, message);
    case CUSPARSE_STATUS_EXECUTION_FAILED:
    case CUSPARSE_STATUS_INTERNAL_ERROR:
    case CUSPARSE_STATUS_NOT_INITIALIZED:
      throw Error(ErrorKind::kDevice, message);
    default:
      throw SparseRefusal(ErrorKind::kDevice, message);
  }
}

namespace {

template <typename Handle, typename Status>
UniqueHandle<HandleTraits<Handle>> take_handle(int device, Status (*create)(Handle*),
                                               const char* call) {
  auto taken = idle_handles<Handle>().take(device);
  if (taken) return taken;
  Handle handle = nullptr;
  check(create(&handle), call);
  return UniqueHandle<HandleTraits<Handle>>(handle);
}

}  // namespace

Blas take_blas(int device) { return take_handle(device, libraries().cublasCreate, "cublasCreate"); }

BlasLt take_blas_lt(int device) {
  return take_handle(device, libraries().cublasLtCreate, "cublasLtCreate");
}

Sparse take_sparse(int device) {
  return take_handle(device, libraries().cusparseCreate, "cusparseCreate");
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace atl::cuda
