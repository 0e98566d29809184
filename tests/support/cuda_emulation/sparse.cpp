// cuSPARSE: descriptors and the product of a sparse with a dense matrix.
#include <cusparse.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/support/cuda_emulation/matrices.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

struct cusparseContext {
  cudaStream_t stream = nullptr;
};

// The product that a matrix was prepared for.
struct Preparation {
  const void* buffer = nullptr;
  cusparseSpMMAlg_t algorithm = CUSPARSE_SPMM_ALG_DEFAULT;
  std::int64_t width = 0;
  std::int64_t b_leading = 0;
  std::int64_t c_leading = 0;
  cudaDataType c_type = CUDA_R_32F;
  bool operator==(const Preparation&) const = default;
};

struct cusparseSpMatDescr {
  std::int64_t rows, columns, entries;
  const void* offsets;
  const void* indices;
  const void* values;
  cusparseIndexType_t offset_type, index_type;
  cusparseIndexBase_t base;
  cudaDataType value_type;
  mutable Preparation prepared{};  // as in the library, also behind a constant handle
};

struct cusparseDnMatDescr {
  std::int64_t rows, columns, leading;
  void* values;
  cudaDataType type;
  cusparseOrder_t order;
  std::int64_t index(std::int64_t row, std::int64_t column) const {
    return order == CUSPARSE_ORDER_ROW ? row * leading + column : column * leading + row;
  }
};

namespace {

// The status that a test wants of this call; nothing: none.
std::optional<cusparseStatus_t> injected(const char* function) {
  const int failure = injected_failure(function);
  if (failure == 0) return std::nullopt;
  return static_cast<cusparseStatus_t>(failure);
}

std::int64_t load_index(const void* base, cusparseIndexType_t type, std::int64_t i) {
  return type == CUSPARSE_INDEX_64I ? static_cast<const std::int64_t*>(base)[i]
                                    : static_cast<const std::int32_t*>(base)[i];
}

constexpr std::size_t kBufferBytes = 1024;

bool is_csr(cusparseSpMMAlg_t algorithm) {
  return algorithm == CUSPARSE_SPMM_ALG_DEFAULT || algorithm == CUSPARSE_SPMM_CSR_ALG1 ||
         algorithm == CUSPARSE_SPMM_CSR_ALG2 || algorithm == CUSPARSE_SPMM_CSR_ALG3;
}

bool is_index_type(cusparseIndexType_t type) {
  return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I;
}

struct SparseProduct {
  cusparseSpMatDescr a;
  cusparseDnMatDescr b, c;
  bool transpose_b;
  float alpha, beta;
  bool wide_sums;  // in double, so that their order does not show
  bool backwards;  // from the last edge to the first
  bool pads;       // reads the first row of b for no entry: CSR_ALG3 does
};

// ALG2 is not promised to repeat, and here it does not: it adds in f32, and every other call
// backwards.
void set_order(SparseProduct& product, cusparseSpMMAlg_t algorithm) {
  static std::atomic<unsigned> calls{0};
  product.wide_sums = algorithm != CUSPARSE_SPMM_CSR_ALG2;
  product.backwards = !product.wide_sums && ++calls % 2 == 0;
  product.pads = algorithm == CUSPARSE_SPMM_CSR_ALG3;
}

template <typename Sum>
void multiply_by(const SparseProduct& p) {
  std::vector<Sum> sums(static_cast<std::size_t>(p.c.columns));
  const auto base = static_cast<std::int64_t>(p.a.base);
  for (std::int64_t row = 0; row < p.a.rows; ++row) {
    sums.assign(sums.size(), Sum{0});
    const std::int64_t begin = load_index(p.a.offsets, p.a.offset_type, row) - base;
    const std::int64_t end = load_index(p.a.offsets, p.a.offset_type, row + 1) - base;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t e = p.backwards ? end - 1 - (k - begin) : k;
      const std::int64_t inner = load_index(p.a.indices, p.a.index_type, e) - base;
      const Sum weight = load_element(p.a.values, p.a.value_type, e);
      for (std::int64_t column = 0; column < p.c.columns; ++column) {
        const std::int64_t at = p.transpose_b ? p.b.index(column, inner) : p.b.index(inner, column);
        sums[static_cast<std::size_t>(column)] += weight * load_element(p.b.values, p.b.type, at);
      }
    }
    for (std::int64_t column = 0; p.pads && column < p.c.columns; ++column) {
      const std::int64_t at = p.transpose_b ? p.b.index(column, 0) : p.b.index(0, column);
      sums[static_cast<std::size_t>(column)] += Sum{0} * load_element(p.b.values, p.b.type, at);
    }
    for (std::int64_t column = 0; column < p.c.columns; ++column) {
      const std::int64_t at = p.c.index(row, column);
      double value = p.alpha * sums[static_cast<std::size_t>(column)];
      if (p.beta != 0)
        value += static_cast<double>(p.beta) * load_element(p.c.values, p.c.type, at);
      store_element(p.c.values, p.c.type, at, static_cast<float>(value));
    }
  }
}

