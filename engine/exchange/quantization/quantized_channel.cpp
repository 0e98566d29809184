#include "engine/exchange/quantization/quantized_channel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace atl {

namespace {
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
}

QuantizedChannel::QuantizedChannel(const Rank& rank, const DistributedOperator& op, Channel channel,
                                   std::int64_t cols, DType storage)
    : rank_(rank),
      op_(op),
      channel_(channel),
      cols_(cols),
      storage_(storage),
      groups_(group_messages(op.halo, op.sendable())),
      group_rows_(rank.backend, rank.queue, std::span<const LocalId>(groups_.rows)),
      group_first_(rank.backend, rank.queue, std::span<const std::int64_t>(groups_.first)),
      range_(rank.backend, std::ssize(groups_.rows)),
      variance_(rank.backend, std::ssize(groups_.order)),
      bad_row_(rank.backend, 1) {
  bad_row_.upload(rank.backend, rank.queue, std::vector{kNone});
}

void QuantizedChannel::reserve(DeviceMemory& memory, std::int64_t& have, std::int64_t need) {
  if (have >= need) return;
  memory = {};
  memory = allocate_device(rank_.backend, need);
  have = need;
}

void QuantizedChannel::set_bits(MessageBits sent, MessageBits received) {
  ATOLL_ASSERT(std::ssize(sent) == op_.halo.sent_rows() &&
               std::ssize(received) == op_.halo.halo_rows());
  const auto peers = static_cast<std::size_t>(rank_.transport.size());
  // A packet of nothing but exact rows is the halo rows of that peer, unless those have padding: no
  // unpacking.
  in_place_.assign(peers, padded_columns(cols_) == cols_ ? 1 : 0);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    for (std::int64_t k = op_.halo.recv_offset[peer]; k < op_.halo.recv_offset[peer + 1]; ++k) {
      if (received[static_cast<std::size_t>(k)] != 32) in_place_[peer] = 0;
    }
  }
  send_layout_ = layout_packets(sent, op_.halo.send_offset, cols_, storage_, {}, op_.sent_pieces);
  receive_layout_ = layout_packets(received, op_.halo.recv_offset, cols_, storage_, in_place_,
                                   op_.received_pieces);
  reserve(memory_->sent, memory_->sent_bytes, send_layout_.buffer_bytes);
  reserve(memory_->received, memory_->received_bytes, receive_layout_.buffer_bytes);

  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> bits;
  for (const std::int64_t k : groups_.order) {
    offset.push_back(send_layout_.offset[static_cast<std::size_t>(k)]);
    bits.push_back(sent[static_cast<std::size_t>(k)]);
  }
  send_offset_ = {rank_.backend, rank_.queue, std::move(offset)};
  send_bits_ = {rank_.backend, rank_.queue, std::move(bits)};

  std::vector<LocalId> rows;
  offset.clear();
  bits.clear();
  unpack_first_.clear();
  for (std::size_t peer = 0; peer < peers; ++peer) {
    unpack_first_.push_back(std::ssize(rows));
    if (in_place_[peer] != 0) continue;
    for (std::int64_t k = op_.halo.recv_offset[peer]; k < op_.halo.recv_offset[peer + 1]; ++k) {
      const std::int64_t row = k - op_.halo.recv_offset[peer] + op_.halo.first_halo_row(peer);
      rows.push_back(static_cast<LocalId>(row));
      offset.push_back(receive_layout_.offset[static_cast<std::size_t>(k)]);
      bits.push_back(received[static_cast<std::size_t>(k)]);
    }
  }
  unpack_rows_ = {rank_.backend, rank_.queue, std::move(rows)};
  unpack_offset_ = {rank_.backend, rank_.queue, std::move(offset)};
  unpack_bits_ = {rank_.backend, rank_.queue, std::move(bits)};
  sent_bits_ = std::move(sent);
}

std::span<const GlobalId> QuantizedChannel::row_ids() const {
  return op_.message_ids.empty() ? rank_.inner_ids : op_.message_ids;
}

PackList QuantizedChannel::pack_list() const {
  return {group_rows_.span(), group_first_.span(), send_offset_.span(), send_bits_.span()};
}

