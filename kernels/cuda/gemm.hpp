// Dense products by cuBLAS, and by cuBLASLt where it adds the bias in the same kernel.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "kernels/backend.hpp"
#include "kernels/cuda/handles.hpp"

namespace atl::cuda {

class CudaQueue;

// Bytes of f32 rows of a product on their way to bf16. On an H200, ogbn-products in bf16, parts
// that fit into the second-level cache were slower than larger ones (docs/gpu.md): they leave
// multiprocessors without a tile, and the memory keeps up.
inline constexpr std::int64_t kProductBytes = std::int64_t{64} << 20;

// Rows of `columns` that `bytes` of f32 hold, padded: what gemm_in_parts takes at a time.
constexpr std::int64_t rows_of_part(std::int64_t bytes, std::int64_t columns) {
  return bytes / (bytes_of(DType::kF32) * padded_columns(columns));
}

// A product in the terms of cuBLAS: column-major, so that the row-major c = op(a) op(b) is
// c^T = op(b)^T op(a)^T with nothing moved.
struct ProductShape {
  std::int64_t m = 0;  // columns of the row-major c
  std::int64_t n = 0;  // its rows
  std::int64_t k = 0;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  ConstMatrixView b;  // cuBLAS's first factor
  ConstMatrixView a;
  MatrixView c;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

// Alignments of the addresses, in bytes and powers of 2: an algorithm may rely on what it was
// promised.
struct Alignments {
  std::uintptr_t first = 0;  // in the terms of cuBLAS: of b
  std::uintptr_t second = 0;
  std::uintptr_t result = 0;
  std::uintptr_t bias = 0;
  auto operator<=>(const Alignments&) const = default;
};

// The choice of cuBLASLt for one shape, strides and alignments; `found` is false where it has
// nothing, or what it chose did not run.
struct BiasedProduct {
  bool found = false;
  Product product;
  Layout first;
  Layout second;
  Layout result;
  cublasLtMatmulAlgo_t algorithm{};
};

// Prepared products with bias of one queue.
class BiasedProducts {
 public:
  // c = op(a) op(b) + beta * c + bias, where cuBLASLt has a kernel for it; false: nothing was done.
  bool run(CudaQueue& queue, const ProductShape& shape, float beta, const void* bias);

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, int, int, DType, int, Alignments>;
  std::map<Key, BiasedProduct> prepared_;
};

// As kernels::Gemm for a bf16 c: epilogues see the f32 sum, and it is rounded once. As many rows at
// a time as fit become f32 in `rows`, get their epilogue there, and are rounded into c.
void gemm_in_parts(CudaQueue& queue, std::span<std::byte> rows, Transpose transpose_a,
                   ConstMatrixView a, Transpose transpose_b, ConstMatrixView b, double beta,
                   MatrixView c, const Epilogue& epilogue);

}  // namespace atl::cuda