void multiply(const SparseProduct& p) {
  if (p.wide_sums) return multiply_by<double>(p);
  multiply_by<float>(p);
}

cusparseStatus_t examine_matrix(cusparseHandle_t handle, cusparseOperation_t op_a,
                                cusparseOperation_t op_b, const cusparseSpMatDescr* a,
                                const cusparseDnMatDescr* b, const cusparseDnMatDescr* c,
                                cudaDataType compute) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (a == nullptr || b == nullptr || c == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  if (op_a != CUSPARSE_OPERATION_NON_TRANSPOSE || compute != CUDA_R_32F) {
    return CUSPARSE_STATUS_NOT_SUPPORTED;
  }
  const bool bt = op_b != CUSPARSE_OPERATION_NON_TRANSPOSE;
  if ((bt ? b->columns : b->rows) != a->columns || (bt ? b->rows : b->columns) != c->columns ||
      c->rows != a->rows) {
    return CUSPARSE_STATUS_INVALID_VALUE;
  }
  // Rows are read 16 bytes at a time. The library looks at where the first one starts alone, and
  // its kernel faults at the next; nobody shall come to that.
  for (const cusparseDnMatDescr* dense : {b, c}) {
    const std::int64_t stride = dense->leading * (dense->type == CUDA_R_16BF ? 2 : 4);
    if (reinterpret_cast<std::uintptr_t>(dense->values) % 16 != 0 || stride % 16 != 0) {
      return CUSPARSE_STATUS_INVALID_VALUE;
    }
  }
  // The library wants equal inputs, and a result of their type or float.
  if (a->value_type != b->type || (c->type != b->type && c->type != CUDA_R_32F)) {
    return CUSPARSE_STATUS_NOT_SUPPORTED;
  }
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t make_dense(cusparseDnMatDescr** matrix, const cusparseDnMatDescr& values) {
  const bool by_rows = values.order == CUSPARSE_ORDER_ROW;
  if (!is_element_type(values.type)) return CUSPARSE_STATUS_NOT_SUPPORTED;
  if (values.rows < 0 || values.columns < 0 ||
      values.leading < (by_rows ? values.columns : values.rows)) {
    return CUSPARSE_STATUS_INVALID_VALUE;
  }
  *matrix = new cusparseDnMatDescr(values);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t make_sparse(cusparseSpMatDescr** matrix, const cusparseSpMatDescr& values) {
  if (!is_element_type(values.value_type)) return CUSPARSE_STATUS_NOT_SUPPORTED;
  if (!is_index_type(values.offset_type) || !is_index_type(values.index_type) || values.rows < 0 ||
      values.columns < 0 || values.entries < 0) {
    return CUSPARSE_STATUS_INVALID_VALUE;
  }
  *matrix = new cusparseSpMatDescr(values);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  if (runtime().devices.empty()) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *handle = new cusparseContext;
  Lock lock(runtime().mutex);
  ++runtime().library_handles_made;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION   ? CUSPARSE_VER_MAJOR
           : type == MINOR_VERSION ? CUSPARSE_VER_MINOR
                                   : CUSPARSE_VER_PATCH;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  delete handle;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}

const char* cusparseGetErrorName(cusparseStatus_t status) {
  switch (status) {
    case CUSPARSE_STATUS_SUCCESS:
      return "CUSPARSE_STATUS_SUCCESS";
    case CUSPARSE_STATUS_NOT_INITIALIZED:
      return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case CUSPARSE_STATUS_ALLOC_FAILED:
      return "CUSPARSE_STATUS_ALLOC_FAILED";
    case CUSPARSE_STATUS_INVALID_VALUE:
      return "CUSPARSE_STATUS_INVALID_VALUE";
    case CUSPARSE_STATUS_ARCH_MISMATCH:
      return "CUSPARSE_STATUS_ARCH_MISMATCH";
    case CUSPARSE_STATUS_MAPPING_ERROR:
      return "CUSPARSE_STATUS_MAPPING_ERROR";
    case CUSPARSE_STATUS_EXECUTION_FAILED:
      return "CUSPARSE_STATUS_EXECUTION_FAILED";
    case CUSPARSE_STATUS_INTERNAL_ERROR:
      return "CUSPARSE_STATUS_INTERNAL_ERROR";
    case CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED:
      return "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED";
    case CUSPARSE_STATUS_ZERO_PIVOT:
      return "CUSPARSE_STATUS_ZERO_PIVOT";
    case CUSPARSE_STATUS_NOT_SUPPORTED:
      return "CUSPARSE_STATUS_NOT_SUPPORTED";
    case CUSPARSE_STATUS_INSUFFICIENT_RESOURCES:
      return "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES";
  }
  return "unknown error";
}

const char* cusparseGetErrorString(cusparseStatus_t status) { return cusparseGetErrorName(status); }

cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* matrix, int64_t rows, int64_t columns,
                                   int64_t entries, void* offsets, void* indices, void* values,
                                   cusparseIndexType_t offset_type, cusparseIndexType_t index_type,
                                   cusparseIndexBase_t base, cudaDataType value_type) {
  if (const auto failure = injected("cusparseCreateCsr")) return *failure;
  if (entries > rows * columns) return CUSPARSE_STATUS_INVALID_VALUE;  // as seen of version 12.6
  return make_sparse(matrix, {rows, columns, entries, offsets, indices, values, offset_type,
                              index_type, base, value_type});
}

cusparseStatus_t cusparseCreateConstCsr(cusparseConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t columns, int64_t entries, const void* offsets,
                                        const void* indices, const void* values,
                                        cusparseIndexType_t offset_type,
                                        cusparseIndexType_t index_type, cusparseIndexBase_t base,
                                        cudaDataType value_type) {
  cusparseSpMatDescr* made = nullptr;
  const cusparseStatus_t status =
      make_sparse(&made, {rows, columns, entries, offsets, indices, values, offset_type, index_type,
                          base, value_type});
  *matrix = made;
  return status;
}

cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix) {
  delete matrix;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* matrix, int64_t rows, int64_t columns,
                                     int64_t leading, void* values, cudaDataType type,
                                     cusparseOrder_t order) {
  return make_dense(matrix, {rows, columns, leading, values, type, order});
}

