#include "engine/exchange/messages/message_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/engine/exchange/messages/message_bytes.hpp"

namespace atl {
namespace {

using Numbers = std::vector<std::int64_t>;

// Rows of 10 f32: 8, 8, 12, 16, 24 and 40 bytes at 1 to 32 bits, written out by hand.
TEST(MessageLayout, SortsByWidthAndKeepsTheOrderOfEqualWidths) {
  const MessageBits bits{8, 32, 8, 1, 16, 2, 4, 1};
  const PacketLayout layout = layout_packets(bits, Numbers{0, 8}, 10, DType::kF32);
  // Two of 1 bit (8), one of 2 (8), one of 4 (12), two of 8 (16), one of 16 (24), one of 32 (40).
  EXPECT_EQ(layout.offset, (Numbers{36, 92, 52, 0, 68, 16, 24, 8}));
  EXPECT_EQ(layout.packet_begin, (Numbers{0}));
  EXPECT_EQ(layout.packet_bytes, (Numbers{132}));
  EXPECT_EQ(layout.buffer_bytes, 132);
  EXPECT_EQ(layout.sent_bytes(), 132);
  EXPECT_EQ(message_bytes(bits, 10, DType::kF32), 132);
}

TEST(MessageLayout, AlignsPacketsAndSendsNoGaps) {
  // Rank 1 has no messages (this rank itself, say); rows of 3 f32: 8 bytes at 8 bits, 12 at 32.
  const MessageBits bits{8, 32, 8, 8, 32, 8};
  const PacketLayout layout = layout_packets(bits, Numbers{0, 2, 2, 5, 6}, 3, DType::kF32);
  EXPECT_EQ(layout.packet_begin, (Numbers{0, 64, 64, 128}));
  EXPECT_EQ(layout.packet_bytes, (Numbers{20, 0, 28, 8}));
  EXPECT_EQ(layout.offset, (Numbers{0, 8, 64, 72, 80, 128}));
  EXPECT_EQ(layout.sent_bytes(), 56);
  EXPECT_EQ(layout.buffer_bytes, 136);
}

// Bf16 rows of an odd number of columns at 32 bits follow all others, so that no row is misaligned.
TEST(MessageLayout, StoredRowsOfHalfWordsComeLast) {
  const MessageBits bits{32, 4, 32, 1};
  const PacketLayout layout = layout_packets(bits, Numbers{0, 4}, 3, DType::kBf16);
  EXPECT_EQ(layout.offset, (Numbers{16, 8, 22, 0}));
  EXPECT_EQ(layout.packet_bytes, (Numbers{28}));
}

TEST(MessageLayout, LeavesOutThePacketsOfSkippedPeers) {
  const MessageBits bits{8, 8, 32, 32, 4};
  const Numbers peers{0, 2, 4, 5};
  const std::vector<std::uint8_t> skip{0, 1, 0};
  const PacketLayout layout = layout_packets(bits, peers, 16, DType::kF32, skip);
  EXPECT_EQ(layout.packet_bytes, (Numbers{40, 128, 12}));
  EXPECT_EQ(layout.packet_begin[0], 0);
  EXPECT_EQ(layout.packet_begin[2], 64);  // right behind the first: the second takes no room
  EXPECT_EQ(layout.offset[0], 0);
  EXPECT_EQ(layout.offset[1], 20);
  EXPECT_EQ(layout.offset[4], 64);
  EXPECT_EQ(layout.buffer_bytes, 76);
}

TEST(MessageLayout, OfNothingIsEmpty) {
  const PacketLayout layout = layout_packets({}, Numbers{0, 0, 0}, 7, DType::kF32);
  EXPECT_EQ(layout.packet_bytes, (Numbers{0, 0}));
  EXPECT_EQ(layout.buffer_bytes, 0);
  EXPECT_EQ(layout.sent_bytes(), 0);
}

TEST(MessageLayout, PiecesAreSortedEachByItself) {
  // Two packets of two pieces: messages 0 to 1 and 2 to 3; none and 4.
  const MessageBits bits{8, 2, 4, 1, 2};
  const Numbers pieces{2, 4, 0, 1};
  const PacketLayout layout = layout_packets(bits, Numbers{0, 4, 5}, 8, DType::kF32, {}, pieces);
  const auto bytes = [](int width) { return wire_row_bytes(width, 8, DType::kF32); };
  EXPECT_EQ(layout.offset[1], 0);
  EXPECT_EQ(layout.offset[0], bytes(2));
  EXPECT_EQ(layout.offset[3], bytes(2) + bytes(8));
  EXPECT_EQ(layout.offset[2], bytes(2) + bytes(8) + bytes(1));
  const auto first = static_cast<std::size_t>(bytes(2) + bytes(8));
  const auto whole = static_cast<std::size_t>(bytes(1) + bytes(2) + bytes(4) + bytes(8));
  EXPECT_EQ(layout.piece_ends,
            (std::vector<std::size_t>{first, whole, 0, static_cast<std::size_t>(bytes(2))}));
  EXPECT_EQ(layout.sent_bytes(), message_bytes(bits, 8, DType::kF32));
}

// Codes are read as words, also behind a piece that ends with half of one.
TEST(MessageLayout, PiecesBeginAtWords) {
  const MessageBits bits{32, 2, 32, 32, 4};
  const Numbers pieces{1, 2, 4, 5};
  const PacketLayout layout = layout_packets(bits, Numbers{0, 5}, 3, DType::kBf16, {}, pieces);
  EXPECT_EQ(layout.offset[0], 0);
  EXPECT_EQ(layout.offset[1], 8);
  EXPECT_EQ(layout.offset[4] % 4, 0);
  EXPECT_EQ(layout.piece_ends.front(), 6U);
  EXPECT_EQ(layout.piece_ends.back(), static_cast<std::size_t>(layout.packet_bytes[0]));
}

// Any widths: messages touch one another and nothing else, all inside their packet.
TEST(MessageLayout, MessagesFillTheirPacketsWithoutOverlap) {
  std::mt19937 random(5);
  for (const DType storage : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t cols : {1, 3, 31, 32, 33, 100}) {
      const Numbers peers{0, 40, 40, 41, 120};
      MessageBits bits(120);
      for (std::uint8_t& width : bits) {
        width = static_cast<std::uint8_t>(kWireBits[random() % kWireBits.size()]);
      }
      const PacketLayout layout = layout_packets(bits, peers, cols, storage);
      EXPECT_EQ(layout.sent_bytes(), message_bytes(bits, cols, storage));
      for (std::size_t peer = 0; peer + 1 < peers.size(); ++peer) {
        std::vector<std::size_t> order(static_cast<std::size_t>(peers[peer + 1] - peers[peer]));
        std::iota(order.begin(), order.end(), static_cast<std::size_t>(peers[peer]));
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return bits[a] < bits[b]; });
        EXPECT_EQ(layout.packet_begin[peer] % 64, 0);
        std::int64_t end = layout.packet_begin[peer];
        for (const std::size_t k : order) {
          ASSERT_EQ(layout.offset[k], end) << cols << " columns, message " << k;
          end += wire_row_bytes(bits[k], cols, storage);
        }
        EXPECT_EQ(end, layout.packet_begin[peer] + layout.packet_bytes[peer]);
        EXPECT_LE(end, layout.buffer_bytes);
        if (peer > 0) {
          EXPECT_GE(layout.packet_begin[peer],
                    layout.packet_begin[peer - 1] + layout.packet_bytes[peer - 1]);
        }
      }
    }
  }
}

