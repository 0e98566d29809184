// Bytes to recognise, for tests of transports.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

inline constexpr OperationLabel kLabel{.operation = "test exchange"};

// The bytes of one all-to-all-v that this rank sends and those it should receive. `length` gives
// the bytes from source to destination; `salt` makes the contents of two transfers differ.
class Packets {
 public:
  using Length = std::size_t (*)(int source, int destination);

  Packets(const Transport& transport, Length length, unsigned salt) : rank_(transport.rank()) {
    for (int r = 0; r < transport.size(); ++r) {
      const bool self = r == rank_;
      sent_.push_back(contents(rank_, r, self ? 0 : length(rank_, r), salt));
      expected_.push_back(contents(r, rank_, self ? 0 : length(r, rank_), salt));
      received_.emplace_back(expected_.back().size());
    }
  }

  std::unique_ptr<PendingTransfer> start(Transport& transport) {
    return transport.all_to_all_v({sent_.begin(), sent_.end()},
                                  {received_.begin(), received_.end()}, kLabel);
  }
  // In three pieces that end anywhere, some of them empty.
  std::unique_ptr<PendingTransfer> start_divided(Transport& transport) {
    PacketPieces pieces{kPieces, {}, {}};
    for (std::size_t r = 0; r < sent_.size(); ++r) {
      const int peer = static_cast<int>(r);
      for (int piece = 0; piece < kPieces; ++piece) {
        pieces.send_ends.push_back(end_of(sent_[r].size(), rank_, peer, piece));
        pieces.receive_ends.push_back(end_of(received_[r].size(), peer, rank_, piece));
      }
    }
    return transport.all_to_all_v({sent_.begin(), sent_.end()},
                                  {received_.begin(), received_.end()}, kLabel, nullptr, pieces);
  }
  bool have_arrived_up_to(int piece) const {
    bool all = true;
    for (std::size_t r = 0; r < received_.size(); ++r) {
      const std::size_t end = end_of(received_[r].size(), static_cast<int>(r), rank_, piece);
      all =
          all && std::equal(received_[r].begin(), received_[r].begin() + end, expected_[r].begin());
    }
    return all;
  }
  static constexpr int kPieces = 3;

  std::int64_t bytes_to_send() const {
    std::int64_t bytes = 0;
    for (const auto& packet : sent_) bytes += std::ssize(packet);
    return bytes;
  }
  // Peers of which something is received, in rank order.
  std::vector<int> senders() const {
    std::vector<int> peers;
    for (std::size_t r = 0; r < expected_.size(); ++r) {
      if (!expected_[r].empty()) peers.push_back(static_cast<int>(r));
    }
    return peers;
  }
  // How many peers something is sent to.
  std::int64_t receivers() const {
    return std::ranges::count_if(sent_, [](const auto& packet) { return !packet.empty(); });
  }
  bool has_arrived_from(int peer) const { return received_[peer] == expected_[peer]; }
  bool has_arrived() const { return received_ == expected_; }

 private:
  static std::size_t end_of(std::size_t bytes, int source, int destination, int piece) {
    if (piece + 1 == kPieces) return bytes;
    const auto link = static_cast<std::size_t>(source * 5 + destination);
    return link % 4 == 0 ? bytes * static_cast<std::size_t>(piece) : bytes * (link % 7) / 14;
  }
  static std::vector<std::byte> contents(int source, int destination, std::size_t length,
                                         unsigned salt) {
    std::vector<std::byte> bytes(length);
    const std::size_t start = salt * 37 + static_cast<std::size_t>(source * 11 + destination * 5);
    for (std::size_t i = 0; i < length; ++i) {
      bytes[i] = static_cast<std::byte>(start + i * 7 + (i >> 8) * 3 + (i >> 16));
    }
    return bytes;
  }

  int rank_;
  std::vector<std::vector<std::byte>> sent_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<std::vector<std::byte>> expected_;
};

inline std::size_t no_bytes(int, int) { return 0; }
inline std::size_t unequal_lengths(int source, int destination) {
  return static_cast<std::size_t>((source * 7 + destination * 3) % 5) * 100;
}
inline std::size_t one_way(int source, int destination) { return source < destination ? 64 : 0; }
// 1 MiB and a bit, and over one link more than the 8 MiB that travel in one piece.
inline std::size_t large_lengths(int source, int destination) {
  const std::size_t mebibyte = std::size_t{1} << 20;
  return source == 0 && destination == 1 ? 17 * mebibyte + 5 : mebibyte + destination;
}

}  // namespace atl
