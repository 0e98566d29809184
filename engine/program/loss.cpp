#include "engine/program/loss.hpp"

namespace atl {

namespace {

std::vector<LocalId> all_rows(std::size_t count) {
  std::vector<LocalId> rows;
  rows.reserve(count);
  for (std::size_t i = 0; i < count; ++i) rows.push_back(static_cast<LocalId>(i));
  return rows;
}

}  // namespace

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

NodeWeightedLoss::NodeWeightedLoss(const Rank& rank, const LossTargets& targets, double total,
                                   const std::vector<float>& weights, std::int64_t columns,
                                   DType dtype)
    : Loss(rank.backend, targets, total),
      weights_(rank.backend, rank.queue, std::vector(weights)),
      rows_(rank.backend, rank.queue, all_rows(weights.size())),
      plain_(std::ssize(weights), columns, dtype) {}

std::int64_t NodeWeightedLoss::bytes(std::int64_t rows, std::int64_t columns, DType dtype) {
  return Tensor(rows, columns, dtype).bytes() +
         rows * static_cast<std::int64_t>(sizeof(float) + sizeof(LocalId));
}

void NodeWeightedLoss::compute(const Rank& rank, const Round& round, ConstMatrixView logits,
                               MatrixView gradient) {
  if (plain_.view().data == nullptr) plain_.allocate(rank.backend);
  Loss::compute(rank, round, logits, plain_.view());
  rank.backend.run(rank.queue,
                   kernels::GatherRows{plain_.view(), rows_.span(), weights_.span(), gradient});
}

}  // namespace atl
