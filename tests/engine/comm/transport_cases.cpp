#include "tests/engine/comm/transport_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <random>

#include "tests/engine/comm/packets.hpp"

namespace atl {

namespace {

void exchange(Transport& transport, Packets::Length length) {
  Packets packets(transport, length, 1);
  const std::int64_t before = transport.bytes_sent();
  packets.start(transport)->wait_all();
  EXPECT_TRUE(packets.has_arrived());
  EXPECT_EQ(transport.bytes_sent() - before, packets.bytes_to_send());
}

void empty_packets(Transport& transport) { exchange(transport, no_bytes); }
void unequal_packets(Transport& transport) { exchange(transport, unequal_lengths); }
void one_way_packets(Transport& transport) { exchange(transport, one_way); }
void large_packets(Transport& transport) { exchange(transport, large_lengths); }

void wait_any_reports_each_sender_once(Transport& transport) {
  Packets packets(transport, unequal_lengths, 2);
  const auto pending = packets.start(transport);
  std::vector<int> reported;
  for (int peer = pending->wait_any(); peer >= 0; peer = pending->wait_any()) {
    EXPECT_TRUE(packets.has_arrived_from(peer)) << "peer " << peer;
    reported.push_back(peer);
  }
  EXPECT_EQ(pending->wait_any(), -1);
  pending->wait_all();
  std::ranges::sort(reported);
  EXPECT_EQ(reported, packets.senders());
}

void wait_all_after_some(Transport& transport) {
  Packets packets(transport, large_lengths, 3);
  const auto pending = packets.start(transport);
  pending->wait_any();
  pending->wait_all();
  EXPECT_TRUE(packets.has_arrived());
  EXPECT_EQ(pending->wait_any(), -1);
}

// Every packet is reported once, with its bytes, and none is done before it was posted: neither
// here nor, as all ranks of these tests share a clock, by its sender.
void packet_times_of_every_packet(Transport& transport) {
  using Clock = std::chrono::steady_clock;
  const auto microseconds = [](Clock::time_point when) {
    return std::chrono::duration<double, std::micro>(when.time_since_epoch()).count();
  };
  for (const Packets::Length length : {unequal_lengths, one_way, large_lengths, no_bytes}) {
    Packets packets(transport, length, 8);
    const Clock::time_point before = Clock::now();
    const auto pending = packets.start(transport);
    pending->wait_any();
    pending->wait_all();
    const Clock::time_point after = Clock::now();
    const auto ranks = static_cast<std::size_t>(transport.size());
    std::vector<std::int64_t> sent(ranks), received(ranks);
    std::vector<double> posted(ranks * ranks), done(ranks * ranks);  // [from][to]
    for (const PacketTimes& packet : pending->packet_times()) {
      EXPECT_GT(packet.bytes, 0);
      EXPECT_LE(before, packet.posted);
      EXPECT_LE(packet.posted, packet.done);
      EXPECT_LE(packet.done, after);
      const auto peer = static_cast<std::size_t>(packet.peer);
      const auto rank = static_cast<std::size_t>(transport.rank());
      (packet.received ? received : sent)[peer] += packet.bytes;
      if (packet.received) {
        done[peer * ranks + rank] = microseconds(packet.done);
      } else {
        posted[rank * ranks + peer] = microseconds(packet.posted);
      }
    }
    for (int peer = 0; peer < transport.size(); ++peer) {
      const bool self = peer == transport.rank();
      const auto p = static_cast<std::size_t>(peer);
      EXPECT_EQ(sent[p], self ? 0 : std::int64_t(length(transport.rank(), peer)));
      EXPECT_EQ(received[p], self ? 0 : std::int64_t(length(peer, transport.rank())));
    }
    transport.all_reduce(std::span(posted), kLabel);
    transport.all_reduce(std::span(done), kLabel);
    for (std::size_t link = 0; link < posted.size(); ++link) EXPECT_LE(posted[link], done[link]);
  }
}

// Waited for in another order than started, so a message in the wrong transfer would show.
void several_at_once(Transport& transport) {
  Packets first(transport, unequal_lengths, 4);
  Packets second(transport, large_lengths, 5);
  Packets third(transport, unequal_lengths, 6);
  const auto pending_first = first.start(transport);
  const auto pending_second = second.start(transport);
  std::vector<double> sum{1.0, 2.0};
  transport.all_reduce(std::span(sum), kLabel);
  const auto pending_third = third.start(transport);
  pending_third->wait_all();
  EXPECT_TRUE(third.has_arrived());
  pending_first->wait_all();
  EXPECT_TRUE(first.has_arrived());
  pending_second->wait_all();
  EXPECT_TRUE(second.has_arrived());
  EXPECT_EQ(sum[1], 2.0 * transport.size());
}

void dropped_transfer_completes(Transport& transport) {
  Packets dropped(transport, large_lengths, 7);
  { const auto pending = dropped.start(transport); }
  EXPECT_TRUE(dropped.has_arrived());
  exchange(transport, unequal_lengths);
}

// A wait for pieces finds them all, beside whole packets; times are those of pieces or of packets.
void divided_packets(Transport& transport) {
  for (const Packets::Length length : {large_lengths, unequal_lengths, one_way, no_bytes}) {
    Packets divided(transport, length, 9);
    Packets whole(transport, large_lengths, 10);
    const std::int64_t before = transport.bytes_sent();
    const auto pending = divided.start_divided(transport);
    EXPECT_EQ(transport.bytes_sent() - before, divided.bytes_to_send());
    const auto beside = whole.start(transport);
    for (int piece = 0; piece < Packets::kPieces; ++piece) {
      pending->wait_pieces(piece);
      EXPECT_TRUE(divided.have_arrived_up_to(piece)) << piece;
    }
    EXPECT_TRUE(divided.has_arrived());
    pending->wait_all();
    EXPECT_GE(std::ssize(pending->packet_times()),
              std::ssize(divided.senders()) + divided.receivers());
    std::int64_t sent = 0;
    for (const PacketTimes& packet : pending->packet_times()) {
      EXPECT_GT(packet.bytes, 0);
      EXPECT_LE(packet.posted, packet.done);
      if (!packet.received) sent += packet.bytes;
    }
    EXPECT_EQ(sent, divided.bytes_to_send());
    beside->wait_all();
    EXPECT_TRUE(whole.has_arrived());
  }
}

void dropped_divided_transfer_completes(Transport& transport) {
  Packets dropped(transport, large_lengths, 11);
  { const auto pending = dropped.start_divided(transport); }
  EXPECT_TRUE(dropped.has_arrived());
}

// Random lengths and orders of waiting, the same on every rank.
void many_rounds(Transport& transport) {
  std::minstd_rand random(17);
  for (unsigned round = 0; round < 40; ++round) {
    static constexpr Packets::Length kLengths[] = {no_bytes, unequal_lengths, one_way};
    std::vector<Packets> packets;
    std::vector<std::unique_ptr<PendingTransfer>> pending;
    packets.reserve(4);
    for (unsigned i = 0; i < 1 + random() % 4; ++i) {
      packets.emplace_back(transport, kLengths[random() % 3], 100 + round * 4 + i);
      pending.push_back(packets.back().start(transport));
    }
    std::ranges::shuffle(pending, random);
    for (const auto& transfer : pending) transfer->wait_all();
    EXPECT_TRUE(std::ranges::all_of(packets, &Packets::has_arrived)) << "round " << round;
  }
}

// ((1e16 + 1) - 1e16) + 1 + 0.5 in this order; any other order of the first four gives another sum
// for 3 or 4 ranks.
void all_reduce_double(Transport& transport) {
  constexpr double kValues[] = {1e16, 1.0, -1e16, 1.0, 0.5};
  constexpr double kSums[] = {1e16, 1e16, 0.0, 1.0, 1.5};  // by world size
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 6, 1001}) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = kValues[transport.rank()] * (i % 2 == 0 ? 1 : -4);
    }
    transport.all_reduce(std::span(values), kLabel);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(values[i], kSums[transport.size() - 1] * (i % 2 == 0 ? 1 : -4)) << i;
    }
  }
}

