#include "engine/program/loss.hpp"

#include "base/parallel.hpp"

namespace atl {

namespace {

std::vector<LocalId> all_rows(std::size_t count) {
  std::vector<LocalId> rows;
  rows.reserve(count);
  for (std::size_t i = 0; i < count; ++i) rows.push_back(static_cast<LocalId>(i));
  return rows;
}

template <typename T>
std::vector<T> on_host(const Rank& rank, std::span<const T> values) {
  std::vector<T> host(values.size());
  if (host.empty()) return host;
  rank.backend.copy(rank.queue, host.data(), values.data(),
                    static_cast<std::int64_t>(values.size_bytes()), CopyKind::kDeviceToHost);
  rank.backend.synchronize(rank.queue);
  return host;
}

// So many entries of each of the rows.
template <typename T>
std::vector<T> rows_of(const std::vector<T>& all, std::span<const LocalId> rows,
                       std::int64_t entries) {
  if (all.empty()) return {};
  std::vector<T> some(rows.size() * static_cast<std::size_t>(entries));
  parallel_for(std::ssize(rows), 4096, [&](std::int64_t i) {
    std::copy_n(all.begin() + to_index(rows[i]) * entries, entries, some.begin() + i * entries);
  });
  return some;
}

void compute_own_loss(const Rank& rank, const LossTargets& targets, ConstMatrixView logits,
                      double scale, MatrixView gradient, std::span<double> loss_sum) {
  const std::vector<LocalId> rows = on_host(rank, targets.rows);
  const std::vector<float> chosen =
      rows_of(download_f32(rank.backend, rank.queue, logits), rows, logits.cols);
  const auto classes = rows_of(on_host(rank, targets.labels), rows, 1);
  const auto several = rows_of(on_host(rank, targets.multi_labels), rows, logits.cols);
  const auto numbers = rows_of(on_host(rank, targets.numbers), rows, logits.cols);
  std::vector<float> derivatives(chosen.size(), 0.0F);
  double sum = 0;
  if (!rows.empty()) {
    sum = targets.own->compute({logits.cols, chosen, classes, several, numbers}, derivatives);
  }
  std::vector<float> all(static_cast<std::size_t>(logits.rows * logits.cols), 0.0F);
  parallel_for(std::ssize(rows), 4096, [&](std::int64_t i) {
    for (std::int64_t c = 0; c < logits.cols; ++c) {
      const auto derivative = static_cast<double>(derivatives[i * logits.cols + c]);
      all[to_index(rows[i]) * logits.cols + c] = static_cast<float>(scale * derivative);
    }
  });
  upload_f32(rank.backend, rank.queue, all, gradient);
  rank.backend.copy(rank.queue, loss_sum.data(), &sum, sizeof(sum), CopyKind::kHostToDevice);
  rank.backend.synchronize(rank.queue);
}

}  // namespace

Loss::Loss(Backend& backend, const LossTargets& targets, double total)
    : targets_(targets), total_(total), sum_(backend, 1) {}

void queue_loss(const Rank& rank, const LossTargets& targets, ConstMatrixView logits, double scale,
                MatrixView gradient, std::span<double> loss_sum) {
  if (targets.own != nullptr) {
    compute_own_loss(rank, targets, logits, scale, gradient, loss_sum);
  } else if (!targets.numbers.empty()) {
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
