// The functions of cuBLAS, cuBLASLt and cuSPARSE that this backend calls, found when it is first
// used: these libraries are large (210 MB of memory and 0.1 s for each process that loads them) and
// absent on machines without a toolkit, where the program shall run on the CPU.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cusparse.h>

// As the libraries export them; without the suffixes they are macros of the headers.
#define ATOLL_CUBLAS_FUNCTIONS(X) \
  X(cublasCreate_v2)              \
  X(cublasDestroy_v2)             \
  X(cublasSetStream_v2)           \
  X(cublasSetWorkspace_v2)        \
  X(cublasSetMathMode)            \
  X(cublasGemmEx_64)              \
  X(cublasGetStatusString)        \
  X(cublasGetStatusName)
#define ATOLL_CUBLAS_LT_FUNCTIONS(X)      \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmul)
#define ATOLL_CUSPARSE_FUNCTIONS(X) \
  X(cusparseCreate)                 \
  X(cusparseDestroy)                \
  X(cusparseGetProperty)            \
  X(cusparseSetStream)              \
  X(cusparseGetErrorString)         \
  X(cusparseGetErrorName)           \
  X(cusparseCreateCsr)              \
  X(cusparseDestroySpMat)           \
  X(cusparseCreateDnMat)            \
  X(cusparseDestroyDnMat)           \
  X(cusparseSpMM_bufferSize)        \
  X(cusparseSpMM_preprocess)        \
  X(cusparseSpMM)

namespace atl::cuda {

#define ATOLL_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
struct Libraries {
  ATOLL_CUBLAS_FUNCTIONS(ATOLL_DECLARE_FUNCTION)
  ATOLL_CUBLAS_LT_FUNCTIONS(ATOLL_DECLARE_FUNCTION)
  ATOLL_CUSPARSE_FUNCTIONS(ATOLL_DECLARE_FUNCTION)
};
#undef ATOLL_DECLARE_FUNCTION

// Loads them on the first call (load_cuda_library). Throws Error{kDevice} that names what was not
// found.
const Libraries& libraries();

}  // namespace atl::cuda
