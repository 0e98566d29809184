// The gradient of dropout(relu(.)) from its output, row by row.
#pragma once

#include "kernels/cpu/write_rows.hpp"

namespace atl {

// Rows `range` of activation.dx, from those of dy, all of type T.
template <int kBytes, typename T>
ATOLL_INLINE inline void relu_gradient_rows(const ActivationGradient& activation,
                                            ConstMatrixView dy, RowRange range) {
  const float scale = activation.dropout.rate.scale;
  write_rows<kBytes, T>(std::array{dy, activation.from}, activation.dx, range,
                        [&]<typename Floats>(Floats& value, const Floats& kept)
                            ATOLL_INLINE { value = kept != 0.0F ? value * scale : Floats{}; });
}

}  // namespace atl
