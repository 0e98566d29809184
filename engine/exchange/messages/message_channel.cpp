#include "engine/exchange/messages/message_channel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checksum.hpp"
#include "base/error.hpp"

namespace atl {

namespace {
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
// Share of differences that is lost at most: more would be no message.
constexpr double kMostLost = 0.95;
}  // namespace

// An exchange under way: waits, unpacks and fills the halo rows of x.
class MessageChannel::Pending final : public PendingExchange {
 public:
  // shift: null, or the rows that kept ones shift by. packets: null where those of an earlier epoch
  // count.
  Pending(MessageChannel& channel, MatrixView x, int epoch, std::unique_ptr<PendingPackets> packets,
          std::unique_ptr<PendingPackets> shift)
      : channel_(channel), x_(x), packets_(std::move(packets)), shift_(std::move(shift)) {
    tag_ = {epoch, channel.channel_.layer, -1, channel.rank_.trace.rank(), channel.channel_.number};
  }

  void finish_groups(int last) override {
    if (finished_) return;
    if (channel_.pieces_ == 1) return finish();
    {
      const ScopedSpan span(trace(), "wait", tag_, direction());
      packets_->finish_pieces(last);
    }
    unpack(last + 1);
  }

  void finish() override {
    if (std::exchange(finished_, true)) return;
    {
      ScopedSpan span(trace(), "wait", tag_, direction());
      // Those that are used in the next epoch are counted there.
      if (packets_ != nullptr) span.set_bytes(channel_.received_bytes());
      // In the order in which other ranks post them. Packets for the next epoch stay under way.
      if (shift_ != nullptr) shift_->post();
      if (channel_.under_way_ != nullptr) channel_.under_way_->post();
      if (shift_ != nullptr) shift_->finish();
      if (packets_ != nullptr) packets_->finish();
    }
    if (packets_ != nullptr) {
      record_packets(channel_.rank_, packets_->packet_times(), tag_, direction());
    }
    packets_.reset();
    if (shift_ != nullptr) {
      channel_.shifted_->add(channel_.rank_.backend, channel_.rank_.queue,
                             channel_.memory_->shift.view(), channel_.kept_rows());
    }
    unpack(channel_.pieces_);
    if (channel_.keeps()) channel_.deliver(x_);
  }

 private:
  TraceRecorder& trace() const { return channel_.rank_.trace; }
  const char* direction() const { return to_string(channel_.channel_.direction); }
  void unpack(int end) {
    if (!synchronous_) return;
    const ScopedSpan span(trace(), "unpack", tag_, direction());
    const int begin = std::exchange(unpacked_, end);
    channel_.unpack(channel_.keeps() ? channel_.kept_rows() : channel_.halo_of(x_), begin, end);
  }

