#include "engine/program/loss.hpp"

namespace atl {

Loss::Loss(Backend& backend, const LossTargets& targets, double total)
    : targets_(targets), total_(total), sum_(backend, 1) {}

void queue_loss(const Rank& rank, const LossTargets& targets, ConstMatrixView logits, double scale,
                MatrixView gradient, std::span<double> loss_sum) {
  if (!targets.numbers.empty()) {
    rank.backend.run(rank.queue, kernels::ErrorLoss{targets.measure, logits, targets.numbers,
                                                    targets.rows, scale, gradient, loss_sum});
  } else if (targets.multi_labels.empty()) {
    rank.backend.run(rank.queue,
                     kernels::SoftmaxCrossEntropy{logits, targets.labels, targets.rows, scale,
                                                  gradient, loss_sum, targets.softmax});
  } else {
    rank.backend.run(rank.queue,
                     kernels::SigmoidCrossEntropy{logits, targets.multi_labels, targets.rows, scale,
                                                  gradient, loss_sum, targets.sigmoid});
  }
}

void Loss::compute(const Rank& rank, const Round& /*round*/, ConstMatrixView logits,
                   MatrixView gradient) {
  ATOLL_ASSERT(total_ > 0);
  queue_loss(rank, targets_, logits, 1 / total_, gradient, sum_.span());
  sum_.queue_copy(rank.backend, rank.queue);
}

}  // namespace atl
