// Batch norm in four steps, between which sums are added over ranks, and layer norm.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/operations/dense.hpp"

namespace atl {

class Backend;

namespace kernels {

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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Sums of no rows are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (x.cols > 0) compute(FillZero{eight_byte_view(sums)});
  }
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  const char* name() const { return activation.absent() ? kName : "relu_dropout_gradient_sums"; }
  // Sums of no rows are 0.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (x.cols > 0) compute(FillZero{eight_byte_view(sums)});
  }
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// out[j] = 1 / sqrt(variance[j] + epsilon).
struct InverseStd {
  static constexpr const char* kName = "inverse_std";
  std::span<const double> variance;
  double epsilon = 0;
  std::span<double> out;

  bool empty() const { return out.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