// 2^24 + 1 is no float: the sums are right only if the additions are wider.
void all_reduce_float(Transport& transport) {
  constexpr float kValues[] = {16777216.0F, 1.0F, 1.0F, -16777216.0F, 0.25F};
  constexpr float kSums[] = {16777216.0F, 16777216.0F, 16777218.0F, 2.0F, 2.25F};
  for (const std::size_t count : {0, 1, 3, 4, 5, 7, 4099}) {
    std::vector<float> values(count, kValues[transport.rank()]);
    transport.all_reduce(std::span(values), kLabel);
    const std::vector<float> expected(count, kSums[transport.size() - 1]);
    EXPECT_EQ(values, expected);
  }
}

// Bits that depend on the order of addition, against a serial sum in rank order.
void all_reduce_bits(Transport& transport) {
  constexpr std::size_t kCount = 700;
  const auto value = [](int rank, std::size_t i) {
    std::minstd_rand random(static_cast<unsigned>(rank) * 1000U + static_cast<unsigned>(i) + 1U);
    random.discard(3);
    return std::ldexp(static_cast<double>(random()) - 1e9, static_cast<int>(random() % 90));
  };
  std::vector<double> values(kCount);
  std::vector<double> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = value(transport.rank(), i);
    for (int r = 0; r < transport.size(); ++r) expected[i] += value(r, i);
  }
  transport.all_reduce(std::span(values), kLabel);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(values[i]), std::bit_cast<std::uint64_t>(expected[i]));
  }
}

