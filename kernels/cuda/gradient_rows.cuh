// How a sum over rows takes its terms: as they lie in memory, or as gradients on their way through
// dropout(relu(.)), which are stored where they are summed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/elements.cuh"

namespace atl::cuda {

// Columns of a matrix from `first` on, with their row's stride.
template <typename Void>
BasicMatrixView<Void> columns_from(BasicMatrixView<Void> view, std::int64_t first) {
  return view.columns_in(first, view.cols - first);
}

template <typename T, int kElements>
struct StoredRows {
  using Element = T;
  using Held = Packed<T, kElements>;
  static constexpr int kUnit = kElements;
  Rows<const T> x;

  __device__ Held load(std::int64_t i, std::int64_t col) const {
    return cuda::load<kUnit>(x.at(i, col));
  }
  __device__ Packed<float, kUnit> take(std::int64_t, std::int64_t, const Held& held) const {
    return widen(held);
  }
};

// Rows of two matrices, read together.
template <typename T, int kElements>
struct RowPairs {
  using Element = T;
  struct Held {
    Packed<T, kElements> first;
    Packed<T, kElements> second;
  };
  static constexpr int kUnit = kElements;
  Rows<const T> a;
  Rows<const T> b;

  __device__ Held load(std::int64_t i, std::int64_t col) const {
    return {cuda::load<kUnit>(a.at(i, col)), cuda::load<kUnit>(b.at(i, col))};
  }
};

// Outputs of relu and dropout, and gradients.
template <typename T, int kElements>
struct ActivationRows : RowPairs<T, kElements> {
  using Held = typename RowPairs<T, kElements>::Held;
  static constexpr int kUnit = kElements;
  float scale;
  Rows<T> dx;
  std::int64_t cols;

  // The term is what is stored, rounded.
  __device__ Packed<float, kUnit> take(std::int64_t i, std::int64_t col, const Held& held) const {
    const Packed<float, kUnit> output = widen(held.first);
    Packed<float, kUnit> wide = widen(held.second);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      wide.values[k] = relu_gradient(output.values[k], wide.values[k], scale);
    }
    const Packed<T, kUnit> gradient = narrow<T>(wide);
    if (col + kUnit <= cols) {
      store(dx.at(i, col), gradient);
    } else {
      store_some(dx.at(i, col), widen(gradient), cols - col);
    }
    return widen(gradient);
  }
};

// Calls body(rows_from): rows_from(first) are the rows of dy, through `activation` unless that is
// absent, from column `first` on, in units that `beside`, a matrix of the same shape, allows, too;
// the last of a row may reach into its padding.
template <typename Body>
void with_gradient_rows(ConstMatrixView dy, const ActivationGradient& activation,
                        ConstMatrixView beside, const Body& body) {
  with_element(dy.dtype, [&]<typename T>(T) {
    if (activation.absent()) {
      with_padded_unit<T>({dy, beside}, [&](auto unit) {
        body([&](std::int64_t first) {
          return StoredRows<T, unit>{rows_of<T>(columns_from(dy, first))};
        });
      });
    } else {
      with_padded_unit<T>({dy, beside, activation.from, activation.dx}, [&](auto unit) {
        body([&](std::int64_t first) {
          return ActivationRows<T, unit>{{rows_of<T>(columns_from(activation.from, first)),
                                          rows_of<T>(columns_from(dy, first))},
                                         activation.dropout.rate.scale,
                                         rows_of<T>(columns_from(activation.dx, first)),
                                         dy.cols - first};
        });
      });
    }
  });
}

}  // namespace atl::cuda
