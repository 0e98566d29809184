// cuBLAS: handles and the matrix product.
#include <cublas_v2.h>

#include <algorithm>

#include "tests/support/cuda_emulation/gemm.hpp"
#include "tests/support/cuda_emulation/matrices.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (runtime().devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  Lock lock(runtime().mutex);
  ++runtime().library_handles_made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* workspace, size_t size) {
  return workspace == nullptr && size > 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transpose_a,
                               cublasOperation_t transpose_b, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType a_type, int64_t lda,
                               const void* b, cudaDataType b_type, int64_t ldb, const void* beta,
                               void* c, cudaDataType c_type, int64_t ldc,
                               cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool at = transpose_a != CUBLAS_OP_N;
  const bool bt = transpose_b != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < std::max<int64_t>(1, at ? k : m) ||
      ldb < std::max<int64_t>(1, bt ? n : k) || ldc < std::max<int64_t>(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // The combinations of the library: equal inputs; a float product is never stored as bfloat16.
  if (!is_element_type(a_type) || !is_element_type(c_type) || a_type != b_type ||
      (a_type == CUDA_R_32F && c_type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;

  Product product{};
  product.m = m;
  product.n = n;
  product.k = k;
  product.transpose_a = at;
  product.transpose_b = bt;
  product.a = {const_cast<void*>(a), a_type, lda, false};
  product.b = {const_cast<void*>(b), b_type, ldb, false};
  product.c = product.d = {c, c_type, ldc, false};
  product.tf32 =
      compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
      (compute == CUBLAS_COMPUTE_32F && (handle->math & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH);
  const bool scalars_on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  if (!scalars_on_device) {
    product.alpha = *static_cast<const float*>(alpha);
    product.beta = *static_cast<const float*>(beta);
  }
  const cudaError_t error = api([&](Lock& lock) {
    Stream* const stream = find_stream(handle->stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return enqueue(
        *stream,
        [=]() mutable {
          if (scalars_on_device) {
            product.alpha = *static_cast<const float*>(alpha);
            product.beta = *static_cast<const float*>(beta);
          }
          multiply(product);
        },
        lock);
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmEx_64(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, b,
                         b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transpose_a,
                              cublasOperation_t transpose_b, int m, int n, int k,
                              const float* alpha, const float* a, int lda, const float* b, int ldb,
                              const float* beta, float* c, int ldc) {
  return cublasGemmEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, CUDA_R_32F, lda, b,
                      CUDA_R_32F, ldb, beta, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT);
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
