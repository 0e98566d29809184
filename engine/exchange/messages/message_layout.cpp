#include "engine/exchange/messages/message_layout.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace atl {

namespace {
// Packets begin at a boundary that every transport and device copies well from, pieces at one that
// words of codes are read from: stored rows of half words, which come last, may end between two.
constexpr std::int64_t kPacketAlignment = 64;
constexpr std::int64_t kPieceAlignment = 4;

constexpr std::int64_t aligned(std::int64_t position, std::int64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}
}  // namespace

std::size_t bits_index(int bits) {
  const auto found = std::find(kWireBits.begin(), kWireBits.end(), bits);
  ATOLL_ASSERT(found != kWireBits.end(), "{} bits", bits);
  return static_cast<std::size_t>(found - kWireBits.begin());
}

std::int64_t PacketLayout::sent_bytes() const {
  return std::accumulate(packet_bytes.begin(), packet_bytes.end(), std::int64_t{0});
}

PacketLayout layout_packets(std::span<const std::uint8_t> bits,
                            std::span<const std::int64_t> peer_offset, std::int64_t cols,
                            DType storage, std::span<const std::uint8_t> skip,
                            std::span<const std::int64_t> pieces) {
  std::array<std::int64_t, kWireBits.size()> row_bytes;
  for (std::size_t w = 0; w < kWireBits.size(); ++w) {
    row_bytes[w] = wire_row_bytes(kWireBits[w], cols, storage);
  }
  PacketLayout layout;
  layout.offset.resize(bits.size());
  // Places messages [begin, stop) from a position on; returns where they end.
  const auto place = [&](std::size_t begin, std::size_t stop, std::int64_t position) {
    std::array<std::int64_t, kWireBits.size()> next{};
    for (std::size_t k = begin; k < stop; ++k) {
      if (bits[k] != 0) ++next[bits_index(bits[k])];
    }
    for (std::size_t w = 0; w < kWireBits.size(); ++w) {
      position += std::exchange(next[w], position) * row_bytes[w];
    }
    for (std::size_t k = begin; k < stop; ++k) {
      if (bits[k] == 0) continue;
      const std::size_t w = bits_index(bits[k]);
      layout.offset[k] = next[w];
      next[w] += row_bytes[w];
    }
    return position;
  };
  const std::size_t peers = peer_offset.size() - 1;
  const std::size_t count = pieces.size() / peers;
  std::int64_t end = 0;
  for (std::size_t peer = 0; peer < peers; ++peer) {
    end = aligned(end, kPacketAlignment);
    layout.packet_begin.push_back(end);
    const auto first = static_cast<std::size_t>(peer_offset[peer]);
    std::size_t begin = first;
    std::int64_t position = end;
    for (const std::int64_t messages : pieces.subspan(peer * count, count)) {
      const std::size_t stop = first + static_cast<std::size_t>(messages);
      if (stop > begin) position = place(begin, stop, aligned(position, kPieceAlignment));
      layout.piece_ends.push_back(static_cast<std::size_t>(position - end));
      begin = stop;
    }
    position = place(begin, static_cast<std::size_t>(peer_offset[peer + 1]), position);
    layout.packet_bytes.push_back(position - end);
    if (skip.empty() || skip[peer] == 0) end = position;
  }
  layout.buffer_bytes = end;
  return layout;
}

MessageGroups group_messages(const HaloListsView& halo, std::int64_t sendable,
                             std::span<const std::uint8_t> bits) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(sendable) + 1, 0);
  std::int64_t messages = 0;
  for (std::size_t k = 0; k < bits.size(); ++k) {
    if (bits[k] == 0) continue;
    ++begin[static_cast<std::size_t>(to_index(halo.send_rows[k])) + 1];
    ++messages;
  }
  MessageGroups groups;
  groups.first.push_back(0);
  for (std::int64_t row = 0; row < sendable; ++row) {
    const auto i = static_cast<std::size_t>(row);
    if (begin[i + 1] > 0) {
      groups.rows.push_back(LocalId{static_cast<std::int32_t>(row)});
      groups.first.push_back(groups.first.back() + begin[i + 1]);
    }
    begin[i + 1] += begin[i];
  }
  groups.order.resize(static_cast<std::size_t>(messages));
  for (std::size_t k = 0; k < bits.size(); ++k) {
    if (bits[k] == 0) continue;
    groups.order[static_cast<std::size_t>(
        begin[static_cast<std::size_t>(to_index(halo.send_rows[k]))]++)] =
        static_cast<std::int64_t>(k);
  }
  return groups;
}

MessageGroups single_messages(std::span<const std::uint8_t> bits) {
  MessageGroups groups;
  groups.first.push_back(0);
  for (std::int32_t k = 0; k < std::ssize(bits); ++k) {
    if (bits[static_cast<std::size_t>(k)] == 0) continue;
    groups.rows.push_back(LocalId{k});
    groups.order.push_back(k);
    groups.first.push_back(std::ssize(groups.order));
  }
  return groups;
}

}  // namespace atl