std::unique_ptr<PendingPackets> QuantizedChannel::begin(PacketTransfer& packets, MatrixView x,
                                                        const Round& round,
                                                        const std::shared_ptr<const void>& memory) {
  const char* direction = to_string(channel_.direction);
  const TraceTag tag{round.epoch, channel_.layer, rank_.transport.rank(), -1, channel_.number};
  auto* const sent = static_cast<std::byte*>(memory_->sent.get());
  auto* const received = static_cast<std::byte*>(memory_->received.get());
  {
    const ScopedSpan span(rank_.trace, "pack", tag, direction, SpanOf::kHost);
    RoundingSpec rounding;
    rounding.key = {.seed = rank_.seed,
                    .stream = channel_.direction == Direction::kForward
                                  ? RandomStream::kRoundForward
                                  : RandomStream::kRoundBackward,
                    .layer = static_cast<std::uint8_t>(channel_.number),
                    .epoch = static_cast<std::uint32_t>(round.epoch)};
    rounding.row_ids = row_ids();
    rounding.state = round.state;
    const PackTrace trace{range_.span(), variance_.span(), bad_row_.span()};
    Queue& queue = packets.packing_queue();
    // A recording has no times: the trace has no clock then.
    packing_clock_ = rank_.trace.clock() == nullptr ? nullptr : packets.packing_clock();
    packing_begin_ = packing_clock_ == nullptr ? -1 : packing_clock_->mark();
    make_sums(rank_.backend, queue, op_, x);
    rank_.backend.run(
        queue, kernels::QuantizeRows{x.rows_in({0, op_.sendable()}),
                                     pack_list(),
                                     op_.message_scale,
                                     rounding,
                                     {sent, static_cast<std::size_t>(send_layout_.buffer_bytes)},
                                     trace});
    packing_end_ = packing_clock_ == nullptr ? -1 : packing_clock_->mark();
    // On a device this would wait for the packing; require_sendable() comes after the epoch there.
    if (rank_.backend.host_accessible()) require_sendable(round.epoch);
  }
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::size_t peer = 0; peer < in_place_.size(); ++peer) {
    sends.emplace_back(sent + send_layout_.packet_begin[peer],
                       static_cast<std::size_t>(send_layout_.packet_bytes[peer]));
    std::byte* to = received + receive_layout_.packet_begin[peer];
    if (in_place_[peer] != 0) {
      const std::int64_t first = op_.inner() + op_.halo.first_halo_row(peer);
      to = static_cast<std::byte*>(x.rows_in({first, first + op_.halo.received_from(peer)}).data);
    }
    receives.emplace_back(to, static_cast<std::size_t>(receive_layout_.packet_bytes[peer]));
  }
  memory_->rows = memory;
  ScopedSpan span(rank_.trace, "post", tag, direction, SpanOf::kHost);
  span.set_bytes(sent_bytes());
  return packets.begin(channel_.slot(), std::move(sends), std::move(receives),
                       {"halo exchange", direction, channel_.layer, round.epoch}, memory_,
                       {op_.pieces, send_layout_.piece_ends, receive_layout_.piece_ends});
}

std::optional<double> QuantizedChannel::packing_seconds() const {
  if (packing_begin_ < 0 || packing_end_ < 0) return std::nullopt;
  return (packing_clock_->microseconds(packing_end_) -
          packing_clock_->microseconds(packing_begin_)) /
         1e6;
}

void QuantizedChannel::unpack(MatrixView x, int begin, int end) {
  end = std::min(end, op_.pieces);
  if (begin >= end) return;
  if (begin == 0 && end == op_.pieces) {
    return unpack_messages(x, 0, std::ssize(unpack_rows_.span()));
  }
  for (std::size_t peer = 0; peer < in_place_.size(); ++peer) {
    if (in_place_[peer] != 0) continue;
    const auto pieces = op_.received_pieces.subspan(peer * static_cast<std::size_t>(op_.pieces),
                                                    static_cast<std::size_t>(op_.pieces));
    const auto messages_before = [&](int piece) {
      return piece == op_.pieces ? op_.halo.received_from(peer)
             : piece == 0        ? 0
                                 : pieces[static_cast<std::size_t>(piece) - 1];
    };
    unpack_messages(x, unpack_first_[peer] + messages_before(begin),
                    unpack_first_[peer] + messages_before(end));
  }
}

void QuantizedChannel::unpack_messages(MatrixView x, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  const std::span<const std::byte> packets(static_cast<const std::byte*>(memory_->received.get()),
                                           static_cast<std::size_t>(receive_layout_.buffer_bytes));
  const auto of = [&](auto list) {
    return list.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  };
  rank_.backend.run(rank_.queue,
                    kernels::DequantizeRows{packets,
                                            {of(unpack_rows_.span()), of(unpack_offset_.span()),
                                             of(unpack_bits_.span())},
                                            x.rows_in({op_.inner(), op_.with_halo()})});
}

