// Matrices of which a thread computes one element.
#pragma once

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.hpp"

namespace atl::cuda {

// y = f(i, c), an element per thread.
template <typename T, typename Function>
__global__ void __launch_bounds__(kBlockThreads)
    element_kernel(std::int64_t rows, std::int64_t cols, Function f, Rows<T> y) {
  const std::int64_t index =
      std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x);
  if (index >= rows * cols) return;
  const std::int64_t i = index / cols;
  const std::int64_t c = index % cols;
  store(y.at(i, c), narrow<T>(Packed<float, 1>{{f(i, c)}}));
}

template <typename T, typename Function>
void for_elements(const Launch& where, MatrixView y, const Function& f) {
  launch(where, ceil_divide(y.rows * y.cols, kBlockThreads), kBlockThreads,
         element_kernel<T, Function>, y.rows, y.cols, f, rows_of<T>(y));
}

}  // namespace atl::cuda
