// One channel of the quantized exchange on one rank: the widths of its messages, where they lie in
// their packets, and the buffers that packets are made in and arrive in.
#pragma once

#include <map>
#include <memory>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/packet_transfer.hpp"
#include "engine/exchange/quantization/message_layout.hpp"

namespace atl {

class QuantizedChannel {
 public:
  // Rows of `cols` values of type `storage` in direction of `op`, which must outlive it.
  QuantizedChannel(const Rank& rank, const DistributedOperator& op, Channel channel,
                   std::int64_t cols, DType storage);

  Channel channel() const { return channel_; }
  const DistributedOperator& op() const { return op_; }
  std::int64_t cols() const { return cols_; }
  DType storage() const { return storage_; }
  // One width per message, in the order of op().halo; empty until set_bits().
  const MessageBits& sent_bits() const { return sent_bits_; }
  std::int64_t sent_bytes() const { return send_layout_.sent_bytes(); }
  std::int64_t received_bytes() const { return receive_layout_.sent_bytes(); }
  // No transfer may be under way. Both ends of a link must be given the same widths.
  void set_bits(MessageBits sent, MessageBits received);

  // Packs the rows of x (see HaloExchange::begin) on the packing queue and posts their packets.
  // Where the host can see it at once, throws Error{kInput} for a row that can't be sent.
  std::unique_ptr<PendingPackets> begin(PacketTransfer& packets, MatrixView x, const Round& round,
                                        const std::shared_ptr<const void>& memory);
  // How long the packing of the last begin() took on a queue of its own, once that has run; nothing
  // where spans of the trace tell, or the epoch was recorded.
  std::optional<double> packing_seconds() const;
  // Fills the halo rows of x from pieces [begin, end) of all packets, which have arrived.
  void unpack(MatrixView x, int begin, int end);

  // Checks the rows of the last begin(), once its work has run. Throws Error{kInput} naming layer,
  // direction, node and rank of a row that holds NaN, infinity or values too large for a common
  // range.
  void require_sendable(int epoch);
  // R_k = F * range^2 / 6 of each message: the variance of its rounding at one bit by the model of
  // AdaQP (section 4.1), with the range that was used; at most the largest f32. By message, in the
  // order of the lists.
  std::vector<float> range_variance() const;
  // The variance that rounding really added, and that of the model, summed over the messages of
  // each width.
  struct RoundingVariance {
    std::array<double, kWireBits.size()> messages{};
    std::array<double, kWireBits.size()> measured{};
    std::array<double, kWireBits.size()> modelled{};
  };
  RoundingVariance rounding_variance() const;

 private:
  // Memory that transfers read and write.
  struct Memory {
    DeviceMemory sent, received;
    std::int64_t sent_bytes = 0, received_bytes = 0;
    std::shared_ptr<const void> rows;
  };

  PackList pack_list() const;
  void unpack_messages(MatrixView x, std::int64_t begin, std::int64_t end);
  std::span<const GlobalId> row_ids() const;  // that key rounding noise
  void reserve(DeviceMemory& memory, std::int64_t& have, std::int64_t need);

  const Rank& rank_;
  const DistributedOperator& op_;
  Channel channel_;
  std::int64_t cols_;
  DType storage_;

  MessageGroups groups_;
  ConstDeviceArray<LocalId> group_rows_;
  ConstDeviceArray<std::int64_t> group_first_;
  DeviceArray<float> range_;           // by group
  DeviceArray<float> variance_;        // by message, grouped
  DeviceArray<std::int64_t> bad_row_;  // group of a row that can't be sent, or kNone

  MessageBits sent_bits_;
  std::vector<std::uint8_t> in_place_;  // by peer: its packet is the halo rows themselves
  PacketLayout send_layout_, receive_layout_;
  ConstDeviceArray<std::int64_t> send_offset_;  // grouped
  ConstDeviceArray<std::uint8_t> send_bits_;    // grouped
  ConstDeviceArray<LocalId> unpack_rows_;       // halo rows of messages that are unpacked
  ConstDeviceArray<std::int64_t> unpack_offset_;
  ConstDeviceArray<std::uint8_t> unpack_bits_;
  std::vector<std::int64_t> unpack_first_;  // by peer: the first of these of its packet
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  SpanClock* packing_clock_ = nullptr;
  int packing_begin_ = -1, packing_end_ = -1;  // marks of the clock
};

// All channels of a rank by Channel::slot(): the same slots on every rank.
using QuantizedChannels = std::map<int, std::unique_ptr<QuantizedChannel>>;

// Collective: tells every receiver the widths of the messages it gets and lets all channels, the
// same on every rank, use them. bits[c][k]: of message k that this rank sends in channels[c].
void agree_on_bits(Transport& transport, std::span<QuantizedChannel* const> channels,
                   std::vector<MessageBits> bits, int epoch);

}  // namespace atl
