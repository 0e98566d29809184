// Losses and their gradients.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

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
  void check(const BackendTraits& backend) const {
    check_view(backend, logits, "softmax_cross_entropy logits");
    check_shape(backend, dlogits, logits.rows, logits.cols, logits.dtype, "softmax dlogits");
    check_length(length(labels), logits.rows, "softmax_cross_entropy labels");
    check_length(length(loss_sum), 1, "softmax_cross_entropy loss_sum");
    check_disjoint(dlogits, logits, "softmax_cross_entropy dlogits and logits");
    if (!target.class_weights.empty()) {
      check_length(length(target.class_weights), logits.cols, "softmax_cross_entropy weights");
    }
    ATOLL_ASSERT(0 <= target.smoothing && target.smoothing < 1,
                 "softmax_cross_entropy smoothing {}", target.smoothing);
    ATOLL_ASSERT(target.focus == 0 || (target.focus > 0 && target.smoothing == 0),
                 "softmax_cross_entropy focus {} with smoothing {}", target.focus,
                 target.smoothing);
  }
  SpanWork work(bool) const { return streaming_work({logits, dlogits}); }
  std::array<MatrixView, 2> zeroed() const { return {dlogits, eight_byte_view(loss_sum)}; }
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
  void check(const BackendTraits& backend) const {
    check_view(backend, logits, "sigmoid_cross_entropy logits");
    check_shape(backend, dlogits, logits.rows, logits.cols, logits.dtype, "sigmoid dlogits");
    check_length(length(targets), logits.rows * logits.cols, "sigmoid_cross_entropy targets");
    check_length(length(loss_sum), 1, "sigmoid_cross_entropy loss_sum");
    check_disjoint(dlogits, logits, "sigmoid_cross_entropy dlogits and logits");
    if (!target.weights.empty()) {
      check_length(length(target.weights), 2 * logits.cols, "sigmoid_cross_entropy weights");
    }
    ATOLL_ASSERT(target.focus >= 0, "sigmoid_cross_entropy focus {}", target.focus);
  }
  SpanWork work(bool) const { return streaming_work({logits, dlogits}); }
  std::array<MatrixView, 2> zeroed() const { return {dlogits, eight_byte_view(loss_sum)}; }
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
  void check(const BackendTraits& backend) const {
    check_view(backend, values, "error_loss values");
    check_shape(backend, dvalues, values.rows, values.cols, values.dtype, "error_loss dvalues");
    check_length(length(targets), values.rows * values.cols, "error_loss targets");
    check_length(length(loss_sum), 1, "error_loss loss_sum");
    check_disjoint(dvalues, values, "error_loss dvalues and values");
  }
  SpanWork work(bool) const { return streaming_work({values, dvalues}); }
  std::array<MatrixView, 2> zeroed() const { return {dvalues, eight_byte_view(loss_sum)}; }
};

}  // namespace atl::kernels