  MessageChannel& channel_;
  MatrixView x_;
  TraceTag tag_;
  std::unique_ptr<PendingPackets> packets_;
  std::unique_ptr<PendingPackets> shift_;
  bool synchronous_ = packets_ != nullptr;
  bool finished_ = false;
  int unpacked_ = 0;  // pieces
};

MessageChannel::MessageChannel(const Rank& rank, const DistributedOperator& op, Channel channel,
                               std::int64_t cols, DType storage, const MessageRule& rule,
                               std::vector<float> scores)
    : rank_(rank),
      op_(op),
      channel_(channel),
      cols_(cols),
      storage_(storage),
      rule_(rule),
      pieces_(rule.keeps ? 1 : op.pieces),
      range_(rank.backend, op.halo.sent_rows()),
      variance_(rank.backend, op.halo.sent_rows()),
      bad_row_(rank.backend, 1) {
  bad_row_.upload(rank.backend, rank.queue, std::vector{kNone});
  if (rule.factor != 1) {
    std::vector<float> factors(static_cast<std::size_t>(op.sendable()), 1);
    if (!op.message_scale.empty()) {
      rank.backend.copy(rank.queue, factors.data(), op.message_scale.data(),
                        std::ssize(factors) * static_cast<std::int64_t>(sizeof(float)),
                        CopyKind::kDeviceToHost);
      rank.backend.synchronize(rank.queue);
    }
    for (float& factor : factors) factor *= static_cast<float>(rule.factor);
    factors_ = {rank.backend, std::ssize(factors)};
    factors_.upload(rank.backend, rank.queue, factors);
  }
  const auto zeroed = [&](std::int64_t rows) { return zero_rows(rank, rows, cols, storage); };
  const std::int64_t outer = op.with_halo() - op.inner();
  if (rule.keeps) memory_->kept = zeroed(outer);
  if (rule.shifts) {
    memory_->sent_shift = zeroed(rank.transport.size());
    memory_->shift = zeroed(rank.transport.size());
  }
  if (rule.sender_keeps()) {
    sent_rows_ = std::make_unique<SentRows>(rank, op, cols, storage, rule, std::move(scores));
  }
  if (!sends_copies()) return;
  std::vector<GlobalId> ids(row_ids().size());
  rank.backend.copy(rank.queue, ids.data(), row_ids().data(),
                    std::ssize(ids) * static_cast<std::int64_t>(sizeof(GlobalId)),
                    CopyKind::kDeviceToHost);
  rank.backend.synchronize(rank.queue);
  for (const LocalId row : op.halo.send_rows) {
    copy_ids_.push_back(ids[static_cast<std::size_t>(to_index(row))]);
  }
  device_copy_ids_ = {rank.backend, rank.queue, std::span<const GlobalId>(copy_ids_)};
}

void MessageChannel::forget_kept_rows() {
  if (rule_.keeps) fill_zero_rows(rank_.backend, rank_.queue, kept_rows());
  if (sent_rows_ != nullptr) fill_zero_rows(rank_.backend, rank_.queue, sent_rows_->kept());
}

void MessageChannel::set_bits(MessageBits sent, MessageBits received, bool as_rows) {
  ATOLL_ASSERT(std::ssize(sent) == op_.halo.sent_rows() &&
               std::ssize(received) == op_.halo.halo_rows());
  settle();
  // The same state on both ends, whenever differences are sent again.
  if (as_rows && !as_rows_) forget_kept_rows();
  as_rows_ = as_rows;
  is_measured_ = false;
  pieces_ = keeps() ? 1 : op_.pieces;
  const ChannelRows rows{rank_, op_, cols_, storage_};
  // Rows that have padding, or are still read when the packet comes, or differences are unpacked.
  const bool in_place =
      padded_columns(cols_) == cols_ && !is(MessageRule::Sends::kDifferences) && !rule_.pipelined;
  received_.set(rows, received, in_place, pieces_);
  sent_.set(rows, std::move(sent), sends_copies(), pieces_);
  memory_->sent.reserve(rank_.backend, sent_.layout().buffer_bytes);
  memory_->received.reserve(rank_.backend, received_.layout().buffer_bytes);
  if (shifts()) set_shifted(received);
}

void MessageChannel::set_shifted(const MessageBits& received) {
  // Rows that come whole and in time need no shift.
  const bool all = sends_copies() || rule_.pipelined;
  std::vector<std::uint8_t> sent(sent_bits().size());
  for (std::size_t k = 0; k < sent.size(); ++k) sent[k] = all || sent_bits()[k] == 0 ? 1 : 0;
  sent_rows_->set_shifted(op_, sent);
  std::vector<int> peer_of(static_cast<std::size_t>(op_.with_halo() - op_.inner()), -1);
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    for (std::int64_t m = 0; m < op_.halo.received_from(peer); ++m) {
      if (!all && received[static_cast<std::size_t>(op_.halo.recv_offset[peer] + m)] != 0) continue;
      peer_of[static_cast<std::size_t>(op_.halo.first_halo_row(peer) + m)] = static_cast<int>(peer);
    }
  }
  shifted_ = std::make_unique<PeerRows>(rank_, peer_of);
}

