#include "engine/exchange/messages/kept_rows.hpp"

#include <numeric>

namespace atl {

Tensor zero_rows(const Rank& rank, std::int64_t rows, std::int64_t cols, DType dtype) {
  Tensor tensor(rank.backend, rows, cols, dtype);
  MatrixView whole = tensor.view();
  whole.cols = whole.stride;
  rank.backend.run(rank.queue, kernels::FillZero{whole});
  return tensor;
}

PeerRows::PeerRows(const Rank& rank, const std::vector<int>& peer) {
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  for (const int p : peer) {
    if (p >= 0) col_idx.push_back(p);
    row_ptr.push_back(std::ssize(col_idx));
  }
  row_ptr_ = {rank.backend, rank.queue, std::move(row_ptr)};
  col_idx_ = {rank.backend, rank.queue, std::move(col_idx)};
  op_.rows = std::ssize(peer);
  op_.cols = rank.transport.size();
  op_.row_ptr = row_ptr_.span();
  op_.col_idx = col_idx_.span();
}

void PeerRows::add(Backend& backend, Queue& queue, ConstMatrixView x, MatrixView y,
                   double beta) const {
  backend.run(queue, kernels::Spmm{op_, {0, op_.rows}, x, beta, y});
}

SentRows::SentRows(const Rank& rank, const DistributedOperator& op, std::int64_t cols,
                   DType storage, const MessageRule& rule, std::vector<float> scores)
    : rank_(rank), rule_(rule), scores_(std::move(scores)) {
  const std::int64_t messages = op.halo.sent_rows();
  kept_ = zero_rows(rank, messages, cols, storage);
  copies_ = zero_rows(rank, messages, cols, storage);
  if (rule.shifts) spread_shift_ = zero_rows(rank, messages, cols, storage);
}

void SentRows::square_copies(Queue& queue, Tensor& of_each) {
  const MatrixView copies = copies_.view();
  if (counting_.span().empty()) {
    std::vector<LocalId> counting;
    for (std::int32_t k = 0; k < copies.rows; ++k) counting.push_back(LocalId{k});
    counting_ = {rank_.backend, rank_.queue, std::move(counting)};
  }
  if (of_each.rows() == 0) {
    of_each = Tensor(rank_.backend, copies.rows, 1, parameter_dtype(copies.dtype));
  }
  rank_.backend.run(queue,
                    kernels::PairDots{copies, counting_.span(), counting_.span(), of_each.view()});
}

void SentRows::set_shifted(const DistributedOperator& op,
                           const std::vector<std::uint8_t>& shifted) {
  std::vector<int> peer_of(shifted.size(), -1);
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;
  for (std::size_t peer = 0; peer + 1 < op.halo.send_offset.size(); ++peer) {
    const auto begin = static_cast<std::size_t>(op.halo.send_offset[peer]);
    const auto end = static_cast<std::size_t>(op.halo.send_offset[peer + 1]);
    double sum = 0;
    for (std::size_t k = begin; k < end; ++k) sum += shifted[k] != 0 ? scores_[k] : 0;
    for (std::size_t k = begin; k < end && sum > 0; ++k) {
      if (shifted[k] == 0) continue;
      peer_of[k] = static_cast<int>(peer);
      col_idx.push_back(static_cast<std::int32_t>(k));
      values.push_back(static_cast<float>(scores_[k] / sum));
    }
    row_ptr.push_back(std::ssize(col_idx));
  }
  spread_ = std::make_unique<PeerRows>(rank_, peer_of);
  mean_row_ptr_ = {rank_.backend, rank_.queue, std::move(row_ptr)};
  mean_col_idx_ = {rank_.backend, rank_.queue, std::move(col_idx)};
  mean_values_ = {rank_.backend, rank_.queue, std::move(values)};
  mean_.rows = rank_.transport.size();
  mean_.cols = std::ssize(shifted);
  mean_.row_ptr = mean_row_ptr_.span();
  mean_.col_idx = mean_col_idx_.span();
  mean_.values = mean_values_.span();
}

void SentRows::prepare(Queue& queue, const DistributedOperator& op, MatrixView x,
                       std::span<const float> scale, MatrixView shift) {
  Backend& backend = rank_.backend;
  const MatrixView copies = copies_.view();
  const MatrixView kept = kept_.view();
  backend.run(queue,
              kernels::GatherRows{x.rows_in({0, op.sendable()}), op.send_rows, scale, copies});
  if (rule_.measures_drift) square_copies(queue, size_);
  if (rule_.sends == MessageRule::Sends::kCorrected) {
    backend.run(queue, kernels::Combine{1, copies, 1, kept, copies});
    return;
  }
  if (rule_.sends == MessageRule::Sends::kDifferences || rule_.measures_drift || rule_.shifts) {
    backend.run(queue, kernels::Combine{1, copies, -1, kept, copies});
  }
  if (rule_.shifts) {
    backend.run(queue, kernels::Spmm{mean_, {0, mean_.rows}, copies, 0, shift});
    const MatrixView spread = spread_shift_.view();
    spread_->add(backend, queue, shift, spread, 0);
    backend.run(queue, kernels::Combine{1, kept, 1, spread, kept});
    backend.run(queue, kernels::Combine{1, copies, -1, spread, copies});
  }
  if (rule_.measures_drift) square_copies(queue, moved_);
}

void SentRows::update(Queue& queue, const Packed& packed) {
  Backend& backend = rank_.backend;
  const MatrixView kept = kept_.view();
  const auto decode = [&](int adds) {
    backend.run(queue, kernels::DequantizeRows{packed.bytes, packed.messages, kept, adds});
  };
  switch (rule_.sends) {
    case MessageRule::Sends::kRows:
      return decode(0);
    case MessageRule::Sends::kDifferences:
      return decode(1);
    case MessageRule::Sends::kCorrected:
      backend.copy(queue, kept.data, copies_.view().data,
                   kept.rows * kept.stride * bytes_of(kept.dtype), CopyKind::kDeviceToDevice);
      return decode(-1);
  }
}

SentRows::Loss SentRows::loss(const Packed& packed) {
  Queue& queue = rank_.queue;
  square_copies(queue, size_);
  rank_.backend.run(queue,
                    kernels::DequantizeRows{packed.bytes, packed.messages, copies_.view(), -1});
  square_copies(queue, moved_);
  Loss loss{download_f32(rank_.backend, queue, size_.view()),
            download_f32(rank_.backend, queue, moved_.view()),
            {}};
  if (rule_.sends == MessageRule::Sends::kDifferences) {
    rank_.backend.run(queue, kernels::Combine{1, copies_.view(), 1, kept_.view(), copies_.view()});
    square_copies(queue, size_);
    loss.rows = download_f32(rank_.backend, queue, size_.view());
  }
  return loss;
}

SentRows::Drift SentRows::drift() {
  return {download_f32(rank_.backend, rank_.queue, moved_.view()),
          download_f32(rank_.backend, rank_.queue, size_.view())};
}

}  // namespace atl
