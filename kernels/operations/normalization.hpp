// Batch norm in four steps, between which sums are added over ranks, and layer norm.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// Batch norm over rows of all ranks (Ioffe & Szegedy 2015) runs in four steps around sums over
// ranks. All statistics are double. W = x.cols.
//
// Forward, 1: sums[j] = sum_i (x[i, j] - shift[j]) and sums[W + j] = sum_i (x[i, j] -
// shift[j])^2. shift, which all ranks share, lies near the mean, so that sums over ranks don't
// cancel (shifted data; Chan, Golub, LeVeque 1983). No rows: zeros. sums [2 W].
struct BatchNormMoments {
  static constexpr const char* kName = "batch_norm_moments";
  ConstMatrixView x;
  std::span<const double> shift;
  std::span<double> sums;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "batch_norm_moments x");
    check_length(length(shift), x.cols, "batch_norm_moments shift");
    check_length(length(sums), 2 * x.cols, "batch_norm_moments sums");
  }
  SpanWork work(bool) const { return streaming_work({x}); }
  std::array<MatrixView, 1> zeroed() const { return {eight_byte_view(sums)}; }
};

// Forward, 2: from sums over `count` rows the mean and 1 / sqrt(variance + epsilon), and the
// running estimates moved by `momentum` towards mean and unbiased variance. The running mean is
// the shift of step 1.
struct BatchNormStatistics {
  static constexpr const char* kName = "batch_norm_statistics";
  std::span<const double> sums;
  std::int64_t count = 0;
  double momentum = 0;
  double epsilon = 0;
  std::span<double> running_mean;
  std::span<double> running_variance;
  std::span<double> mean;
  std::span<double> inv_std;

  bool empty() const { return mean.empty(); }
  void check(const BackendTraits&) const {
    const std::int64_t columns = length(mean);
    check_length(length(sums), 2 * columns, "batch_norm_statistics sums");
    check_length(length(running_mean), columns, "batch_norm_statistics running_mean");
    check_length(length(running_variance), columns, "batch_norm_statistics running_variance");
    check_length(length(inv_std), columns, "batch_norm_statistics inv_std");
    ATOLL_ASSERT(count >= 1 && epsilon > 0, "batch_norm_statistics: {} rows, epsilon {}", count,
                 epsilon);
  }
  SpanWork work(bool) const { return SpanWork{}; }
};

// Backward, 3: sums[j] = sum_i dy and sums[W + j] = sum_i dy * xhat, xhat = (x - mean) * inv_std;
// the same is added to dbeta and dgamma [1, W] (this rank's share of the gradients).
// `activation`: as of column_sums; dy in the sums is dx then.
struct BatchNormGradientSums {
  static constexpr const char* kName = "batch_norm_gradient_sums";
  ConstMatrixView dy;
  ConstMatrixView x;
  std::span<const double> mean;
  std::span<const double> inv_std;
  std::span<double> sums;
  MatrixView dgamma;
  MatrixView dbeta;
  ActivationGradient activation = {};

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "batch_norm_gradient_sums x");
    check_shape(backend, dy, x.rows, x.cols, x.dtype, "batch_norm_gradient_sums dy");
    check_length(length(mean), x.cols, "batch_norm_gradient_sums mean");
    check_length(length(inv_std), x.cols, "batch_norm_gradient_sums inv_std");
    check_length(length(sums), 2 * x.cols, "batch_norm_gradient_sums sums");
    for (const MatrixView gradient : {dgamma, dbeta}) {
      check_shape(backend, gradient, 1, x.cols, parameter_dtype(x.dtype),
                  "batch_norm_gradient_sums dgamma or dbeta");
    }
    check_disjoint(dgamma, dbeta, "batch_norm_gradient_sums dgamma and dbeta");
    check_activation(backend, activation, dy);
    check_sums_through(activation);
    check_disjoint(activation.dx, x, "batch_norm_gradient_sums dx and x");
  }
  SpanWork work(bool) const { return gradient_work(dy, activation, {x}); }
  const char* name() const { return activation.absent() ? kName : "relu_dropout_gradient_sums"; }
  std::array<MatrixView, 1> zeroed() const { return {eight_byte_view(sums)}; }
};