std::span<const GlobalId> MessageChannel::row_ids() const {
  // None are given where rows are the rank's own; or there are none to send.
  const std::span<const GlobalId> ids = op_.message_ids.empty() ? rank_.inner_ids : op_.message_ids;
  return ids.first(static_cast<std::size_t>(op_.sendable()));
}

RoundingSpec MessageChannel::rounding(const Round& round) const {
  RoundingSpec rounding;
  rounding.key = {.seed = rank_.seed,
                  .stream = channel_.direction == Direction::kForward
                                ? RandomStream::kRoundForward
                                : RandomStream::kRoundBackward,
                  .layer = static_cast<std::uint8_t>(channel_.number),
                  .epoch = static_cast<std::uint32_t>(round.epoch)};
  rounding.row_ids = sends_copies() ? device_copy_ids_.span() : row_ids();
  rounding.state = round.state;
  rounding.nearest = sends_copies();
  return rounding;
}

void MessageChannel::pack(PacketTransfer& packets, MatrixView x, const Round& round,
                          bool measured) {
  const TraceTag tag{round.epoch, channel_.layer, rank_.trace.rank(), -1, channel_.number};
  const ScopedSpan span(rank_.trace, "pack", tag, to_string(channel_.direction), SpanOf::kHost);
  const std::span<std::byte> sent = sent_packets();
  const PackTrace trace{range_.span().first(sent_.groups().rows.size()),
                        variance_.span().first(sent_.groups().order.size()), bad_row_.span()};
  const std::span<const float> scale =
      rule_.factor == 1 ? op_.message_scale : std::span<const float>(factors_.span());
  Queue& queue = packets.packing_queue();
  // A recording has no times: the trace has no clock then.
  packing_clock_ = rank_.trace.clock() == nullptr ? nullptr : packets.packing_clock();
  packing_begin_ = packing_clock_ == nullptr ? -1 : packing_clock_->mark();
  make_sums(rank_.backend, queue, op_, x);
  if (sender_keeps()) sent_rows_->prepare(queue, op_, x, scale, memory_->sent_shift.view());
  if (sends_copies()) {
    sent_rows_->pack(queue, op_, x, scale, {sent_.pack_list(), rounding(round), sent, trace},
                     measured);
  } else {
    rank_.backend.run(
        queue, kernels::QuantizeRows{x.rows_in({0, op_.sendable()}), sent_.pack_list(), scale,
                                     rounding(round), sent, trace});
    if (sender_keeps()) sent_rows_->update(queue, packed());
  }
  is_measured_ = measured;
  packing_end_ = packing_clock_ == nullptr ? -1 : packing_clock_->mark();
  // On a device this would wait for the packing; require_sendable() comes after the epoch there.
  if (rank_.backend.host_accessible()) require_sendable(round.epoch);
}

std::unique_ptr<PendingPackets> MessageChannel::post(PacketTransfer& packets, MatrixView target,
                                                     const Round& round) {
  const char* direction = to_string(channel_.direction);
  const TraceTag tag{round.epoch, channel_.layer, rank_.trace.rank(), -1, channel_.number};
  auto* const sent = static_cast<std::byte*>(memory_->sent.get());
  auto* const received = static_cast<std::byte*>(memory_->received.get());
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    sends.emplace_back(sent + sent_.layout().packet_begin[peer],
                       static_cast<std::size_t>(sent_.layout().packet_bytes[peer]));
    std::byte* to = received + received_.layout().packet_begin[peer];
    if (received_.in_place(peer)) {
      const std::int64_t first = op_.halo.first_halo_row(peer);
      to = static_cast<std::byte*>(
          target.rows_in({first, first + op_.halo.received_from(peer)}).data);
    }
    receives.emplace_back(to, static_cast<std::size_t>(received_.layout().packet_bytes[peer]));
  }
  ScopedSpan span(rank_.trace, "post", tag, direction, SpanOf::kHost);
  span.set_bytes(sent_bytes());
  return packets.begin(channel_.slot(), std::move(sends), std::move(receives),
                       {"halo exchange", direction, channel_.layer, round.epoch}, memory_,
                       {pieces_, sent_.layout().piece_ends, received_.layout().piece_ends});
}

