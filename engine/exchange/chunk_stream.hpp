// Rows of matrices that flow from one rank to another, chunk by chunk, as messages of an exchange
// mode: what stages of a pipeline send each other.
#pragma once

#include <memory>
#include <vector>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

class ChunkStream {
 public:
  // A matrix of which all rows flow.
  struct Matrix {
    int layer = 0;  // that made it, for people
    std::int64_t columns = 0;
    DType dtype = DType::kF32;
  };
  // rank: this one in a transport of the two ranks, with the ids of all rows; it must outlive the
  // stream. Both ranks give the same options, matrices and chunks (of rows), and what they do here
  // comes in the same order. Throws Error{kOption} naming --chunks if there are too many of them.
  ChunkStream(const Rank& rank, const ExchangeOptions& options, Direction direction, bool sends,
              std::vector<Matrix> matrices, std::vector<RowRange> chunks);
  // Throws that.
  static void require_channels(std::size_t matrices, std::size_t chunks);
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  // Bytes of buffers, at most; those that travel in a pass from this rank.
  std::int64_t buffer_bytes() const;
  std::int64_t sent_bytes() const;

  // The receiver, before a pass: chunks in the order in which they will be sent. Nothing waits.
  void expect(const std::vector<std::size_t>& order, const Round& round);
  // Waits for a chunk of a matrix, and fills its rows [rows of the chunk, columns].
  void take(std::size_t matrix, std::size_t chunk, MatrixView rows);
  // The sender: posts a chunk, the rows of which must not change until finish(). all: of all rows.
  void send(std::size_t matrix, std::size_t chunk, MatrixView all, const Round& round);
  // Waits until all that was sent is received.
  void finish();
  // At the end of an epoch, when all queued work has run. Collective.
  void end_epoch(const Round& round) { exchange_->end_epoch(round); }

 private:
  std::size_t number_of(std::size_t matrix, std::size_t chunk) const {
    return matrix * chunks_.size() + chunk;
  }
  std::unique_ptr<PendingExchange> begin(std::size_t matrix, std::size_t chunk, MatrixView x,
                                         const Round& round);

  const Rank& rank_;
  Direction direction_;
  bool sends_;
  std::vector<Matrix> matrices_;
  std::vector<RowRange> chunks_;
  std::unique_ptr<HaloExchange> exchange_;
  ConstDeviceArray<LocalId> row_numbers_;  // 0, 1, 2, ...
  std::vector<LocalId> host_rows_;         // the same
  // By chunk: what a halo exchange of its rows would be.
  struct Lists {
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> received;
  };
  std::vector<Lists> lists_;
  std::vector<DistributedOperator> operators_;
  // By matrix: where rows arrive, which must not be seen before they are taken.
  std::shared_ptr<std::vector<Tensor>> arrivals_ = std::make_shared<std::vector<Tensor>>();
  std::vector<std::unique_ptr<PendingExchange>> under_way_;  // by number_of()
};

}  // namespace atl