// Five messages of three rows to two peers, none received.
struct SentLists {
  std::vector<LocalId> send_rows{LocalId{4}, LocalId{1}, LocalId{4}, LocalId{6}, LocalId{1}};
  Numbers send_offset{0, 2, 5};
  Numbers recv_offset{0, 0, 0};
  HaloListsView view() const { return {recv_offset, send_offset, send_rows}; }
};

TEST(MessageGroups, HoldEachSentRowOnceWithItsMessages) {
  const SentLists lists;
  const MessageBits all{8, 8, 8, 8, 8};
  const MessageGroups groups = group_messages(lists.view(), 8, all);
  EXPECT_EQ(groups.rows, (std::vector<LocalId>{LocalId{1}, LocalId{4}, LocalId{6}}));
  EXPECT_EQ(groups.first, (Numbers{0, 2, 4, 5}));
  EXPECT_EQ(groups.order, (Numbers{1, 4, 0, 2, 3}));
}

TEST(MessageGroups, LeaveOutWhatIsNotSent) {
  const SentLists lists;
  const MessageBits some{0, 4, 2, 0, 4};
  const MessageGroups groups = group_messages(lists.view(), 8, some);
  EXPECT_EQ(groups.rows, (std::vector<LocalId>{LocalId{1}, LocalId{4}}));
  EXPECT_EQ(groups.first, (Numbers{0, 2, 3}));
  EXPECT_EQ(groups.order, (Numbers{1, 4, 2}));
  const MessageGroups single = single_messages(some);
  EXPECT_EQ(single.rows, (std::vector<LocalId>{LocalId{1}, LocalId{2}, LocalId{4}}));
  EXPECT_EQ(single.first, (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(single.order, (Numbers{1, 2, 4}));
  const PacketLayout layout = layout_packets(some, lists.send_offset, 8, DType::kF32);
  EXPECT_EQ(layout.packet_bytes,
            (Numbers{wire_row_bytes(4, 8, DType::kF32),
                     wire_row_bytes(2, 8, DType::kF32) + wire_row_bytes(4, 8, DType::kF32)}));
}

TEST(MessageGroups, OfNoMessagesAreEmpty) {
  const Numbers offset{0, 0};
  const MessageGroups groups = group_messages({offset, offset, {}}, 3, {});
  EXPECT_TRUE(groups.rows.empty());
  EXPECT_EQ(groups.first, (Numbers{0}));
  EXPECT_TRUE(groups.order.empty());
}

}  // namespace
}  // namespace atl