void QuantizedChannel::require_sendable(int epoch) {
  const bool direct = rank_.backend.host_accessible();
  const std::int64_t group =
      direct ? bad_row_.span()[0] : bad_row_.download(rank_.backend, rank_.queue)[0];
  if (group == kNone) return;
  GlobalId node{};
  const auto row =
      static_cast<std::size_t>(to_index(groups_.rows[static_cast<std::size_t>(group)]));
  rank_.backend.copy(rank_.queue, &node, row_ids().data() + row, sizeof(node),
                     CopyKind::kDeviceToHost);
  rank_.backend.synchronize(rank_.queue);
  node = node_of_message(node);
  fail(ErrorKind::kDiverged,
       "epoch {}, layer {}, {} messages: the row of node {} on rank {} holds NaN, infinity or "
       "values beyond 1e38, which can't be quantized; lower --lr, or check the features for huge "
       "values (atoll info --validate)",
       epoch, channel_.layer, to_string(channel_.direction), to_index(node),
       rank_.transport.rank());
}

std::vector<float> QuantizedChannel::range_variance() const {
  const std::vector<float> range = range_.download(rank_.backend, rank_.queue);
  std::vector<float> result(groups_.order.size());
  for (std::size_t g = 0; g < groups_.rows.size(); ++g) {
    // Squares of values that travel well may be beyond f32.
    const double variance = std::min(static_cast<double>(cols_) * range[g] * range[g] / 6,
                                     static_cast<double>(std::numeric_limits<float>::max()));
    for (std::int64_t i = groups_.first[g]; i < groups_.first[g + 1]; ++i) {
      const auto k = static_cast<std::size_t>(groups_.order[static_cast<std::size_t>(i)]);
      result[k] = static_cast<float>(variance);
    }
  }
  return result;
}

QuantizedChannel::RoundingVariance QuantizedChannel::rounding_variance() const {
  const std::vector<float> measured = variance_.download(rank_.backend, rank_.queue);
  const std::vector<float> one_bit = range_variance();
  RoundingVariance sums;
  for (std::size_t i = 0; i < groups_.order.size(); ++i) {
    const auto k = static_cast<std::size_t>(groups_.order[i]);
    const std::size_t w = bits_index(sent_bits_[k]);
    const double levels = std::exp2(sent_bits_[k]) - 1;
    sums.messages[w] += 1;
    sums.measured[w] += measured[i];
    sums.modelled[w] += one_bit[k] / (levels * levels);
  }
  return sums;
}

void agree_on_bits(Transport& transport, std::span<QuantizedChannel* const> channels,
                   std::vector<MessageBits> bits, int epoch) {
  const auto peers = static_cast<std::size_t>(transport.size());
  std::vector<MessageBits> sends(peers), receives(peers), received(channels.size());
  for (std::size_t peer = 0; peer < peers; ++peer) {
    std::size_t expected = 0;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const HaloListsView& halo = channels[c]->op().halo;
      sends[peer].insert(sends[peer].end(), bits[c].begin() + halo.send_offset[peer],
                         bits[c].begin() + halo.send_offset[peer + 1]);
      expected += static_cast<std::size_t>(halo.recv_offset[peer + 1] - halo.recv_offset[peer]);
    }
    receives[peer].resize(expected);
  }
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (std::size_t peer = 0; peer < peers; ++peer) {
    from.push_back(std::as_bytes(std::span(sends[peer])));
    to.push_back(std::as_writable_bytes(std::span(receives[peer])));
  }
  transport.all_to_all_v(std::move(from), std::move(to), {"bit-widths", "", -1, epoch})->wait_all();
  std::vector<std::size_t> next(peers, 0);
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const HaloListsView& halo = channels[c]->op().halo;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      const auto count =
          static_cast<std::size_t>(halo.recv_offset[peer + 1] - halo.recv_offset[peer]);
      const auto begin = receives[peer].begin() + static_cast<std::ptrdiff_t>(next[peer]);
      received[c].insert(received[c].end(), begin, begin + static_cast<std::ptrdiff_t>(count));
      next[peer] += count;
    }
    channels[c]->set_bits(std::move(bits[c]), std::move(received[c]));
  }
}

}  // namespace atl
