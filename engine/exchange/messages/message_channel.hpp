// One channel on one rank: the widths of its messages, where they lie in their packets, the buffers
// that packets are made in and arrive in, and the rows that are kept.
#pragma once

#include <map>
#include <memory>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/messages/kept_rows.hpp"
#include "engine/exchange/messages/message_lists.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

class MessageChannel {
 public:
  // Rows of `cols` values of type `storage` in direction of `op`, which must outlive it. scores:
  // A_k of the messages sent, where the rule shifts.
  MessageChannel(const Rank& rank, const DistributedOperator& op, Channel channel,
                 std::int64_t cols, DType storage, const MessageRule& rule,
                 std::vector<float> scores = {});

  Channel channel() const { return channel_; }
  const DistributedOperator& op() const { return op_; }
  std::int64_t cols() const { return cols_; }
  DType storage() const { return storage_; }
  // One width per message, in the order of op().halo, 0: it is not sent; empty until set_bits().
  const MessageBits& sent_bits() const { return sent_.bits(); }
  std::int64_t sent_bytes() const { return sent_.layout().sent_bytes(); }
  // No transfer may be under way, but one of the epoch before if the rule pipelines. Both ends of a
  // link must be given the same widths. as_rows, the same on all ranks: rows themselves travel,
  // with unbiased rounding, and none are kept, whatever the rule is.
  void set_bits(MessageBits sent, MessageBits received, bool as_rows = false);
  // As the last set_bits() said.
  bool as_rows() const { return as_rows_; }

  // Packs the rows of x (see HaloExchange::begin) on the packing queue and posts their packets.
  // Where the host can see it at once, throws Error{kDiverged} for a row that can't be sent.
  // measured: noise_base(), rounding_variance() or squared_rows() will be asked for.
  std::unique_ptr<PendingExchange> begin(PacketTransfer& packets, MatrixView x, const Round& round,
                                         const std::shared_ptr<const void>& memory, bool measured);
  // Fills halo rows of x with zeros, all of a peer that doesn't send all of its messages: what
  // stands for rows that don't come where none are kept.
  void clear(MatrixView x);
  // How long the packing of the last begin() took on a queue of its own, once that has run; nothing
  // where spans of the trace tell, or the epoch was recorded.
  std::optional<double> packing_seconds() const;

  // Waits for what is under way from one epoch to the next, so that kept rows are all there is.
  void settle();
  // The rows that are kept, by name, and back: before the first begin(). load() returns false where
  // they are not those of this channel.
  void save(SafetensorsFile& file);
  bool load(const SafetensorsFile& file);
  // In the last begin(), where the rule measures it.
  SentRows::Drift drift() { return sent_rows_->drift(); }

  // Checks the rows of the last begin(), once its work has run. Throws Error{kDiverged} naming
  // layer, direction, node and rank of a row that holds NaN, infinity or values too large for a
  // common range.
  void require_sendable(int epoch);
  // The noise that message k would have at a width is noise_base()[k] * noise_at(), by the last
  // begin(). Rows as they are: R_k = F * range^2 / 6, the variance of rounding at one bit by the
  // model of AdaQP (section 4.1), with the range that was used, and 1 / (2^b - 1)^2. Differences,
  // and rows with a correction: |v|^2 (1 - c), what a row moves by in an epoch, or itself, and
  // c / (1 - c), or twice that, with the share c that rounding to the nearest loses: what is lost
  // is part of the next v. widths: of the messages when they are sent. At most the largest f32.
  std::vector<float> noise_base(std::span<const std::uint8_t> widths);
  // ratio: of measured to modelled in rounding_variance().
  double noise_at(int bits, double ratio) const;
  // The share of |v|^2 that rounding to the nearest loses at a width, where the rule sends that.
  static double lost_share(int bits, double ratio);
  // |m|^2 of each message in the last begin(), where receivers add up differences.
  std::vector<float> squared_rows() { return loss().rows; }
  // The variance that rounding really added, and that of the model, summed over the messages of
  // each width.
  struct RoundingVariance {
    std::array<double, kWireBits.size()> messages{};
    std::array<double, kWireBits.size()> measured{};
    std::array<double, kWireBits.size()> modelled{};
  };
  RoundingVariance rounding_variance();

 private:
  class Pending;