std::unique_ptr<PendingPackets> MessageChannel::post_shift(PacketTransfer& packets,
                                                           const Round& round) {
  constexpr int kSlotsOfPackets = 2 * kMostChannels;
  const auto row = [&](MatrixView rows, std::int64_t peer, std::int64_t messages) {
    return rows_as_bytes(rows.rows_in({peer, messages == 0 ? peer : peer + 1}));
  };
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    const auto p = static_cast<std::int64_t>(peer);
    sends.emplace_back(row(memory_->sent_shift.view(), p,
                           op_.halo.send_offset[peer + 1] - op_.halo.send_offset[peer]));
    receives.emplace_back(row(memory_->shift.view(), p, op_.halo.received_from(peer)));
  }
  return packets.begin(
      kSlotsOfPackets + channel_.slot(), std::move(sends), std::move(receives),
      {"shift of kept rows", to_string(channel_.direction), channel_.layer, round.epoch}, memory_);
}

std::unique_ptr<PendingExchange> MessageChannel::begin(PacketTransfer& packets, MatrixView x,
                                                       const Round& round,
                                                       const std::shared_ptr<const void>& memory,
                                                       bool measured) {
  epoch_ = round.epoch;
  loss_.reset();
  settle();
  const bool late = has_kept_ && !rule_.is_synchronous(round.epoch);
  memory_->rows = memory;
  if (!keeps()) clear(x);
  pack(packets, x, round, measured);
  if (late) packets.finish_packing();
  const MatrixView target = keeps() ? kept_rows() : halo_of(x);
  std::unique_ptr<PendingPackets> shift = shifts() ? post_shift(packets, round) : nullptr;
  std::unique_ptr<PendingPackets> posted = post(packets, target, round);
  has_kept_ = keeps();
  if (late) under_way_ = std::move(posted);
  return std::make_unique<Pending>(*this, x, round.epoch, std::move(posted), std::move(shift));
}

void MessageChannel::settle() {
  if (under_way_ == nullptr) return;
  {
    const TraceTag tag{epoch_, channel_.layer, -1, rank_.trace.rank(), channel_.number};
    ScopedSpan span(rank_.trace, "wait", tag, to_string(channel_.direction));
    span.set_bytes(received_bytes());
    under_way_->finish();
  }
  under_way_.reset();
  unpack(kept_rows(), 0, pieces_);
}

void MessageChannel::clear(MatrixView x) {
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    const std::int64_t messages = op_.halo.received_from(peer);
    if (received_.in_place(peer) || received_.unpacked_from(peer) == messages) continue;
    const std::int64_t first = op_.halo.first_halo_row(peer);
    rank_.backend.run(rank_.queue,
                      kernels::FillZero{halo_of(x).rows_in({first, first + messages})});
  }
}

void MessageChannel::deliver(MatrixView x) {
  const MatrixView halo = halo_of(x);
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    const std::int64_t first = op_.halo.first_halo_row(peer);
    const RowRange rows{first, first + op_.halo.received_from(peer)};
    const MatrixView from = kept_rows().rows_in(rows);
    if (rows.size() == 0) continue;
    rank_.backend.copy(rank_.queue, halo.rows_in(rows).data, from.data,
                       std::ssize(rows_as_bytes(from)), CopyKind::kDeviceToDevice);
  }
}

void MessageChannel::save(SafetensorsFile& file) {
  settle();
  const auto add = [&](const char* name, MatrixView rows) {
    const std::vector<float> values = download_f32(rank_.backend, rank_.queue, rows);
    file.tensors[fmt::format("{}.{}", name, channel_.slot())] =
        host_tensor<float>("F32", {rows.rows, rows.cols}, values);
  };
  file.metadata[fmt::format("messages.{}", channel_.slot())] = lists_checksum(op_);
  if (rule_.keeps) add("received", kept_rows());
  if (sent_rows_ != nullptr) add("sent", sent_rows_->kept());
}

