// Losses and their gradients.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/operations/dense.hpp"

namespace atl {

class Backend;

namespace kernels {

// Softmax cross-entropy over the rows listed in `rows` (labels[row] >= 0 there):
// loss_sum[0] = sum of losses (double); dlogits = grad_scale * d(loss_sum)/dlogits, 0 elsewhere.
struct SoftmaxCrossEntropy {
  static constexpr const char* kName = "softmax_cross_entropy";
  ConstMatrixView logits;
  std::span<const std::int32_t> labels;
  std::span<const LocalId> rows;
  double grad_scale = 0;
  MatrixView dlogits;
  std::span<double> loss_sum;
  SoftmaxTarget target = {};

  bool empty() const { return rows.empty() || logits.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Without rows there is no loss.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (!dlogits.empty()) compute(FillZero{dlogits});
    compute(FillZero{eight_byte_view(loss_sum)});
  }
};

// Sigmoid cross-entropy with logits, summed over the listed rows and all classes; targets are
// 0, 1, or 255 = missing (no loss), row-major [N, cols].
struct SigmoidCrossEntropy {
  static constexpr const char* kName = "sigmoid_cross_entropy";
  ConstMatrixView logits;
  std::span<const std::uint8_t> targets;
  std::span<const LocalId> rows;
  double grad_scale = 0;
  MatrixView dlogits;
  std::span<double> loss_sum;
  SigmoidTarget target = {};

  bool empty() const { return rows.empty() || logits.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Without rows there is no loss.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (!dlogits.empty()) compute(FillZero{dlogits});
    compute(FillZero{eight_byte_view(loss_sum)});
  }
};

// Losses of values - targets, summed over the listed rows and all columns. targets: row-major
// [N, cols], NaN = missing (no loss). dvalues = grad_scale * d(loss_sum)/dvalues, 0 elsewhere.
struct ErrorLoss {
  static constexpr const char* kName = "error_loss";
  ErrorMeasure measure = ErrorMeasure::kSquared;
  ConstMatrixView values;
  std::span<const float> targets;
  std::span<const LocalId> rows;
  double grad_scale = 0;
  MatrixView dvalues;
  std::span<double> loss_sum;

  bool empty() const { return rows.empty() || values.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
  // Without rows there is no loss.
  template <typename Compute>
  void compute_by(const Compute& compute) const {
    if (!empty()) return compute(*this);
    if (!dvalues.empty()) compute(FillZero{dvalues});
    compute(FillZero{eight_byte_view(loss_sum)});
  }
};

}  // namespace kernels

}  // namespace atl
