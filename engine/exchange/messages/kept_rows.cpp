#include "engine/exchange/messages/kept_rows.hpp"

namespace atl {

Tensor zero_rows(const Rank& rank, std::int64_t rows, std::int64_t cols, DType dtype) {
  Tensor tensor(rank.backend, rows, cols, dtype);
  fill_zero_rows(rank.backend, rank.queue, tensor.view());
  return tensor;
}

PeerRows::PeerRows(const Rank& rank, const std::vector<int>& peer) {
  Csr csr;
  for (const int p : peer) {
    if (p >= 0) csr.col_idx.push_back(p);
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
  }
  csr_ = {rank.backend, rank.queue, std::move(csr), rank.transport.size()};
}

void PeerRows::add(Backend& backend, Queue& queue, ConstMatrixView x, MatrixView y,
                   double beta) const {
  const SparseOperator op = csr_.view();
  backend.run(queue, kernels::Spmm{op, {0, op.rows}, x, beta, y});
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
    counting_ = {rank_.backend, rank_.queue, first_numbers<LocalId>(copies.rows)};
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
  Csr mean;
  for (std::size_t peer = 0; peer + 1 < op.halo.send_offset.size(); ++peer) {
    const auto begin = static_cast<std::size_t>(op.halo.send_offset[peer]);
    const auto end = static_cast<std::size_t>(op.halo.send_offset[peer + 1]);
    double sum = 0;
    for (std::size_t k = begin; k < end; ++k) sum += shifted[k] != 0 ? scores_[k] : 0;
    for (std::size_t k = begin; k < end && sum > 0; ++k) {
      if (shifted[k] == 0) continue;
      peer_of[k] = static_cast<int>(peer);
      mean.col_idx.push_back(static_cast<std::int32_t>(k));
      mean.values.push_back(static_cast<float>(scores_[k] / sum));
    }
    mean.row_ptr.push_back(std::ssize(mean.col_idx));
  }
  spread_ = std::make_unique<PeerRows>(rank_, peer_of);
  mean_ = {rank_.backend, rank_.queue, std::move(mean), std::ssize(shifted)};
}

void SentRows::prepare(Queue& queue, const DistributedOperator& op, MatrixView x,
                       std::span<const float> scale, MatrixView shift) {
  if (!rule_.measures_drift && !rule_.shifts) return;
  Backend& backend = rank_.backend;
  const MatrixView copies = copies_.view();
  const MatrixView kept = kept_.view();
  backend.run(queue,
              kernels::GatherRows{x.rows_in({0, op.sendable()}), op.send_rows, scale, copies});
  if (rule_.measures_drift) square_copies(queue, size_);
  backend.run(queue, kernels::Combine{1, copies, -1, kept, copies});
  if (rule_.shifts) {
    const SparseOperator mean = mean_.view();
    backend.run(queue, kernels::Spmm{mean, {0, mean.rows}, copies, 0, shift});
    const MatrixView spread = spread_shift_.view();
    spread_->add(backend, queue, shift, spread, 0);
    backend.run(queue, kernels::Combine{1, kept, 1, spread, kept});
    backend.run(queue, kernels::Combine{1, copies, -1, spread, copies});
  }
  if (rule_.measures_drift) square_copies(queue, moved_);
}

void SentRows::pack(Queue& queue, const DistributedOperator& op, MatrixView x,
                    std::span<const float> scale, const Packing& packing, bool measured) {
  const auto& [list, rounding, packets, trace] = packing;
  rank_.backend.run(queue, kernels::QuantizeResiduals{
                               x.rows_in({0, op.sendable()}), op.send_rows, scale,
                               rule_.sends == MessageRule::Sends::kCorrected ? 1 : -1, kept_.view(),
                               copies_.view(), measured, list, rounding, packets, trace});
}

void SentRows::update(Queue& queue, const Packed& packed) {
  rank_.backend.run(queue, kernels::DequantizeRows{packed.bytes, packed.messages, kept_.view(), 0});
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
