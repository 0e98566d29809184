// Exchange mode `exact`: every halo row travels every time, in the storage type.
#include <map>

#include "engine/exchange/expected_messages.hpp"
#include "engine/exchange/packet_transfer.hpp"

namespace atl {

namespace {

class ExactExchange final : public HaloExchange {
 public:
  explicit ExactExchange(const Rank& rank) : rank_(rank), packets_(rank) {}

  std::string name() const override { return "exact"; }
  bool is_exact() const override { return true; }

  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override;
  void keep_alive(std::shared_ptr<const void> memory) override {
    memory_->receives = std::move(memory);
  }

  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                            DType dtype) const override {
    return exact_buffer_bytes(op.halo.sent_rows(), columns, dtype);
  }

 private:
  // Memory that transfers read and write.
  struct Memory {
    std::map<int, Tensor> sends;  // by slot
    std::shared_ptr<const void> receives;
  };

  // Memory of the packed rows of one channel, kept from pass to pass, of which one graph may have
  // more than the other. They travel with their padding, which packing does not write: what lay in
  // the memory before is not for other ranks.
  MatrixView send_buffer(int slot, std::int64_t rows, std::int64_t cols, DType dtype) {
    Tensor& buffer = memory_->sends[slot];
    if (buffer.rows() < rows || buffer.cols() != cols) {
      const std::int64_t spare = buffer.cols() == cols ? rows / 8 : 0;
      buffer = Tensor(rank_.backend, rows + spare, cols, dtype);
      fill_zero_rows(rank_.backend, packets_.packing_queue(), buffer.view());
    }
    return buffer.reshaped(rows, cols);
  }

  const Rank& rank_;
  PacketTransfer packets_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

class PendingExactExchange final : public PendingExchange {
 public:
  PendingExactExchange(std::unique_ptr<PendingPackets> packets, const Rank& rank, TraceTag tag,
                       Direction direction, std::int64_t bytes)
      : packets_(std::move(packets)),
        rank_(rank),
        tag_(tag),
        direction_(direction),
        bytes_(bytes) {}

  void finish_groups(int last) override {
    if (packets_ == nullptr) return;
    const ScopedSpan span(rank_.trace, "wait", tag_, to_string(direction_));
    packets_->finish_pieces(last);
  }

  void finish() override {
    if (packets_ == nullptr) return;
    {
      ScopedSpan span(rank_.trace, "wait", tag_, to_string(direction_));
      span.set_bytes(bytes_);
      packets_->finish();
    }
    record_packets(rank_, packets_->packet_times(), tag_, to_string(direction_));
    packets_.reset();
  }

 private:
  std::unique_ptr<PendingPackets> packets_;
  const Rank& rank_;
  TraceTag tag_;
  Direction direction_;
  std::int64_t bytes_;  // received
};

std::unique_ptr<PendingExchange> ExactExchange::begin(const DistributedOperator& op, MatrixView x,
                                                      Channel channel, const Round& round) {
  // Alone there is nothing to wait for, and the host must not: an epoch may be being recorded.
  const int ranks = rank_.transport.size();
  if (ranks == 1) return std::make_unique<NothingPending>();
  check_rows(op, x);
  const char* direction = to_string(channel.direction);
  const TraceTag tag{round.epoch, channel.layer, rank_.trace.rank(), -1, channel.number};
  const int slot = channel.slot();
  const MatrixView buffer = send_buffer(slot, op.halo.sent_rows(), x.cols, x.dtype);
  {
    const ScopedSpan span(rank_.trace, "pack", tag, direction, SpanOf::kHost);
    Queue& queue = packets_.packing_queue();
    make_sums(rank_.backend, queue, op, x);
    rank_.backend.run(queue, kernels::GatherRows{x.rows_in({0, op.sendable()}), op.send_rows,
                                                 op.message_scale, buffer});
  }
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (int peer = 0; peer < ranks; ++peer) {
    const auto [send_begin, send_end] =
        std::pair(op.halo.send_offset[peer], op.halo.send_offset[peer + 1]);
    const std::int64_t halo = op.inner() + op.halo.first_halo_row(peer);
    sends.push_back(rows_as_bytes(buffer.rows_in({send_begin, send_end})));
    receives.push_back(rows_as_bytes(x.rows_in({halo, halo + op.halo.received_from(peer)})));
  }
  // Padding travels, too: so rows are received where they are needed.
  const std::int64_t row_bytes = padded_columns(x.cols) * bytes_of(x.dtype);
  const auto ends = [&](std::span<const std::int64_t> messages) {
    std::vector<std::size_t> bytes;
    for (const std::int64_t count : messages) {
      bytes.push_back(static_cast<std::size_t>(count * row_bytes));
    }
    return bytes;
  };
  PacketPieces pieces{op.pieces, ends(op.sent_pieces), ends(op.received_pieces)};
  ScopedSpan span(rank_.trace, "post", tag, direction, SpanOf::kHost);
  span.set_bytes(op.halo.sent_rows() * row_bytes);
  const TraceTag received{round.epoch, channel.layer, -1, rank_.trace.rank(), channel.number};
  return std::make_unique<PendingExactExchange>(
      packets_.begin(slot, std::move(sends), std::move(receives),
                     {"halo exchange", direction, channel.layer, round.epoch}, memory_,
                     std::move(pieces)),
      rank_, received, channel.direction, op.halo.halo_rows() * row_bytes);
}

}  // namespace

std::unique_ptr<HaloExchange> make_exact_exchange(const Rank& rank) {
  return std::make_unique<ExactExchange>(rank);
}

}  // namespace atl
