// Matrix product that both emulated BLAS libraries use.
#pragma once

#include <cublas_v2.h>
#include <library_types.h>

#include <cstdint>

namespace atl::cuda_emulation {

// `leading` is the distance between columns, or between rows of a row-major matrix.
struct Matrix {
  void* values;
  cudaDataType type;
  std::int64_t leading;
  bool row_major;
  std::int64_t index(std::int64_t row, std::int64_t column) const {
    return row_major ? row * leading + column : column * leading + row;
  }
};

struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  Matrix a, b, c, d;
  float alpha, beta;
  bool tf32;  // inputs of type float are rounded as tensor cores do
  bool relu;
  const void* bias;  // one value per row of d, may be null
  cudaDataType bias_type;
};

// d = epilogue(alpha * op(a) * op(b) + beta * c); sums in double. c is not read if beta is 0.
void multiply(const Product& product);

}  // namespace atl::cuda_emulation
