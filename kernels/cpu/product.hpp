// One matrix product by one thread: what the cpu backend leaves to oneDNN. On the tall shapes of
// layers it reached 109 GFLOP/s with 256 columns and 81 with 40, OpenBLAS 94 and 59, BLIS 100 and
// 65; and it multiplies bf16 where the processor does. Other products are the backend's own: tiles
// and tiles_transposed (AMX), panels (AVX-512).
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"

namespace atl {

// The shape of op(b) as the right factor of a product: `inner` rows, which are summed over, and
// `cols` columns.
struct FactorShape {
  std::int64_t inner;
  std::int64_t cols;
};
inline FactorShape factor_shape(Transpose transpose, ConstMatrixView b) {
  if (transpose == Transpose::kYes) return {b.cols, b.rows};
  return {b.rows, b.cols};
}

// True if multiply() takes bf16 here, which it does where the processor multiplies it (AVX512-BF16
// and newer).
bool multiplies_bf16();

// c = op(a) op(b) + beta c by the calling thread alone, beta 0 or 1. a and b are both f32, or both
// bf16 if multiplies_bf16(); c is f32, or with beta 0 of the type of a: sums in f32, rounded once,
// those below 2^-126 to zero. Several threads may call it at once. The same operands give the same
// bits. b need not have whole rows in memory that follow each other: strides count.
void multiply(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
              double beta, MatrixView c);

}  // namespace atl