bool MessageChannel::load(const SafetensorsFile& file) {
  const auto lists = file.metadata.find(fmt::format("messages.{}", channel_.slot()));
  if (lists == file.metadata.end() || lists->second != lists_checksum(op_)) return false;
  const auto get = [&](const char* name, MatrixView rows) {
    const auto found = file.tensors.find(fmt::format("{}.{}", name, channel_.slot()));
    if (found == file.tensors.end() ||
        found->second.shape != std::vector<std::int64_t>{rows.rows, rows.cols}) {
      return false;
    }
    upload_f32(rank_.backend, rank_.queue, values_in<float>(found->second), rows);
    return true;
  };
  if (rule_.keeps && !get("received", kept_rows())) return false;
  if (sent_rows_ != nullptr && !get("sent", sent_rows_->kept())) return false;
  has_kept_ = rule_.keeps;
  return true;
}

std::optional<double> MessageChannel::packing_seconds() const {
  if (packing_begin_ < 0 || packing_end_ < 0) return std::nullopt;
  return (packing_clock_->microseconds(packing_end_) -
          packing_clock_->microseconds(packing_begin_)) /
         1e6;
}

void MessageChannel::unpack(MatrixView target, int begin, int end) {
  end = std::min(end, pieces_);
  if (begin >= end) return;
  if (begin == 0 && end == pieces_) return unpack_messages(target, received_.all());
  for (std::size_t peer = 0; peer < received_.peers(); ++peer) {
    unpack_messages(target, received_.of(peer, begin, end));
  }
}

void MessageChannel::unpack_messages(MatrixView target, const UnpackList& list) {
  if (list.rows.empty()) return;
  const std::span<const std::byte> packets(
      static_cast<const std::byte*>(memory_->received.get()),
      static_cast<std::size_t>(received_.layout().buffer_bytes));
  const int adds = is(MessageRule::Sends::kDifferences) ? 1 : 0;
  rank_.backend.run(rank_.queue, kernels::DequantizeRows{packets, list, target, adds});
}

std::span<std::byte> MessageChannel::sent_packets() const {
  return {static_cast<std::byte*>(memory_->sent.get()),
          static_cast<std::size_t>(sent_.layout().buffer_bytes)};
}

void MessageChannel::require_sendable(int epoch) {
  const bool direct = rank_.backend.host_accessible();
  const std::int64_t group =
      direct ? bad_row_.span()[0] : bad_row_.download(rank_.backend, rank_.queue)[0];
  if (group == kNone) return;
  GlobalId node{};
  const auto row =
      static_cast<std::size_t>(to_index(sent_.groups().rows[static_cast<std::size_t>(group)]));
  const std::span<const GlobalId> ids = sends_copies() ? device_copy_ids_.span() : row_ids();
  rank_.backend.copy(rank_.queue, &node, ids.data() + row, sizeof(node), CopyKind::kDeviceToHost);
  rank_.backend.synchronize(rank_.queue);
  node = node_of_message(node);
  fail(ErrorKind::kDiverged,
       "epoch {}, layer {}, {} messages: the row of node {} on rank {} holds NaN, infinity or "
       "values beyond 1e38, which can't be quantized; lower --lr, or check the features for huge "
       "values (atoll info --validate)",
       epoch, channel_.layer, to_string(channel_.direction), to_index(node),
       rank_.transport.rank());
}

std::vector<float> MessageChannel::range_variance() const {
  const std::vector<float> range = range_.download(rank_.backend, rank_.queue);
  std::vector<float> result(sent_bits().size());
  for (std::size_t g = 0; g < sent_.groups().rows.size(); ++g) {
    // Squares of values that travel well may be beyond f32.
    const double variance = std::min(static_cast<double>(cols_) * range[g] * range[g] / 6,
                                     static_cast<double>(std::numeric_limits<float>::max()));
    for (std::int64_t i = sent_.groups().first[g]; i < sent_.groups().first[g + 1]; ++i) {
      const auto k = static_cast<std::size_t>(sent_.groups().order[static_cast<std::size_t>(i)]);
      result[k] = static_cast<float>(variance);
    }
  }
  return result;
}

