// Products of f32 matrices of which one is tall, in registers of AVX-512: with the same bits as
// oneDNN's, but the tall one is read where it lies, and ahead of its use. oneDNN keeps what does
// not fit: fewer than 16 columns, blocks of a few rows, results larger than the second-level cache.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/cpu/simd.hpp"

namespace atl {

// The longest sum that is made in one go; longer ones are sums of such.
inline constexpr std::int64_t kMostInner = 384;

// How many floats a factor of inner x cols takes as panels.
std::int64_t panel_floats(std::int64_t inner, std::int64_t cols);

// op(b) as panels at `to`. Best where lines of the cache begin.
void store_as_panels(Transpose transpose, ConstMatrixView b, float* to);

// c = a op(b) + beta c for the panels of op(b), beta 0 or 1, by the calling thread, on processors
// that have AVX-512: as multiply() of product.hpp, and with its bits where c has at least 32 rows
// and two columns. a has at most kMostInner columns.
void multiply_panels(ConstMatrixView a, const float* panels, double beta, MatrixView c);

// How many floats of memory multiply_transposed_panels() takes.
std::int64_t transposed_panels_floats(std::int64_t a_cols, std::int64_t b_cols);

// c = a^T b, likewise, with its bits where c has at least two rows and columns; a may have any
// number of rows.
void multiply_transposed_panels(ConstMatrixView a, ConstMatrixView b, float* memory, MatrixView c);

}  // namespace atl
