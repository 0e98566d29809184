// Kernels of this backend that other files launch, too: parts of several operations. Views are in
// device memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/launch.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

// elementwise.cu. As kernels::FillZero, Convert and ApplyEpilogue.
void fill_zero(const Launch& where, MatrixView y);
void convert(const Launch& where, ConstMatrixView x, MatrixView y);
void apply_epilogue(const Launch& where, ConstMatrixView x, const Epilogue& epilogue, MatrixView y);

// sparse_sums.cu
// y = factor * x, row by row; both bf16.
void scale_rows(const Launch& where, ConstMatrixView x, std::span<const float> factors,
                MatrixView y);
// y = epilogue(beta * y + row_scale * sums) in bf16, each element rounded once, from sums in f32,
// which it overwrites. beta 0 or 1; row_scale empty: 1.
void finish_sums(const Launch& where, MatrixView sums, std::span<const float> row_scale,
                 double beta, const Epilogue& epilogue, MatrixView y);

// matrix_entries.cu, of an ExplicitMatrix
// row_ptr of the range, which has size() + 1 elements.
void count_entries(const Launch& where, const SparseOperator& op, RowRange range,
                   std::span<std::int32_t> row_ptr);
void fill_entries(const Launch& where, const SparseOperator& op, RowRange range, DType dtype,
                  const std::int32_t* row_ptr, std::int32_t* col_idx, void* values);
void largest_column(const Launch& where, std::span<const std::int32_t> col_idx, std::int32_t* out);
// How many of the values are no bf16 numbers.
void count_rounded(const Launch& where, std::span<const float> values, std::int64_t* out);
// A number that, but for one case in 2^64, is the same only for the same bits.
void fingerprint(const Launch& where, ConstMatrixView x, std::uint64_t* out);

}  // namespace atl::cuda
