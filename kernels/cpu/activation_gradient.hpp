// The gradient of dropout(relu(.)), row by row.
#pragma once

#include "kernels/cpu/vectors.hpp"
#include "kernels/views.hpp"

namespace atl {

// Rows `range` of activation.dx, from those of dy, all of type T.
template <int kBytes, typename T>
ATOLL_INLINE inline void activation_gradient_rows(const ActivationGradient& activation,
                                                  ConstMatrixView dy, RowRange range) {
  const float scale = activation.dropout_scale;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const T* output = activation.y.row<T>(i);
    const T* gradient = dy.row<T>(i);
    T* to = activation.dx.row<T>(i);
    for_columns<kBytes>(0, dy.cols, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
      using Columns = Pair<kUnit>;
      typename Columns::Floats kept[2];
      typename Columns::Floats values[2];
      Columns::load(output + j, part, kept);
      Columns::load(gradient + j, part, values);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        values[r] = kept[r] != 0.0F ? values[r] * scale : typename Columns::Floats{};
      }
      Columns::store(values, part, to + j);
    });
  }
}

}  // namespace atl
