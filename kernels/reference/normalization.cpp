// Batch and layer normalisation of the oracle.
#include <cmath>
#include <vector>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

struct RowStatistics {
  double mean;
  double inv_std;
};

template <typename T>
RowStatistics row_statistics(ConstMatrixView x, std::int64_t i, double epsilon) {
  const auto n = static_cast<double>(x.cols);
  double sum = 0;
  for (std::int64_t j = 0; j < x.cols; ++j) sum += at<T>(x, i, j);
  const double mean = sum / n;
  double m2 = 0;
  for (std::int64_t j = 0; j < x.cols; ++j) m2 += std::pow(at<T>(x, i, j) - mean, 2);
  return {mean, 1 / std::sqrt(m2 / n + epsilon)};
}

}  // namespace

void kernel(ReferenceBackend&, Queue&, const kernels::BatchNormMoments& call) {
  const auto& [x, shift, sums] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      sums[j] = 0;
      sums[x.cols + j] = 0;
      for (std::int64_t i = 0; i < x.rows; ++i) {
        const double value = at<T>(x, i, j) - shift[j];
        sums[j] += value;
        sums[x.cols + j] += value * value;
      }
    }
  });
}

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::BatchNormGradientSums& call) {
  const auto& [given, x, mean, inv_std, sums, dgamma, dbeta, activation] = call;
  if (!activation.absent()) {
    kernel(backend, queue, kernels::ActivationBackward{given, activation});
  }
  const ConstMatrixView dy = activation.absent() ? given : ConstMatrixView(activation.dx);
  with_value_type(x.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      double sum = 0;
      double sum_xhat = 0;
      for (std::int64_t i = 0; i < x.rows; ++i) {
        sum += at<T>(dy, i, j);
        sum_xhat += at<T>(dy, i, j) * (at<T>(x, i, j) - mean[j]) * inv_std[j];
      }
      sums[j] = sum;
      sums[x.cols + j] = sum_xhat;
      set<P>(dbeta, 0, j, at<P>(dbeta, 0, j) + sum);
      set<P>(dgamma, 0, j, at<P>(dgamma, 0, j) + sum_xhat);
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::BatchNormBackward& call) {
  const auto& [dy, x, mean, inv_std, gamma, sums, count, dx] = call;
  const auto n = static_cast<double>(count);
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(dx, [&](std::int64_t i, std::int64_t j) {
      const double xhat = (at<T>(x, i, j) - mean[j]) * inv_std[j];
      const double centred = at<T>(dy, i, j) - sums[j] / n - xhat * (sums[x.cols + j] / n);
      return at<Parameter<T>>(gamma, 0, j) * inv_std[j] * centred;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::LayerNorm& call) {
  const auto& [x, gamma, beta, epsilon, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const auto [mean, inv_std] = row_statistics<T>(x, i, epsilon);
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const double xhat = (at<T>(x, i, j) - mean) * inv_std;
        set<T>(y, i, j, xhat * at<Parameter<T>>(gamma, 0, j) + at<Parameter<T>>(beta, 0, j));
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::LayerNormBackward& call) {
  const auto& [dy, x, gamma, epsilon, dx, dgamma, dbeta] = call;
  const auto n = static_cast<double>(x.cols);
  with_value_type(x.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    // The parameters' gradients first: they read dy, which dx may overwrite.
    std::vector<RowStatistics> statistics;
    for (std::int64_t i = 0; i < x.rows; ++i) {
      statistics.push_back(row_statistics<T>(x, i, epsilon));
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      double sum_gamma = at<P>(dgamma, 0, j);
      double sum_beta = at<P>(dbeta, 0, j);
      for (std::int64_t i = 0; i < x.rows; ++i) {
        const auto [mean, inv_std] = statistics[static_cast<std::size_t>(i)];
        sum_gamma += at<T>(dy, i, j) * (at<T>(x, i, j) - mean) * inv_std;
        sum_beta += at<T>(dy, i, j);
      }
      set<P>(dgamma, 0, j, sum_gamma);
      set<P>(dbeta, 0, j, sum_beta);
    }
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const auto [mean, inv_std] = statistics[static_cast<std::size_t>(i)];
      double sum_g = 0;
      double sum_g_xhat = 0;
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const double g = at<T>(dy, i, j) * at<P>(gamma, 0, j);
        sum_g += g;
        sum_g_xhat += g * (at<T>(x, i, j) - mean) * inv_std;
      }
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const double xhat = (at<T>(x, i, j) - mean) * inv_std;
        const double g = at<T>(dy, i, j) * at<P>(gamma, 0, j);
        set<T>(dx, i, j, inv_std * (g - sum_g / n - xhat * sum_g_xhat / n));
      }
    }
  });
}

}  // namespace atl
