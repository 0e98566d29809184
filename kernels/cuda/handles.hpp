// Owners of the handles that CUDA and its libraries give out, and checks of what their calls
// return.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusparse.h>

#include "base/unique_handle.hpp"
#include "kernels/cuda/launch.hpp"

namespace atl::cuda {

template <typename Handle, auto kDestroy>
struct HandleTraits {
  using Value = Handle;
  static Value null() { return nullptr; }
  // What destroying returns is an error of earlier work, which synchronize() reports.
  static void release(Value value) noexcept { static_cast<void>(kDestroy(value)); }
};

using Stream = UniqueHandle<HandleTraits<cudaStream_t, cudaStreamDestroy>>;
using Event = UniqueHandle<HandleTraits<cudaEvent_t, cudaEventDestroy>>;
using Pool = UniqueHandle<HandleTraits<cudaMemPool_t, cudaMemPoolDestroy>>;
using Graph = UniqueHandle<HandleTraits<cudaGraph_t, cudaGraphDestroy>>;
using GraphExec = UniqueHandle<HandleTraits<cudaGraphExec_t, cudaGraphExecDestroy>>;
using Blas = UniqueHandle<HandleTraits<cublasHandle_t, cublasDestroy>>;
using BlasLt = UniqueHandle<HandleTraits<cublasLtHandle_t, cublasLtDestroy>>;
using Product = UniqueHandle<HandleTraits<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = UniqueHandle<HandleTraits<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    UniqueHandle<HandleTraits<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;
using Sparse = UniqueHandle<HandleTraits<cusparseHandle_t, cusparseDestroy>>;
using SparseMatrix = UniqueHandle<HandleTraits<cusparseSpMatDescr_t, cusparseDestroySpMat>>;
using DenseMatrix = UniqueHandle<HandleTraits<cusparseDnMatDescr_t, cusparseDestroyDnMat>>;

// Throw Error{kDevice} that names the call and the library's error.
void check(cublasStatus_t status, const char* call);
void check(cusparseStatus_t status, const char* call);

Event make_event();  // without timing, which makes it cheaper to wait for

}  // namespace atl::cuda
