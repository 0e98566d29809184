// SpMM by own kernels: y = epilogue(beta * y + S x) in one pass over edges and rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/indexing.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

// A range of rows and how it is divided; pointers into device memory, from RowBins.
struct SpmmWork {
  RowRange range;
  const std::int32_t* rows = nullptr;  // null: all rows of the range in order, each by a few lanes
  std::int64_t long_rows = 0;          // of these, the first, each by a block
  std::int64_t row_count = 0;          // long rows included, split ones not
  const RowPiece* pieces = nullptr;
  const SplitRow* split = nullptr;
  std::span<const SplitRow> host_split;  // the same in host memory
};

// All rows of a range alike: for operators that nothing was prepared for.
inline SpmmWork undivided(RowRange range) {
  SpmmWork work;
  work.range = range;
  work.row_count = range.size();
  return work;
}

// The range as it was prepared, or undivided. `prepared` may be null.
SpmmWork work_of(const PreparedSparse* prepared, RowRange range);

// As kernels::Spmm. Sums are f32; their order depends on how the range is divided, and on the
// columns of x.
void spmm(const Launch& where, const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
          double beta, MatrixView y, const Epilogue& epilogue);

}  // namespace atl::cuda
