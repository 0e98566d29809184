#include "engine/program/loss.hpp"

#include "base/row_copies.hpp"

namespace atl {

namespace {

template <typename T>
std::vector<T> on_host(const Rank& rank, std::span<const T> values) {
  std::vector<T> host(values.size());
  if (host.empty()) return host;
  rank.backend.copy(rank.queue, host.data(), values.data(),
                    static_cast<std::int64_t>(values.size_bytes()), CopyKind::kDeviceToHost);
  rank.backend.synchronize(rank.queue);
  return host;
}

// Calls use(piece, first, end) for pieces of a matrix of so many rows: those of `listed`, which
// ascend, from the first up to the end lie in it. So no logits or gradients of all rows are on the
// host.
template <typename Use>
void for_pieces(std::int64_t rows, std::span<const LocalId> listed, const Use& use) {
  std::size_t k = 0;
  for (std::int64_t begin = 0; begin < rows; begin += kLossPieceRows) {
    const RowRange piece{begin, std::min(begin + kLossPieceRows, rows)};
    const std::size_t first = k;
    while (k < listed.size() && to_index(listed[k]) < piece.end) ++k;
    use(piece, first, k);
  }
}

void compute_own_loss(const Rank& rank, const LossTargets& targets, ConstMatrixView logits,
                      double scale, MatrixView gradient, std::span<double> loss_sum) {
  const std::vector<LocalId> rows = on_host(rank, targets.rows);
  const auto columns = static_cast<std::size_t>(logits.cols);
  std::vector<float> chosen(rows.size() * columns);
  for_pieces(logits.rows, rows, [&](RowRange piece, std::size_t first, std::size_t end) {
    if (first == end) return;
    const std::vector<float> host = download_f32(rank.backend, rank.queue, logits.rows_in(piece));
    for (std::size_t k = first; k < end; ++k) {
      const auto row = static_cast<std::size_t>(to_index(rows[k]) - piece.begin);
      std::copy_n(host.data() + row * columns, columns, chosen.data() + k * columns);
    }
  });
  std::vector<std::int32_t> classes;
  std::vector<std::uint8_t> multi_labels;
  std::vector<float> numbers;
  const auto take = [&]<typename T>(std::span<const T> of_all, std::int64_t columns_of,
                                    std::vector<T>& to) {
    const std::vector<T> host = on_host(rank, of_all);
    copy_rows(std::span<const T>(host), columns_of, rows, to);
  };
  take(targets.labels, 1, classes);
  take(targets.multi_labels, logits.cols, multi_labels);
  take(targets.numbers, logits.cols, numbers);
  std::vector<float> derivatives(chosen.size(), 0.0F);
  double sum = 0;
  if (!rows.empty()) {
    sum = targets.own->compute({logits.cols, chosen, classes, multi_labels, numbers}, derivatives);
  }
  std::vector<float> host;
  if (!gradient.empty()) {
    for_pieces(logits.rows, rows, [&](RowRange piece, std::size_t first, std::size_t end) {
      host.assign(static_cast<std::size_t>(piece.size()) * columns, 0.0F);
      for (std::size_t k = first; k < end; ++k) {
        const auto row = static_cast<std::size_t>(to_index(rows[k]) - piece.begin);
        for (std::size_t c = 0; c < columns; ++c) {
          const auto derivative = static_cast<double>(derivatives[k * columns + c]);
          host[row * columns + c] = static_cast<float>(scale * derivative);
        }
      }
      upload_f32(rank.backend, rank.queue, host, gradient.rows_in(piece));
    });
  }
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
  } else if (targets.kind == LabelKind::kNumbers) {
    rank.backend.run(rank.queue, kernels::ErrorLoss{targets.measure, logits, targets.numbers,
                                                    targets.rows, scale, gradient, loss_sum});
  } else if (targets.kind == LabelKind::kClass) {
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
      rows_(rank.backend, rank.queue, first_numbers<LocalId>(std::ssize(weights))),
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
