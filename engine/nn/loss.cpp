#include "engine/nn/loss.hpp"

namespace atl {

Loss::Loss(Backend& backend, const LossTargets& targets, std::int64_t total)
    : targets_(targets), total_(total), sum_(backend, 1) {}

double Loss::compute(const RankContext& context, ConstMatrixView logits, MatrixView gradient) {
  ATOLL_ASSERT(total_ > 0);
  std::vector<double> sum;
  {
    const ScopedSpan span(context.trace, "loss", {context.epoch, -1, -1, -1});
    const double scale = 1 / static_cast<double>(total_);
    if (targets_.multi_labels.empty()) {
      context.backend.softmax_cross_entropy(context.queue, logits, targets_.labels, targets_.rows,
                                            scale, gradient, sum_.span());
    } else {
      context.backend.sigmoid_cross_entropy(context.queue, logits, targets_.multi_labels,
                                            targets_.rows, scale, gradient, sum_.span());
    }
    sum = sum_.download(context.backend, context.queue);
  }
  context.reducer.sum(sum, "loss", -1, context.epoch);
  return sum[0] / static_cast<double>(total_);
}

}  // namespace atl
