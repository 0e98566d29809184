// Batch and layer normalisation. Statistics are sums in double; see sum_chunks for their order.
#include <cmath>

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
  const auto [mean, inv_std] = row_statistics(x, cols, epsilon);
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

void CpuBackend::do_batch_norm_moments(Queue&, ConstMatrixView x, std::span<const double> shift,
                                       std::span<double> sums) {
  const std::int64_t cols = x.cols;
  const auto found = sum_chunks(x.rows, 2 * cols, [&](RowRange range, double* partial) {
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      double* __restrict sum = partial;
      double* __restrict squares = partial + cols;
      const double* centre = shift.data();
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const T* row = x.row<T>(i);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          const double value = static_cast<double>(load(row, j)) - centre[j];
          sum[j] += value;
          squares[j] += value * value;
        }
      }
    });
  });
  std::copy(found.begin(), found.end(), sums.begin());
}

void CpuBackend::do_batch_norm_gradient_sums(Queue&, ConstMatrixView dy, ConstMatrixView x,
                                             std::span<const double> mean,
                                             std::span<const double> inv_std,
                                             std::span<double> sums, MatrixView dgamma,
                                             MatrixView dbeta) {
  const std::int64_t cols = x.cols;
  const auto found = sum_chunks(x.rows, 2 * cols, [&](RowRange range, double* partial) {
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      double* __restrict sum = partial;
      double* __restrict sum_centred = partial + cols;
      const double* centre = mean.data();
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const T* row = x.row<T>(i);
        const T* gradient = dy.row<T>(i);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          const double g = static_cast<double>(load(gradient, j));
          sum[j] += g;
          sum_centred[j] += g * (static_cast<double>(load(row, j)) - centre[j]);
        }
      }
    });
  });
  for (std::int64_t j = 0; j < cols; ++j) {
    sums[j] = found[j];
    sums[cols + j] = found[cols + j] * inv_std[j];
    float& to_gamma = dgamma.row<float>(0)[j];
    float& to_beta = dbeta.row<float>(0)[j];
    to_gamma = static_cast<float>(static_cast<double>(to_gamma) + sums[cols + j]);
    to_beta = static_cast<float>(static_cast<double>(to_beta) + sums[j]);
  }
}

// dx = factor * (dy - offset - (x - mean) * slope), the columns' factors once in f32.
void CpuBackend::do_batch_norm_backward(Queue&, ConstMatrixView dy, ConstMatrixView x,
                                        std::span<const double> mean,
                                        std::span<const double> inv_std, ConstMatrixView gamma,
                                        std::span<const double> sums, std::int64_t count,
                                        MatrixView dx) {
  const auto n = static_cast<double>(count);
  const std::int64_t cols = x.cols;
  const std::span<float> columns = scratch<float>(4 * cols);
  for (std::int64_t j = 0; j < cols; ++j) {
    columns[j] = static_cast<float>(mean[j]);
    columns[cols + j] = static_cast<float>(inv_std[j] * (sums[cols + j] / n));
    columns[2 * cols + j] = static_cast<float>(sums[j] / n);
    columns[3 * cols + j] =
        static_cast<float>(static_cast<double>(gamma.row<float>(0)[j]) * inv_std[j]);
  }
  for_chunks(x.rows, rows_per_chunk(cols), [&](RowRange range) {
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      const float* centre = columns.data();
      const float* slope = centre + cols;
      const float* offset = slope + cols;
      const float* factor = offset + cols;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const T* row = x.row<T>(i);
        const T* gradient = dy.row<T>(i);
        T* to = dx.row<T>(i);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          const float centred = load(gradient, j) - offset[j];
          store(to, j, factor[j] * (centred - (load(row, j) - centre[j]) * slope[j]));
        }
      }
    });
  });
}

void CpuBackend::do_layer_norm(Queue&, ConstMatrixView x, ConstMatrixView gamma,
                               ConstMatrixView beta, double epsilon, MatrixView y) {
  const std::int64_t cols = x.cols;
  for_chunks(x.rows, rows_per_chunk(cols), [&](RowRange range) {
    std::vector<float> memory = wide_memory(x.dtype, 2, cols);
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      const float* scale = gamma.row<float>(0);
      const float* shift = beta.row<float>(0);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const float* row = wide_row(x.row<T>(i), cols, memory.data());
        float* __restrict to = row_to_compute(y.row<T>(i), memory.data() + cols);
        const auto [mean, inv_std] = row_statistics(row, cols, epsilon);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          const double xhat = (static_cast<double>(row[j]) - mean) * inv_std;
          to[j] = static_cast<float>(xhat * static_cast<double>(scale[j]) +
                                     static_cast<double>(shift[j]));
        }
        store_row(to, cols, y.row<T>(i));
      }
    });
  });
}

void CpuBackend::do_layer_norm_backward(Queue&, ConstMatrixView dy, ConstMatrixView x,
                                        ConstMatrixView gamma, double epsilon, MatrixView dx,
                                        MatrixView dgamma, MatrixView dbeta) {
  const std::int64_t cols = x.cols;
  const auto sums = sum_chunks(x.rows, 2 * cols, [&](RowRange range, double* partial) {
    std::vector<float> memory = wide_memory(x.dtype, 3, cols);
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        float* to = row_to_compute(dx.row<T>(i), memory.data() + 2 * cols);
        layer_norm_row_backward(wide_row(dy.row<T>(i), cols, memory.data()),
                                wide_row(x.row<T>(i), cols, memory.data() + cols),
                                gamma.row<float>(0), cols, epsilon, to, partial, partial + cols);
        store_row(to, cols, dx.row<T>(i));
      }
    });
  });
  for (std::int64_t j = 0; j < cols; ++j) {
    float& to_gamma = dgamma.row<float>(0)[j];
    float& to_beta = dbeta.row<float>(0)[j];
    to_gamma = static_cast<float>(static_cast<double>(to_gamma) + sums[j]);
    to_beta = static_cast<float>(static_cast<double>(to_beta) + sums[cols + j]);
  }
}

}  // namespace atl
