// cuBLASLt: descriptors and the matrix product with an epilogue.
#include <cublasLt.h>

#include <cstring>
#include <map>

#include "tests/support/cuda_emulation/gemm.hpp"
#include "tests/support/cuda_emulation/matrices.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale_type;
  std::int32_t transpose_a = CUBLAS_OP_N;
  std::int32_t transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // the type of D
};

struct cublasLtMatrixLayoutOpaque_t {
  std::uint32_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t order = CUBLASLT_ORDER_COL;
};

struct cublasLtMatmulPreferenceOpaque_t {
  std::map<cublasLtMatmulPreferenceAttributes_t, std::uint64_t> values;
  std::uint64_t alignment(cublasLtMatmulPreferenceAttributes_t attribute) const {
    const auto found = values.find(attribute);
    return found == values.end() ? 256 : found->second;
  }
};

namespace {

template <typename T>
cublasStatus_t assign(T& member, const void* buffer, size_t bytes) {
  if (buffer == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, buffer, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cudaDataType element_type(const cublasLtMatrixLayout_t layout) {
  return static_cast<cudaDataType>(layout->type);
}

Matrix matrix(const void* values, const cublasLtMatrixLayout_t layout) {
  return {const_cast<void*>(values), element_type(layout), layout->leading,
          layout->order == CUBLASLT_ORDER_ROW};
}

bool is_valid(const cublasLtMatrixLayout_t layout) {
  const std::uint64_t least = layout->order == CUBLASLT_ORDER_ROW ? layout->columns : layout->rows;
  return layout->leading >= 0 && static_cast<std::uint64_t>(layout->leading) >= least;
}

// Shapes that fit together, and types that the library multiplies.
cublasStatus_t examine(const cublasLtMatmulDesc_t product, const cublasLtMatrixLayout_t a,
                       const cublasLtMatrixLayout_t b, const cublasLtMatrixLayout_t c,
                       const cublasLtMatrixLayout_t d) {
  const bool at = product->transpose_a != CUBLAS_OP_N;
  const bool bt = product->transpose_b != CUBLAS_OP_N;
  const std::uint64_t m = at ? a->columns : a->rows;
  const std::uint64_t k = at ? a->rows : a->columns;
  const std::uint64_t n = bt ? b->rows : b->columns;
  for (const auto layout : {a, b, c, d}) {
    if (!is_valid(layout)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((bt ? b->columns : b->rows) != k || d->rows != m || d->columns != n || c->rows != m ||
      c->columns != n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool types_fit = is_element_type(element_type(a)) && is_element_type(element_type(d)) &&
                         a->type == b->type && c->type == d->type &&
                         (element_type(a) != CUDA_R_32F || element_type(d) == CUDA_R_32F);
  return types_fit ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (runtime().devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext;
  Lock lock(runtime().mutex);
  ++runtime().library_handles_made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout =
      new cublasLtMatrixLayoutOpaque_t{static_cast<std::uint32_t>(type), rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* buffer, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return assign(layout->type, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return assign(layout->order, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return assign(layout->rows, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return assign(layout->columns, buffer, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return assign(layout->leading, buffer, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  if (scale_type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *product = new cublasLtMatmulDescOpaque_t{compute, scale_type};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(product->transpose_a, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(product->transpose_b, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(product->epilogue, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(product->bias, buffer, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(product->bias_type, buffer, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* buffer, size_t bytes) {
  const size_t expected = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
  if (buffer == nullptr || bytes != expected) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t value = 0;
  std::memcpy(&value, buffer, bytes);
  preference->values[attribute] = value;
  return CUBLAS_STATUS_SUCCESS;
}

// The algorithm that is found keeps the alignments it was promised, as the library's may rely on
// them.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  *returned = 0;
  if (requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = examine(product, a, b, c, d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  results[0] = cublasLtMatmulHeuristicResult_t{};
  results[0].algo.data[0] = preference->alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  results[0].algo.data[1] = preference->alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  results[0].algo.data[2] = preference->alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  results[0].algo.data[3] = preference->alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream_handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (const int failure = injected_failure("cublasLtMatmul")) {
    return static_cast<cublasStatus_t>(failure);
  }
  const cublasStatus_t status = examine(description, a_layout, b_layout, c_layout, d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (algorithm != nullptr &&
      !(is_aligned(a, algorithm->data[0]) && is_aligned(b, algorithm->data[1]) &&
        is_aligned(c, algorithm->data[2]) && is_aligned(d, algorithm->data[3]))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool with_bias = (description->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (with_bias && description->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;

  Product product{};
  product.transpose_a = description->transpose_a != CUBLAS_OP_N;
  product.transpose_b = description->transpose_b != CUBLAS_OP_N;
  product.m = static_cast<std::int64_t>(d_layout->rows);
  product.n = static_cast<std::int64_t>(d_layout->columns);
  product.k = static_cast<std::int64_t>(product.transpose_a ? a_layout->rows : a_layout->columns);
  product.a = matrix(a, a_layout);
  product.b = matrix(b, b_layout);
  product.c = matrix(c, c_layout);
  product.d = matrix(d, d_layout);
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.tf32 = description->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  product.relu = (description->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  product.bias = with_bias ? description->bias : nullptr;
  product.bias_type = description->bias_type < 0
                          ? element_type(d_layout)
                          : static_cast<cudaDataType>(description->bias_type);
  const cudaError_t error = api([&](Lock& lock) {
    Stream* const stream = find_stream(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return enqueue(
        *stream, [product] { multiply(product); }, lock);
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
