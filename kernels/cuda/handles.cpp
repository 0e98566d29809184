#include "kernels/cuda/handles.hpp"

#include "base/error.hpp"

namespace atl::cuda {

void fail_call(cudaError_t status, const char* call) {
  cudaGetLastError();  // an error that is not sticky would surface again in the next launch
  fail(ErrorKind::kDevice, "CUDA: {}: {} ({})", call, cudaGetErrorString(status),
       cudaGetErrorName(status));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorKind::kDevice, "cuBLAS: {}: {} ({})", call, libraries().cublasGetStatusString(status),
       libraries().cublasGetStatusName(status));
}

void check(cusparseStatus_t status, const char* call) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  fail(ErrorKind::kDevice, "cuSPARSE: {}: {} ({})", call,
       libraries().cusparseGetErrorString(status), libraries().cusparseGetErrorName(status));
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace atl::cuda
