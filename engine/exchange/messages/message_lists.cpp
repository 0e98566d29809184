#include "engine/exchange/messages/message_lists.hpp"

#include <utility>

namespace atl {

namespace {

// Lists of messages that are unpacked, in the making.
struct UnpackLists {
  std::vector<LocalId> rows;
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> bits;

  // Message k, into a row, if it is sent.
  void add(std::size_t k, std::int64_t row, const PacketLayout& layout, const MessageBits& widths) {
    if (widths[k] == 0) return;
    rows.push_back(static_cast<LocalId>(row));
    offset.push_back(layout.offset[k]);
    bits.push_back(widths[k]);
  }
};

// Whole packets have no list of pieces.
std::span<const std::int64_t> pieces_of(int pieces, std::span<const std::int64_t> ends) {
  return pieces == 1 ? std::span<const std::int64_t>() : ends;
}

}  // namespace

void SentMessages::set(const ChannelRows& rows, MessageBits bits, bool single, int pieces) {
  const auto& [rank, op, cols, storage] = rows;
  bits_ = std::move(bits);
  layout_ = layout_packets(bits_, op.halo.send_offset, cols, storage, {},
                           pieces_of(pieces, op.sent_pieces));
  groups_ = single ? single_messages(bits_) : group_messages(op.halo, op.sendable(), bits_);
  group_rows_ = {rank.backend, rank.queue, std::span<const LocalId>(groups_.rows)};
  group_first_ = {rank.backend, rank.queue, std::span<const std::int64_t>(groups_.first)};
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> widths;
  for (const std::int64_t k : groups_.order) {
    offset.push_back(layout_.offset[static_cast<std::size_t>(k)]);
    widths.push_back(bits_[static_cast<std::size_t>(k)]);
  }
  grouped_offset_ = {rank.backend, rank.queue, std::move(offset)};
  grouped_bits_ = {rank.backend, rank.queue, std::move(widths)};
  UnpackLists lists;
  for (std::size_t k = 0; k < bits_.size(); ++k) {
    lists.add(k, static_cast<std::int64_t>(k), layout_, bits_);
  }
  row_of_ = {rank.backend, rank.queue, std::move(lists.rows)};
  offset_ = {rank.backend, rank.queue, std::move(lists.offset)};
  widths_ = {rank.backend, rank.queue, std::move(lists.bits)};
}

void ReceivedMessages::set(const ChannelRows& rows, const MessageBits& bits, bool in_place,
                           int pieces) {
  const auto& [rank, op, cols, storage] = rows;
  const auto peers = static_cast<std::size_t>(rank.transport.size());
  pieces_ = pieces;
  in_place_.assign(peers, in_place ? 1 : 0);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    for (std::int64_t k = op.halo.recv_offset[peer]; k < op.halo.recv_offset[peer + 1]; ++k) {
      if (bits[static_cast<std::size_t>(k)] != kWireBits.back()) in_place_[peer] = 0;
    }
  }
  layout_ = layout_packets(bits, op.halo.recv_offset, cols, storage, in_place_,
                           pieces_of(pieces, op.received_pieces));
  UnpackLists lists;
  first_.clear();
  for (std::size_t peer = 0; peer < peers; ++peer) {
    const auto messages = static_cast<std::size_t>(op.halo.received_from(peer));
    const auto first = static_cast<std::size_t>(op.halo.recv_offset[peer]);
    std::size_t m = 0;
    for (int piece = 0; piece <= pieces; ++piece) {
      first_.push_back(std::ssize(lists.rows));
      if (piece == pieces || in_place_[peer] != 0) continue;
      const auto last = peer * static_cast<std::size_t>(pieces) + static_cast<std::size_t>(piece);
      const std::size_t end =
          piece + 1 == pieces ? messages : static_cast<std::size_t>(op.received_pieces[last]);
      for (; m < end; ++m) {
        lists.add(first + m, op.halo.first_halo_row(peer) + static_cast<std::int64_t>(m), layout_,
                  bits);
      }
    }
  }
  row_of_ = {rank.backend, rank.queue, std::move(lists.rows)};
  offset_ = {rank.backend, rank.queue, std::move(lists.offset)};
  widths_ = {rank.backend, rank.queue, std::move(lists.bits)};
}

UnpackList ReceivedMessages::of(std::size_t peer, int begin, int end) const {
  const std::size_t first = place(peer, begin);
  const std::size_t count = place(peer, end) - first;
  return {row_of_.span().subspan(first, count), offset_.span().subspan(first, count),
          widths_.span().subspan(first, count)};
}

}  // namespace atl
