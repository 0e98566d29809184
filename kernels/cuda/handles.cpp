#include "kernels/cuda/handles.hpp"

namespace atl::cuda {

void fail_call(cudaError_t status, const char* call) {
  cudaGetLastError();  // an error that is not sticky would surface again in the next launch
  const bool memory = status == cudaErrorMemoryAllocation;
  fail(memory ? ErrorKind::kMemory : ErrorKind::kDevice, "CUDA: {}: {} ({})", call,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

namespace {

// Of a device that has failed libraries say only that nothing ran; another rank may have been the
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

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace atl::cuda
