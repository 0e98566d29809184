// Batch and layer normalisation. Statistics are sums in double; see sum_chunks for their order.
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

namespace {

struct RowStatistics {
  double mean;
  double inv_std;
};

ATOLL_INLINE inline RowStatistics row_statistics(const float* x, std::int64_t cols,
                                                 double epsilon) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < cols; ++j) sum += static_cast<double>(x[j]);
  const double mean = sum / static_cast<double>(cols);
  double m2 = 0;
#pragma omp simd reduction(+ : m2)
  for (std::int64_t j = 0; j < cols; ++j) {
    const double difference = static_cast<double>(x[j]) - mean;
    m2 += difference * difference;
  }
  return {mean, 1 / std::sqrt(m2 / static_cast<double>(cols) + epsilon)};
}

// Gradient of one row; adds to dgamma and dbeta. dx may be dy.
ATOLL_INLINE inline void layer_norm_row_backward(const float* dy, const float* x,
                                                 const float* gamma, std::int64_t cols,
                                                 double epsilon, float* dx, double* dgamma,
                                                 double* dbeta) {
  const RowStatistics found = row_statistics(x, cols, epsilon);
  const double mean = found.mean;
  const double inv_std = found.inv_std;
  double sum_g = 0;
  double sum_g_xhat = 0;
#pragma omp simd reduction(+ : sum_g, sum_g_xhat)
  for (std::int64_t j = 0; j < cols; ++j) {
    const double gradient = static_cast<double>(dy[j]);
    const double xhat = (static_cast<double>(x[j]) - mean) * inv_std;
    const double g = gradient * static_cast<double>(gamma[j]);
    sum_g += g;
    sum_g_xhat += g * xhat;
    dgamma[j] += gradient * xhat;
    dbeta[j] += gradient;
  }
  const auto n = static_cast<double>(cols);
  const double mean_g = sum_g / n;
  const double mean_g_xhat = sum_g_xhat / n;
#pragma omp simd
  for (std::int64_t j = 0; j < cols; ++j) {
    const double xhat = (static_cast<double>(x[j]) - mean) * inv_std;
    const double g = static_cast<double>(dy[j]) * static_cast<double>(gamma[j]);
    dx[j] = static_cast<float>(inv_std * (g - mean_g - xhat * mean_g_xhat));
  }
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::BatchNormMoments& call) {
  const auto& [x, shift, sums] = call;
  const std::int64_t cols = x.cols;
  const auto found =
      backend.sum_chunks(x.rows, cols, 2 * cols, [&](RowRange range, double* partial) {
        run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
          sum_columns<kBytes, T>(std::array{x}, range, std::array{partial, partial + cols},
                                 [&]<int kUnit>(std::int64_t i, std::int64_t j, auto* to)
                                     ATOLL_INLINE {
                                       typename Vectors<kUnit>::Doubles value;
                                       typename Vectors<kUnit>::Doubles centre;
                                       load_doubles<kUnit>(x.row<T>(i) + j, value);
                                       std::memcpy(&centre, shift.data() + j, kUnit);
                                       value -= centre;
                                       to[0] += value;
                                       to[1] += value * value;
                                     });
        });
      });
  std::copy(found.begin(), found.end(), sums.begin());
}

void kernel(CpuBackend& backend, Queue&, const kernels::BatchNormGradientSums& call) {
  const auto& [dy, x, mean, inv_std, sums, dgamma, dbeta, activation] = call;
  const std::int64_t cols = x.cols;
  const ConstMatrixView gradients = activation.absent() ? dy : activation.dx;
  const auto found =
      backend.sum_chunks(x.rows, cols, 2 * cols, [&](RowRange range, double* partial) {
        run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
          sum_gradients<kBytes, T>(
              dy, activation, range, std::array{partial, partial + cols},
              [&]<int kUnit>(std::int64_t i, std::int64_t j, auto* to) ATOLL_INLINE {
                typename Vectors<kUnit>::Doubles gradient;
                typename Vectors<kUnit>::Doubles value;
                typename Vectors<kUnit>::Doubles centre;
                load_doubles<kUnit>(gradients.row<T>(i) + j, gradient);
                load_doubles<kUnit>(x.row<T>(i) + j, value);
                std::memcpy(&centre, mean.data() + j, kUnit);
                to[0] += gradient;
                to[1] += gradient * (value - centre);
              },
              x);
        });
      });
  for (std::int64_t j = 0; j < cols; ++j) {
    sums[j] = found[j];
    sums[cols + j] = found[cols + j] * inv_std[j];
  }
  add_to_row(sums.last(static_cast<std::size_t>(cols)), dgamma);
  add_to_row(sums.first(static_cast<std::size_t>(cols)), dbeta);
}

