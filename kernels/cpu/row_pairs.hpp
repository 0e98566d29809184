// Rows of two matrices, element by element into a third.
#pragma once

#include "kernels/cpu/vectors.hpp"
#include "kernels/views.hpp"

namespace atl {

// Rows `range` of y, which may be x or z, all of type T: f(value, other) makes y's f32 registers of
// x's `value` and z's `other`.
template <int kBytes, typename T, typename Function>
ATOLL_INLINE inline void write_row_pairs(ConstMatrixView x, ConstMatrixView z, MatrixView y,
                                         RowRange range, const Function& f) {
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const T* first = x.row<T>(i);
    const T* second = z.row<T>(i);
    T* to = y.row<T>(i);
    for_columns<kBytes>(0, y.cols, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
      using Columns = Pair<kUnit>;
      typename Columns::Floats values[2];
      typename Columns::Floats others[2];
      Columns::load(first + j, part, values);
      Columns::load(second + j, part, others);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) f(values[r], others[r]);
      Columns::store(values, part, to + j);
    });
  }
}

}  // namespace atl