void all_reduce_integers(Transport& transport) {
  constexpr std::int64_t kBig = (std::int64_t{1} << 60) + 1;  // no double
  constexpr std::int64_t kTriangle[] = {0, 1, 3, 6, 10};      // 0 + 1 + ... + (size - 1)
  std::vector<std::int64_t> values{transport.rank(), transport.rank() == 0 ? kBig : 0, -5};
  transport.all_reduce(std::span(values), kLabel);
  const std::vector<std::int64_t> expected{kTriangle[transport.size() - 1], kBig,
                                           -5 * transport.size()};
  EXPECT_EQ(values, expected);
}

void broadcast_from_each_root(Transport& transport) {
  for (int root = 0; root < transport.size(); ++root) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{3000001}}) {
      const auto mark = static_cast<std::byte>(root + 65);
      std::vector<std::byte> bytes(length, transport.rank() == root ? mark : std::byte{0});
      const std::int64_t before = transport.bytes_sent();
      transport.broadcast(bytes, root, kLabel);
      EXPECT_EQ(bytes, std::vector<std::byte>(length, mark));
      const std::int64_t copies = transport.rank() == root ? transport.size() - 1 : 0;
      EXPECT_EQ(transport.bytes_sent() - before, copies * static_cast<std::int64_t>(length));
    }
  }
}

void gather_at_each_root(Transport& transport) {
  for (int root = 0; root < transport.size(); ++root) {
    // Rank r has 3r bytes of value r, so rank 0 has none.
    const auto of_rank = [](int r) {
      return std::vector<std::byte>(static_cast<std::size_t>(3 * r), static_cast<std::byte>(r));
    };
    const std::int64_t before = transport.bytes_sent();
    const auto all = transport.gather(of_rank(transport.rank()), root, kLabel);
    if (transport.rank() != root) {
      EXPECT_TRUE(all.empty());
      EXPECT_EQ(transport.bytes_sent() - before, 8 + 3 * transport.rank());
      continue;
    }
    EXPECT_EQ(transport.bytes_sent(), before);
    EXPECT_EQ(std::ssize(all), transport.size());
    for (int r = 0; r < static_cast<int>(all.size()); ++r) EXPECT_EQ(all[r], of_rank(r));
  }
}

void bytes_of_collectives(Transport& transport) {
  const std::int64_t start = transport.bytes_sent();
  transport.barrier(kLabel);
  EXPECT_EQ(transport.bytes_sent() - start, transport.size() - 1);
  for (const std::int64_t count : {1, 2, 7, 1000}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const std::int64_t before = transport.bytes_sent();
    transport.all_reduce(std::span(values), kLabel);
    EXPECT_EQ(transport.bytes_sent() - before,
              all_reduce_bytes(count, 4, transport.rank(), transport.size()));
  }
}

}  // namespace

const std::vector<TransportCase>& transport_cases() {
  static const std::vector<TransportCase> cases{
      {"EmptyPackets", empty_packets},
      {"UnequalPackets", unequal_packets},
      {"OneWayPackets", one_way_packets},
      {"LargePackets", large_packets},
      {"WaitAnyReportsEachSenderOnce", wait_any_reports_each_sender_once},
      {"WaitAllAfterSome", wait_all_after_some},
      {"PacketTimesOfEveryPacket", packet_times_of_every_packet},
      {"SeveralAtOnce", several_at_once},
      {"DroppedTransferCompletes", dropped_transfer_completes},
      {"ManyRounds", many_rounds},
      {"DividedPackets", divided_packets},
      {"DroppedDividedTransferCompletes", dropped_divided_transfer_completes},
      {"AllReduceDouble", all_reduce_double},
      {"AllReduceFloat", all_reduce_float},
      {"AllReduceBits", all_reduce_bits},
      {"AllReduceIntegers", all_reduce_integers},
      {"BroadcastFromEachRoot", broadcast_from_each_root},
      {"GatherAtEachRoot", gather_at_each_root},
      {"BytesOfCollectives", bytes_of_collectives},
  };
  return cases;
}

}  // namespace atl
