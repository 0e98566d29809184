// Where the messages of a channel lie in their packets. Both ends of a link compute the same layout
// from the widths of its messages alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/exchange/distributed_operator.hpp"
#include "kernels/wire.hpp"

namespace atl {

// One bit-width (of kWireBits, or 0 where it is not sent) per message, in the order of its lists:
// by peer, then as they list the rows.
using MessageBits = std::vector<std::uint8_t>;

// The packets of one channel on one rank, to or from every peer.
struct PacketLayout {
  std::vector<std::int64_t> offset;        // of each message, in bytes from the start of the buffer
  std::vector<std::int64_t> packet_begin;  // of each peer's packet in the buffer
  std::vector<std::int64_t> packet_bytes;  // what travels; gaps between packets do not
  std::vector<std::size_t> piece_ends;     // [peers * pieces] in bytes of the packet; see pieces
  std::int64_t buffer_bytes = 0;

  std::int64_t sent_bytes() const;
};

// Inside a piece of a packet messages are sorted by width, least first, and otherwise stay in
// order. peer_offset: P + 1, the messages of peer r are [peer_offset[r], peer_offset[r + 1]).
// `skip[r]` true: the packet of peer r is not in this buffer (its messages' offsets mean nothing).
// pieces: as DistributedOperator has them; empty: packets are whole.
PacketLayout layout_packets(std::span<const std::uint8_t> bits,
                            std::span<const std::int64_t> peer_offset, std::int64_t cols,
                            DType storage, std::span<const std::uint8_t> skip = {},
                            std::span<const std::int64_t> pieces = {});

// The messages of a list that are sent, grouped by the row that they carry, rows ascending.
struct MessageGroups {
  std::vector<LocalId> rows;        // [R] each sent row once
  std::vector<std::int64_t> first;  // [R + 1] messages order[first[k]] .. carry rows[k]
  std::vector<std::int64_t> order;  // [M] index in the list
};
// sendable: rows that messages may carry. bits: of the messages.
MessageGroups group_messages(const HaloListsView& halo, std::int64_t sendable,
                             std::span<const std::uint8_t> bits);
// The same where message k carries row k.
MessageGroups single_messages(std::span<const std::uint8_t> bits);

// Index of a width in kWireBits. Asserts that it is one.
std::size_t bits_index(int bits);

}  // namespace atl