const SentRows::Loss& MessageChannel::loss() {
  if (!loss_) {
    ATOLL_ASSERT(is_measured_, "channel {} was not measured", channel_.slot());
    loss_ = sent_rows_->loss(packed());
  }
  return *loss_;
}

double MessageChannel::lost_share(int bits, double ratio) {
  return std::min(ratio * nearest_loss(bits), kMostLost);
}

std::vector<float> MessageChannel::noise_base(std::span<const std::uint8_t> widths) {
  if (!sends_copies()) return range_variance();
  std::vector<float> result = loss().sent;
  for (std::size_t k = 0; k < result.size(); ++k) {
    const double kept = 1 - lost_share(widths[k], 1);
    result[k] = std::min(static_cast<float>(result[k] * kept), std::numeric_limits<float>::max());
  }
  return result;
}

double MessageChannel::noise_at(int bits, double ratio) const {
  if (bits == 32) return 0;
  const double levels = std::exp2(bits) - 1;
  if (!sends_copies()) return ratio / (levels * levels);
  const double lost = lost_share(bits, ratio);
  return (is(MessageRule::Sends::kCorrected) ? 2 : 1) * lost / (1 - lost);
}

MessageChannel::RoundingVariance MessageChannel::rounding_variance() {
  RoundingVariance sums;
  if (sends_copies()) {
    for (std::size_t k = 0; k < sent_bits().size(); ++k) {
      if (sent_bits()[k] == 0) continue;
      const std::size_t w = bits_index(sent_bits()[k]);
      sums.messages[w] += 1;
      sums.measured[w] += loss().lost[k];
      sums.modelled[w] += nearest_loss(sent_bits()[k]) * loss().sent[k];
    }
    return sums;
  }
  const std::vector<float> measured = variance_.download(rank_.backend, rank_.queue);
  const std::vector<float> one_bit = range_variance();
  for (std::size_t i = 0; i < sent_.groups().order.size(); ++i) {
    const auto k = static_cast<std::size_t>(sent_.groups().order[i]);
    const std::size_t w = bits_index(sent_bits()[k]);
    sums.messages[w] += 1;
    sums.measured[w] += measured[i];
    sums.modelled[w] += one_bit[k] * noise_at(sent_bits()[k], 1);
  }
  return sums;
}

std::string lists_checksum(const DistributedOperator& op) {
  const HaloListsView& halo = op.halo;
  const auto bytes = [](auto span) {
    return std::string(reinterpret_cast<const char*>(span.data()), span.size_bytes());
  };
  return to_hex(
      checksum(bytes(halo.send_rows) + bytes(halo.send_offset) + bytes(halo.recv_offset)));
}

std::vector<MessageBits> tell_receivers(Transport& transport,
                                        std::span<MessageChannel* const> channels,
                                        std::span<const MessageBits> numbers, int epoch) {
  const auto peers = static_cast<std::size_t>(transport.size());
  std::vector<MessageBits> sends(peers), receives(peers), received(channels.size());
  for (std::size_t peer = 0; peer < peers; ++peer) {
    std::size_t expected = 0;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const HaloListsView& halo = channels[c]->op().halo;
      sends[peer].insert(sends[peer].end(), numbers[c].begin() + halo.send_offset[peer],
                         numbers[c].begin() + halo.send_offset[peer + 1]);
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
  }
  return received;
}

void agree_on_bits(Transport& transport, std::span<MessageChannel* const> channels,
                   std::vector<MessageBits> bits, int epoch) {
  std::vector<MessageBits> received = tell_receivers(transport, channels, bits, epoch);
  for (std::size_t c = 0; c < channels.size(); ++c) {
    channels[c]->set_bits(std::move(bits[c]), std::move(received[c]));
  }
}

}  // namespace atl
