#include "kernels/operations/loss.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void SoftmaxCrossEntropy::check(const Backend& backend) const {
  check_view(backend, logits, "softmax_cross_entropy logits");
  check_shape(backend, dlogits, logits.rows, logits.cols, logits.dtype, "softmax dlogits");
  check_length(length(labels), logits.rows, "softmax_cross_entropy labels");
  check_length(length(loss_sum), 1, "softmax_cross_entropy loss_sum");
  check_disjoint(dlogits, logits, "softmax_cross_entropy dlogits and logits");
  if (!target.class_weights.empty()) {
    check_length(length(target.class_weights), logits.cols, "softmax_cross_entropy weights");
  }
  ATOLL_ASSERT(0 <= target.smoothing && target.smoothing < 1, "softmax_cross_entropy smoothing {}",
               target.smoothing);
  ATOLL_ASSERT(target.focus == 0 || (target.focus > 0 && target.smoothing == 0),
               "softmax_cross_entropy focus {} with smoothing {}", target.focus, target.smoothing);
}

SpanWork SoftmaxCrossEntropy::work(bool) const { return streaming_work({logits, dlogits}); }

void SigmoidCrossEntropy::check(const Backend& backend) const {
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

SpanWork SigmoidCrossEntropy::work(bool) const { return streaming_work({logits, dlogits}); }

void ErrorLoss::check(const Backend& backend) const {
  check_view(backend, values, "error_loss values");
  check_shape(backend, dvalues, values.rows, values.cols, values.dtype, "error_loss dvalues");
  check_length(length(targets), values.rows * values.cols, "error_loss targets");
  check_length(length(loss_sum), 1, "error_loss loss_sum");
  check_disjoint(dvalues, values, "error_loss dvalues and values");
}

SpanWork ErrorLoss::work(bool) const { return streaming_work({values, dvalues}); }

}  // namespace atl::kernels
