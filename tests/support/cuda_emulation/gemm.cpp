#include "tests/support/cuda_emulation/gemm.hpp"

#include <vector>

#include "tests/support/cuda_emulation/matrices.hpp"

namespace atl::cuda_emulation {
namespace {

float input(const Matrix& matrix, bool transpose, std::int64_t row, std::int64_t column,
            bool tf32) {
  const std::int64_t index = transpose ? matrix.index(column, row) : matrix.index(row, column);
  const float value = load_element(matrix.values, matrix.type, index);
  return tf32 && matrix.type == CUDA_R_32F ? round_to_tf32(value) : value;
}

}  // namespace

void multiply(const Product& p) {
  // op(a) by columns, so that the inner loop runs over contiguous memory.
  std::vector<float> a(static_cast<std::size_t>(p.m * p.k));
  for (std::int64_t column = 0; column < p.k; ++column) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      a[static_cast<std::size_t>(column * p.m + row)] =
          input(p.a, p.transpose_a, row, column, p.tf32);
    }
  }
  std::vector<double> sums(static_cast<std::size_t>(p.m));
  for (std::int64_t column = 0; column < p.n; ++column) {
    sums.assign(sums.size(), 0.0);
    for (std::int64_t inner = 0; inner < p.k; ++inner) {
      const double factor = input(p.b, p.transpose_b, inner, column, p.tf32);
      const float* a_column = a.data() + inner * p.m;
      for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += factor * a_column[row];
    }
    for (std::int64_t row = 0; row < p.m; ++row) {
      double value = p.alpha * sums[static_cast<std::size_t>(row)];
      if (p.beta != 0) {
        value += static_cast<double>(p.beta) *
                 load_element(p.c.values, p.c.type, p.c.index(row, column));
      }
      if (p.bias != nullptr) value += load_element(p.bias, p.bias_type, row);
      // The library's ReLU is max(x, 0), which may not keep a NaN.
      if (p.relu && !(value > 0)) value = 0;
      store_element(p.d.values, p.d.type, p.d.index(row, column), static_cast<float>(value));
    }
  }
}

}  // namespace atl::cuda_emulation