// Backward, 4: dx = gamma * inv_std * (dy - sums[j] / count - xhat * sums[W + j] / count), with
// sums over `count` rows of all ranks. dx may be dy. gamma [1, W].
struct BatchNormBackward {
  static constexpr const char* kName = "batch_norm_backward";
  ConstMatrixView dy;
  ConstMatrixView x;
  std::span<const double> mean;
  std::span<const double> inv_std;
  ConstMatrixView gamma;
  std::span<const double> sums;
  std::int64_t count = 0;
  MatrixView dx;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "batch_norm_backward x");
    check_shape(backend, dy, x.rows, x.cols, x.dtype, "batch_norm_backward dy");
    check_shape(backend, dx, x.rows, x.cols, x.dtype, "batch_norm_backward dx");
    check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "batch_norm_backward gamma");
    check_length(length(mean), x.cols, "batch_norm_backward mean");
    check_length(length(inv_std), x.cols, "batch_norm_backward inv_std");
    check_length(length(sums), 2 * x.cols, "batch_norm_backward sums");
    ATOLL_ASSERT(count >= x.rows, "batch_norm_backward: {} of {} rows", x.rows, count);
    check_disjoint({dx}, {x, gamma}, "batch_norm_backward dx and x or gamma");
    check_same_or_disjoint(dx, dy, "batch_norm_backward dx and dy");
  }
  SpanWork work(bool) const { return streaming_work({x, dy, dx}); }
};

// out[j] = 1 / sqrt(variance[j] + epsilon).
struct InverseStd {
  static constexpr const char* kName = "inverse_std";
  std::span<const double> variance;
  double epsilon = 0;
  std::span<double> out;

  bool empty() const { return out.empty(); }
  void check(const BackendTraits&) const {
    check_length(length(out), length(variance), "inverse_std out");
    ATOLL_ASSERT(epsilon > 0, "inverse_std epsilon {}", epsilon);
  }
  SpanWork work(bool) const { return SpanWork{}; }
};

// y = (x - mean_i) / sqrt(var_i + epsilon) * gamma + beta per row i (biased variance). Row
// statistics are recomputed in backward, not stored.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  ConstMatrixView x;
  ConstMatrixView gamma;
  ConstMatrixView beta;
  double epsilon = 0;
  MatrixView y;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "layer_norm x");
    check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm gamma");
    check_shape(backend, beta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm beta");
    check_shape(backend, y, x.rows, x.cols, x.dtype, "layer_norm y");
    check_disjoint({y}, {x, gamma, beta}, "layer_norm y and an input");
    ATOLL_ASSERT(epsilon > 0, "layer_norm epsilon {}", epsilon);
  }
  SpanWork work(bool) const { return streaming_work({x, y}); }
};

// dx of layer_norm; dgamma and dbeta [1, cols] are added to. dx may be dy.
struct LayerNormBackward {
  static constexpr const char* kName = "layer_norm_backward";
  ConstMatrixView dy;
  ConstMatrixView x;
  ConstMatrixView gamma;
  double epsilon = 0;
  MatrixView dx;
  MatrixView dgamma;
  MatrixView dbeta;

  bool empty() const { return x.empty(); }
  void check(const BackendTraits& backend) const {
    check_view(backend, x, "layer_norm_backward x");
    check_shape(backend, dy, x.rows, x.cols, x.dtype, "layer_norm_backward dy");
    check_shape(backend, dx, x.rows, x.cols, x.dtype, "layer_norm_backward dx");
    check_shape(backend, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward gamma");
    check_shape(backend, dgamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dgamma");
    check_shape(backend, dbeta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dbeta");
    check_disjoint({dx}, {x, gamma}, "layer_norm_backward dx and x or gamma");
    check_same_or_disjoint(dx, dy, "layer_norm_backward dx and dy");
    check_disjoint(dgamma, dbeta, "layer_norm_backward dgamma and dbeta");
    ATOLL_ASSERT(epsilon > 0, "layer_norm_backward epsilon {}", epsilon);
  }
  SpanWork work(bool) const { return streaming_work({x, dy, dx}); }
};

}  // namespace atl::kernels
