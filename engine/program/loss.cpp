#include "engine/program/loss.hpp"

namespace atl {

Loss::Loss(Backend& backend, const LossTargets& targets, double total)
    : targets_(targets), total_(total), sum_(backend, 1) {}

void Loss::compute(const Rank& rank, const Round& /*round*/, ConstMatrixView logits,
                   MatrixView gradient) {
  ATOLL_ASSERT(total_ > 0);
  const double scale = 1 / total_;
  if (!targets_.numbers.empty()) {
    rank.backend.error_loss(rank.queue, targets_.measure, logits, targets_.numbers, targets_.rows,
                            scale, gradient, sum_.span());
  } else if (targets_.multi_labels.empty()) {
    rank.backend.softmax_cross_entropy(rank.queue, logits, targets_.labels, targets_.rows, scale,
                                       gradient, sum_.span(), targets_.softmax);
  } else {
    rank.backend.sigmoid_cross_entropy(rank.queue, logits, targets_.multi_labels, targets_.rows,
                                       scale, gradient, sum_.span());
  }
  sum_.queue_copy(rank.backend, rank.queue);
}

}  // namespace atl
