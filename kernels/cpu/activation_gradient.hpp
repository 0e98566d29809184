// The gradient of dropout(relu(.)), row by row.
#pragma once

#include "kernels/cpu/row_pairs.hpp"

namespace atl {

// Rows `range` of activation.dx, from those of dy, all of type T.
template <int kBytes, typename T>
ATOLL_INLINE inline void activation_gradient_rows(const ActivationGradient& activation,
                                                  ConstMatrixView dy, RowRange range) {
  const float scale = activation.dropout_scale;
  write_row_pairs<kBytes, T>(dy, activation.y, activation.dx, range,
                             [&]<typename Floats>(Floats& value, const Floats& kept)
                                 ATOLL_INLINE { value = kept != 0.0F ? value * scale : Floats{}; });
}

}  // namespace atl