// dx = factor * (dy - offset - (x - mean) * slope), the columns' factors once in f32.
void kernel(CpuBackend& backend, Queue&, const kernels::BatchNormBackward& call) {
  const auto& [dy, x, mean, inv_std, gamma, sums, count, dx] = call;
  const auto n = static_cast<double>(count);
  const std::int64_t cols = x.cols;
  const std::span<float> columns = backend.scratch<float>(4 * cols);
  for (std::int64_t j = 0; j < cols; ++j) {
    columns[j] = static_cast<float>(mean[j]);
    columns[cols + j] = static_cast<float>(inv_std[j] * (sums[cols + j] / n));
    columns[2 * cols + j] = static_cast<float>(sums[j] / n);
    columns[3 * cols + j] =
        static_cast<float>(static_cast<double>(gamma.row<float>(0)[j]) * inv_std[j]);
  }
  backend.for_rows(x.rows, cols, [&](RowRange range) {
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      const float* centre = columns.data();
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const T* row = x.row<T>(i);
        const T* gradient = dy.row<T>(i);
        T* to = dx.row<T>(i);
        for_columns<kBytes>(0, cols, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
          using Columns = Pair<kUnit>;
          typename Columns::Floats values[2];
          typename Columns::Floats gradients[2];
          typename Columns::Floats factors[4][2];
          Columns::load(row + j, part, values);
          Columns::load(gradient + j, part, gradients);
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) Columns::load(centre + k * cols + j, part, factors[k]);
          const auto& [means, slopes, offsets, scales] = factors;
#pragma GCC unroll 2
          for (int r = 0; r < 2; ++r) {
            values[r] =
                scales[r] * (gradients[r] - offsets[r] - (values[r] - means[r]) * slopes[r]);
          }
          Columns::store(values, part, to + j);
        });
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::LayerNorm& call) {
  const auto& [x, gamma, beta, epsilon, y] = call;
  const std::int64_t cols = x.cols;
  backend.for_rows(x.rows, cols, [&](RowRange range) {
    WideRows memory(2, cols);
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      const float* scale = gamma.row<float>(0);
      const float* shift = beta.row<float>(0);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const float* row = wide_row<kBytes>(x.row<T>(i), cols, memory.row(0));
        float* __restrict to = row_to_compute(y.row<T>(i), memory.row(1));
        const RowStatistics found = row_statistics(row, cols, epsilon);
        const double mean = found.mean;
        const double inv_std = found.inv_std;
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          const double xhat = (static_cast<double>(row[j]) - mean) * inv_std;
          to[j] = static_cast<float>(xhat * static_cast<double>(scale[j]) +
                                     static_cast<double>(shift[j]));
        }
        store_row<kBytes>(to, cols, y.row<T>(i));
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::LayerNormBackward& call) {
  const auto& [dy, x, gamma, epsilon, dx, dgamma, dbeta] = call;
  const std::int64_t cols = x.cols;
  const auto sums =
      backend.sum_chunks(x.rows, cols, 2 * cols, [&](RowRange range, double* partial) {
        WideRows memory(3, cols);
        run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            float* to = row_to_compute(dx.row<T>(i), memory.row(2));
            layer_norm_row_backward(wide_row<kBytes>(dy.row<T>(i), cols, memory.row(0)),
                                    wide_row<kBytes>(x.row<T>(i), cols, memory.row(1)),
                                    gamma.row<float>(0), cols, epsilon, to, partial,
                                    partial + cols);
            store_row<kBytes>(to, cols, dx.row<T>(i));
          }
        });
      });
  add_to_row(sums.first(static_cast<std::size_t>(cols)), dgamma);
  add_to_row(sums.last(static_cast<std::size_t>(cols)), dbeta);
}

}  // namespace atl