cusparseStatus_t cusparseCreateConstDnMat(cusparseConstDnMatDescr_t* matrix, int64_t rows,
                                          int64_t columns, int64_t leading, const void* values,
                                          cudaDataType type, cusparseOrder_t order) {
  cusparseDnMatDescr* made = nullptr;
  const cusparseStatus_t status =
      make_dense(&made, {rows, columns, leading, const_cast<void*>(values), type, order});
  *matrix = made;
  return status;
}

cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix) {
  delete matrix;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t op_a,
                                         cusparseOperation_t op_b, const void*,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                         const void*, cusparseDnMatDescr_t c, cudaDataType compute,
                                         cusparseSpMMAlg_t algorithm, size_t* bytes) {
  // Some size, so that callers have to provide the buffer.
  *bytes = kBufferBytes;
  if (const auto failure = injected("cusparseSpMM_bufferSize")) return *failure;
  if (!is_csr(algorithm)) return CUSPARSE_STATUS_NOT_SUPPORTED;
  return examine_matrix(handle, op_a, op_b, a, b, c, compute);
}

cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t handle, cusparseOperation_t op_a,
                                         cusparseOperation_t op_b, const void*,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                         const void*, cusparseDnMatDescr_t c, cudaDataType compute,
                                         cusparseSpMMAlg_t algorithm, void* buffer) {
  if (const auto failure = injected("cusparseSpMM_preprocess")) return *failure;
  if (buffer == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t status = examine_matrix(handle, op_a, op_b, a, b, c, compute);
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  a->prepared = Preparation{buffer, algorithm, b->columns, b->leading, c->leading, c->type};
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t op_a,
                              cusparseOperation_t op_b, const void* alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                              const void* beta, cusparseDnMatDescr_t c, cudaDataType compute,
                              cusparseSpMMAlg_t algorithm, void* buffer) {
  if (const auto failure = injected("cusparseSpMM")) return *failure;
  const cusparseStatus_t status = examine_matrix(handle, op_a, op_b, a, b, c, compute);
  if (status != CUSPARSE_STATUS_SUCCESS) return status;
  if (buffer == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  // A preparation for one product must not be used for another.
  const Preparation now{buffer, algorithm, b->columns, b->leading, c->leading, c->type};
  if (a->prepared.buffer == buffer && a->prepared != now) return CUSPARSE_STATUS_INVALID_VALUE;
  SparseProduct product{};
  product.a = *a;
  product.b = *b;
  product.c = *c;
  product.transpose_b = op_b != CUSPARSE_OPERATION_NON_TRANSPOSE;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  set_order(product, algorithm);
  const cudaError_t error = api([&](Lock& lock) {
    Stream* const stream = find_stream(handle->stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return enqueue(
        *stream, [product] { multiply(product); }, lock);
  });
  return error == cudaSuccess ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_EXECUTION_FAILED;
}
