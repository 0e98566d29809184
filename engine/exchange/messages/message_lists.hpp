// The messages of a channel on one rank, sent and received, until their widths change: where they
// lie in their packets, and the lists by which kernels pack and unpack them.
#pragma once

#include <vector>

#include "engine/exchange/messages/message_layout.hpp"
#include "engine/exchange/rank.hpp"

namespace atl {

// Rows that travel, the same in all epochs.
struct ChannelRows {
  const Rank& rank;
  const DistributedOperator& op;
  std::int64_t cols = 0;
  DType storage = DType::kF32;
};

class SentMessages {
 public:
  // bits: a width for each message, in the order of the lists of op.halo. single: each carries a
  // row of its own, that of its place; else rows of x, of which several messages may carry one.
  // pieces: of a packet.
  void set(const ChannelRows& rows, MessageBits bits, bool single, int pieces);

  const MessageBits& bits() const { return bits_; }
  const PacketLayout& layout() const { return layout_; }
  const MessageGroups& groups() const { return groups_; }
  PackList pack_list() const {
    return {group_rows_.span(), group_first_.span(), grouped_offset_.span(), grouped_bits_.span()};
  }
  // Messages that are sent, where each is unpacked into the row of its place: by the sender, who
  // finds out what arrives.
  UnpackList unpack_list() const { return {row_of_.span(), offset_.span(), widths_.span()}; }

 private:
  MessageBits bits_;
  PacketLayout layout_;
  MessageGroups groups_;
  ConstDeviceArray<LocalId> group_rows_;
  ConstDeviceArray<std::int64_t> group_first_;
  ConstDeviceArray<std::int64_t> grouped_offset_;
  ConstDeviceArray<std::uint8_t> grouped_bits_;
  ConstDeviceArray<LocalId> row_of_;
  ConstDeviceArray<std::int64_t> offset_;
  ConstDeviceArray<std::uint8_t> widths_;
};

class ReceivedMessages {
 public:
  // bits: as of SentMessages. in_place: a packet of nothing but exact rows is received as the rows
  // that it fills.
  void set(const ChannelRows& rows, const MessageBits& bits, bool in_place, int pieces);

  const PacketLayout& layout() const { return layout_; }
  bool in_place(std::size_t peer) const { return in_place_[peer] != 0; }
  std::size_t peers() const { return in_place_.size(); }
  // Messages of a peer that are unpacked.
  std::int64_t unpacked_from(std::size_t peer) const { return of(peer, 0, pieces_).rows.size(); }
  // The lists of all of them, and of those in pieces [begin, end) of a peer's packet.
  UnpackList all() const { return {row_of_.span(), offset_.span(), widths_.span()}; }
  UnpackList of(std::size_t peer, int begin, int end) const;

 private:
  std::size_t place(std::size_t peer, int piece) const {
    return static_cast<std::size_t>(
        first_[peer * static_cast<std::size_t>(pieces_ + 1) + static_cast<std::size_t>(piece)]);
  }

  int pieces_ = 1;
  std::vector<std::uint8_t> in_place_;  // by peer
  PacketLayout layout_;
  ConstDeviceArray<LocalId> row_of_;
  ConstDeviceArray<std::int64_t> offset_;
  ConstDeviceArray<std::uint8_t> widths_;
  // [peers * (pieces + 1)] the first of these of a packet's piece, and where its last ends
  std::vector<std::int64_t> first_;
};

}  // namespace atl
