// Rows that the two ends of a channel keep from epoch to epoch (MessageRule).
#pragma once

#include <memory>
#include <vector>

#include "engine/exchange/halo_exchange.hpp"
#include "engine/exchange/messages/message_layout.hpp"
#include "engine/exchange/messages/message_rule.hpp"
#include "engine/exchange/packet_transfer.hpp"
#include "engine/tensor/device_csr.hpp"

namespace atl {

// A matrix of zeros, padding included, which may travel.
Tensor zero_rows(const Rank& rank, std::int64_t rows, std::int64_t cols, DType dtype);

// Adds one row per peer to rows that have to do with it: y[i, :] += x[peer of i, :] for some i.
class PeerRows {
 public:
  // peer[i]: of row i, or -1.
  PeerRows(const Rank& rank, const std::vector<int>& peer);
  // x [ranks, F], y [rows, F].
  void add(Backend& backend, Queue& queue, ConstMatrixView x, MatrixView y, double beta = 1) const;

 private:
  DeviceCsr csr_;
};

// The sender keeps: the row that each receiver keeps (h), or, of rows that are sent with a
// correction, what its messages have lost (e). A row per message, in the order of the lists.
class SentRows {
 public:
  // Packets and the messages in them.
  struct Packed {
    std::span<const std::byte> bytes;
    UnpackList messages;
  };
  // How messages are packed.
  struct Packing {
    PackList list;
    RoundingSpec rounding;
    std::span<std::byte> packets;
    PackTrace trace;
  };

  // scores: A_k of the messages, where the rule shifts.
  SentRows(const Rank& rank, const DistributedOperator& op, std::int64_t cols, DType storage,
           const MessageRule& rule, std::vector<float> scores);

  // Before packing, where the rule shifts or measures drift: copies rows of x, times `scale`, and
  // moves what is kept. shift [ranks, cols]: by what the kept rows of each peer move.
  void prepare(Queue& queue, const DistributedOperator& op, MatrixView x,
               std::span<const float> scale, MatrixView shift);
  // Packs what is sent in place of rows of x, differences or corrected rows, and keeps what arrives
  // or is lost of them. measured: loss() will be asked for.
  void pack(Queue& queue, const DistributedOperator& op, MatrixView x, std::span<const float> scale,
            const Packing& packing, bool measured);
  // After rows of x were packed: what arrives of the messages is what is kept.
  void update(Queue& queue, const Packed& packed);

  // Which messages are shifted from now on.
  void set_shifted(const DistributedOperator& op, const std::vector<std::uint8_t>& shifted);
  // |m - h|^2 and |m|^2 of each message in the last prepare().
  struct Drift {
    std::vector<float> moved;
    std::vector<float> size;
  };
  Drift drift();
  // |v|^2 and |v - Q(v)|^2 of each message as the last pack(), which knew it, has seen it, all of
  // it lost of one that is not sent; and |m|^2, where v are differences. Once: it takes the copies
  // as scratch memory.
  struct Loss {
    std::vector<float> sent;
    std::vector<float> lost;
    std::vector<float> rows;
  };
  Loss loss(const Packed& packed);

  MatrixView kept() { return kept_.view(); }

 private:
  // |row|^2 of each copy into `of_each`, which gets its memory when it is first needed.
  void square_copies(Queue& queue, Tensor& of_each);

  const Rank& rank_;
  MessageRule rule_;
  std::vector<float> scores_;
  Tensor kept_;
  Tensor copies_;
  Tensor moved_, size_;
  Tensor spread_shift_;  // by what each kept row moves, where the rule shifts
  ConstDeviceArray<LocalId> counting_;
  std::unique_ptr<PeerRows> spread_;  // of the shift
  DeviceCsr mean_;                    // [ranks, messages]
};

}  // namespace atl