  // Memory that transfers read and write.
  struct Memory {
    GrowingMemory<allocate_device> sent, received;
    Tensor kept;               // rows of x behind the inner ones, as they were made last
    Tensor sent_shift, shift;  // [ranks, cols]
    std::shared_ptr<const void> rows;
  };

  // The rule of this epoch: a channel whose rows themselves travel keeps nothing.
  MessageRule::Sends sends() const { return as_rows_ ? MessageRule::Sends::kRows : rule_.sends; }
  bool is(MessageRule::Sends which) const { return sends() == which; }
  bool keeps() const { return rule_.keeps && !as_rows_; }
  bool sender_keeps() const { return sent_rows_ != nullptr && !as_rows_; }
  bool shifts() const { return rule_.shifts && !as_rows_; }
  void forget_kept_rows();
  std::vector<float> range_variance() const;
  const SentRows::Loss& loss();
  bool sends_copies() const { return !is(MessageRule::Sends::kRows); }
  RoundingSpec rounding(const Round& round) const;
  void pack(PacketTransfer& packets, MatrixView x, const Round& round, bool measured);
  std::unique_ptr<PendingPackets> post(PacketTransfer& packets, MatrixView target,
                                       const Round& round);
  std::unique_ptr<PendingPackets> post_shift(PacketTransfer& packets, const Round& round);
  MatrixView halo_of(MatrixView x) const { return x.rows_in({op_.inner(), op_.with_halo()}); }
  MatrixView kept_rows() { return memory_->kept.view(); }
  // Fills rows of `target` from pieces [begin, end) of all packets, which have arrived.
  void unpack(MatrixView target, int begin, int end);
  void unpack_messages(MatrixView target, const UnpackList& list);
  std::span<std::byte> sent_packets() const;
  SentRows::Packed packed() const { return {sent_packets(), sent_.unpack_list()}; }
  // Fills the halo rows of x with those that are kept.
  void deliver(MatrixView x);
  void set_shifted(const MessageBits& received);
  std::span<const GlobalId> row_ids() const;  // that key rounding noise
  std::int64_t received_bytes() const { return received_.layout().sent_bytes(); }

  const Rank& rank_;
  const DistributedOperator& op_;
  Channel channel_;
  std::int64_t cols_;
  DType storage_;
  MessageRule rule_;
  bool as_rows_ = false;
  int pieces_;  // that packets travel in

  SentMessages sent_;
  ReceivedMessages received_;
  DeviceArray<float> range_;           // by group
  DeviceArray<float> variance_;        // by message, grouped
  DeviceArray<std::int64_t> bad_row_;  // group of a row that can't be sent, or kNone
  DeviceArray<float> factors_;         // by row of x: what it is multiplied by before it is sent
  std::vector<GlobalId> copy_ids_;     // of the rows that copies are of
  ConstDeviceArray<GlobalId> device_copy_ids_;

  std::unique_ptr<SentRows> sent_rows_;  // null: the rule needs none
  std::unique_ptr<PeerRows> shifted_;    // rows of Memory::kept that shift
  bool has_kept_ = false;                // rows of an epoch before
  int epoch_ = 0;                        // of the last begin()
  std::optional<SentRows::Loss> loss_;   // the same
  bool is_measured_ = false;             // the last begin() was, and its packets are still there
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  // Since the epoch before. It is finished before its memory goes.
  std::unique_ptr<PendingPackets> under_way_;
  SpanClock* packing_clock_ = nullptr;
  int packing_begin_ = -1, packing_end_ = -1;  // marks of the clock
};

// All channels of a rank by Channel::slot(): the same slots on every rank.
using MessageChannels = std::map<int, std::unique_ptr<MessageChannel>>;

// Names the messages of a channel as far as a checkpoint must find them again.
std::string lists_checksum(const DistributedOperator& op);

// Collective: tells every receiver a number for each message that it gets, in channels that are the
// same on every rank. numbers[c][k]: of message k that this rank sends in channels[c]. Returns
// those of messages that it receives.
std::vector<MessageBits> tell_receivers(Transport& transport,
                                        std::span<MessageChannel* const> channels,
                                        std::span<const MessageBits> numbers, int epoch);
// The same of widths, and lets the channels use them.
void agree_on_bits(Transport& transport, std::span<MessageChannel* const> channels,
                   std::vector<MessageBits> bits, int epoch);

}  // namespace atl
