// Rows of matrices, element by element into one more.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/cpu/vectors.hpp"
#include "kernels/views.hpp"

namespace atl {

template <int kBytes, typename T, typename To, typename Function, std::size_t... kInput>
ATOLL_INLINE inline void write_rows_of(std::index_sequence<kInput...>,
                                       const std::array<ConstMatrixView, sizeof...(kInput)>& inputs,
                                       MatrixView y, RowRange range, const Function& f) {
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const T* const from[] = {inputs[kInput].template row<T>(i)...};
    To* to = y.row<To>(i);
    for_columns<kBytes>(0, y.cols, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
      using Columns = Pair<kUnit>;
      typename Columns::Floats values[sizeof...(kInput)][2];
      (Columns::load(from[kInput] + j, part, values[kInput]), ...);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) f(values[kInput][r]...);
      Columns::store(values[0], part, to + j);
    });
  }
}

// Rows `range` of y, which may be one of the inputs: f(value, others...) makes y's f32 registers of
// the first input's `value` and those of the others. Inputs have elements of type T, y of type To.
template <int kBytes, typename T, typename To = T, std::size_t kInputs, typename Function>
ATOLL_INLINE inline void write_rows(const std::array<ConstMatrixView, kInputs>& inputs,
                                    MatrixView y, RowRange range, const Function& f) {
  write_rows_of<kBytes, T, To>(std::make_index_sequence<kInputs>(), inputs, y, range, f);
}

// The gradient of dropout(relu(.)) from its output: rows `range` of activation.dx from those of dy,
// all of type T.
template <int kBytes, typename T>
ATOLL_INLINE inline void relu_gradient_rows(const ActivationGradient& activation,
                                            ConstMatrixView dy, RowRange range) {
  const float scale = activation.dropout.rate.scale;
  write_rows<kBytes, T>(std::array{dy, activation.from}, activation.dx, range,
                        [&]<typename Floats>(Floats& value, const Floats& kept)
                            ATOLL_INLINE { value = kept != 0.0F ? value * scale : Floats{}; });
}

}  // namespace atl
