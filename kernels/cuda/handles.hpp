// Owners of the handles that CUDA and its libraries give out, and checks of what their calls
// return.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/unique_handle.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/libraries.hpp"

namespace atl::cuda {

// Destroying returns errors of earlier work, which synchronize() reports. Handles of the libraries
// exist only where these were loaded.
inline void destroy(cudaStream_t handle) { cudaStreamDestroy(handle); }
inline void destroy(cudaEvent_t handle) { cudaEventDestroy(handle); }
inline void destroy(cudaMemPool_t handle) { cudaMemPoolDestroy(handle); }
inline void destroy(cudaGraph_t handle) { cudaGraphDestroy(handle); }
inline void destroy(cudaGraphExec_t handle) { cudaGraphExecDestroy(handle); }
inline void destroy(cublasHandle_t handle) { libraries().cublasDestroy(handle); }
inline void destroy(cublasLtHandle_t handle) { libraries().cublasLtDestroy(handle); }
inline void destroy(cublasLtMatmulDesc_t handle) { libraries().cublasLtMatmulDescDestroy(handle); }
inline void destroy(cublasLtMatrixLayout_t handle) {
  libraries().cublasLtMatrixLayoutDestroy(handle);
}
inline void destroy(cublasLtMatmulPreference_t handle) {
  libraries().cublasLtMatmulPreferenceDestroy(handle);
}
inline void destroy(cusparseHandle_t handle) { libraries().cusparseDestroy(handle); }
inline void destroy(cusparseSpMatDescr_t handle) { libraries().cusparseDestroySpMat(handle); }
inline void destroy(cusparseDnMatDescr_t handle) { libraries().cusparseDestroyDnMat(handle); }

template <typename Handle>
struct HandleTraits {
  using Value = Handle;
  static Value null() { return nullptr; }
  static void release(Value value) noexcept { destroy(value); }
};

using Stream = UniqueHandle<HandleTraits<cudaStream_t>>;
using Event = UniqueHandle<HandleTraits<cudaEvent_t>>;
using Pool = UniqueHandle<HandleTraits<cudaMemPool_t>>;
using Graph = UniqueHandle<HandleTraits<cudaGraph_t>>;
using GraphExec = UniqueHandle<HandleTraits<cudaGraphExec_t>>;
using Blas = UniqueHandle<HandleTraits<cublasHandle_t>>;
using BlasLt = UniqueHandle<HandleTraits<cublasLtHandle_t>>;
using Product = UniqueHandle<HandleTraits<cublasLtMatmulDesc_t>>;
using Layout = UniqueHandle<HandleTraits<cublasLtMatrixLayout_t>>;
using Preference = UniqueHandle<HandleTraits<cublasLtMatmulPreference_t>>;
using Sparse = UniqueHandle<HandleTraits<cusparseHandle_t>>;
using SparseMatrix = UniqueHandle<HandleTraits<cusparseSpMatDescr_t>>;
using DenseMatrix = UniqueHandle<HandleTraits<cusparseDnMatDescr_t>>;

// Handles of one library that no queue has now. Making one takes a library far longer than anything
// else that a queue needs, and destroying one waits for the whole device. So they stay, each for
// queues of the device it was made on, one queue at a time: libraries allow no two threads.
template <typename Handle>
class IdleHandles {
 public:
  // Null where there is none.
  UniqueHandle<HandleTraits<Handle>> take(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<Handle>& idle = of_device_[device];
    if (idle.empty()) return {};
    const Handle handle = idle.back();
    idle.pop_back();
    return UniqueHandle<HandleTraits<Handle>>(handle);
  }
  // Whose work must have ended.
  void put(int device, UniqueHandle<HandleTraits<Handle>> handle) {
    if (!handle) return;
    const std::lock_guard lock(mutex_);
    of_device_[device].push_back(handle.get());
    handle.leak();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Handle>> of_device_;
};

// Those of this process. Never destroyed: when static objects are, the driver may be gone.
template <typename Handle>
IdleHandles<Handle>& idle_handles() {
  static auto* const only = new IdleHandles<Handle>;
  return *only;
}

// An idle handle of the device, or a new one. Throw as check() does.
Blas take_blas(int device);
BlasLt take_blas_lt(int device);
Sparse take_sparse(int device);

// cuSPARSE does not do here what was asked: it has no kernel for it, or the device not what that
// takes. Nothing was queued, and the device is well. Any status means this but those by which the
// library says that work failed, that itself failed, or that there is no handle.
class SparseRefusal : public Error {
 public:
  using Error::Error;
};

// Throw Error{kDevice} that names the call and the library's error, Error{kMemory} where memory is
// short; of cuSPARSE a SparseRefusal where it is one.
void check(cublasStatus_t status, const char* call);
void check(cusparseStatus_t status, const char* call);

Event make_event();  // without timing, which makes it cheaper to wait for

}  // namespace atl::cuda
