#include "engine/exchange/chunk_stream.hpp"

#include "base/error.hpp"

namespace atl {

ChunkStream::ChunkStream(const Rank& rank, const ExchangeOptions& options, Direction direction,
                         bool sends, std::vector<Matrix> matrices, std::vector<RowRange> chunks)
    : rank_(rank),
      direction_(direction),
      sends_(sends),
      matrices_(std::move(matrices)),
      chunks_(std::move(chunks)),
      exchange_(make_exchange(options, rank)),
      host_rows_(first_numbers<LocalId>(static_cast<std::int64_t>(rank.inner_ids.size()))),
      lists_(chunks_.size()),
      under_way_(matrices_.size() * chunks_.size()) {
  ATOLL_ASSERT(rank.transport.size() == 2, "{} ranks", rank.transport.size());
  require_channels(matrices_.size(), chunks_.size());
  row_numbers_ = {rank.backend, rank.queue, std::span<const LocalId>(host_rows_)};
  const int peer = 1 - rank.transport.rank();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto begin = static_cast<std::size_t>(chunks_[c].begin);
    const auto rows = static_cast<std::size_t>(chunks_[c].size());
    const auto counts = [&](std::size_t count) {
      const auto n = static_cast<std::int64_t>(count);
      return peer == 0 ? std::vector<std::int64_t>{0, n, n} : std::vector<std::int64_t>{0, 0, n};
    };
    lists_[c] = {counts(sends ? rows : 0), counts(sends ? 0 : rows)};
    DistributedOperator op;
    op.direction = direction;
    op.matrix.rows = sends ? std::ssize(host_rows_) : 0;
    op.matrix.cols = sends ? std::ssize(host_rows_) : chunks_[c].size();
    op.halo = {.recv_offset = lists_[c].received, .send_offset = lists_[c].sent};
    if (sends) {
      op.halo.send_rows = std::span(host_rows_).subspan(begin, rows);
      op.send_rows = row_numbers_.span().subspan(begin, rows);
    }
    operators_.push_back(op);
  }
  if (sends) return;
  for (const Matrix& matrix : matrices_) {
    arrivals_->emplace_back(std::ssize(host_rows_), matrix.columns, matrix.dtype);
  }
  exchange_->keep_alive(arrivals_);
}

void ChunkStream::require_channels(std::size_t matrices, std::size_t chunks) {
  if (matrices * chunks <= static_cast<std::size_t>(kMostChannels)) return;
  fail_option(
      "--chunks {}: {} matrices of values go from one stage to another; allowed are 1 to {}",
      chunks, matrices, static_cast<std::size_t>(kMostChannels) / matrices);
}

std::int64_t ChunkStream::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (const Matrix& matrix : matrices_) {
    for (const DistributedOperator& op : operators_) {
      bytes += exchange_->buffer_bytes(op, matrix.columns, matrix.dtype);
    }
  }
  for (const Tensor& arrival : *arrivals_) bytes += arrival.bytes();
  return bytes;
}

std::int64_t ChunkStream::sent_bytes() const {
  if (!sends_) return 0;
  std::int64_t bytes = 0;
  for (const Matrix& matrix : matrices_) {
    for (const DistributedOperator& op : operators_) {
      bytes += op.halo.sent_rows() * padded_columns(matrix.columns) * bytes_of(matrix.dtype);
    }
  }
  return bytes;
}

std::unique_ptr<PendingExchange> ChunkStream::begin(std::size_t matrix, std::size_t chunk,
                                                    MatrixView x, const Round& round) {
  const Channel channel{.number = static_cast<int>(number_of(matrix, chunk)),
                        .layer = matrices_[matrix].layer,
                        .direction = direction_};
  return exchange_->begin(operators_[chunk], x, channel, round);
}

void ChunkStream::expect(const std::vector<std::size_t>& order, const Round& round) {
  for (Tensor& arrival : *arrivals_) {
    if (arrival.view().data == nullptr) arrival.allocate(rank_.backend);
  }
  for (const std::size_t chunk : order) {
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      under_way_[number_of(m, chunk)] =
          begin(m, chunk, (*arrivals_)[m].view().rows_in(chunks_[chunk]), round);
    }
  }
}

void ChunkStream::take(std::size_t matrix, std::size_t chunk, MatrixView rows) {
  std::unique_ptr<PendingExchange>& messages = under_way_[number_of(matrix, chunk)];
  ATOLL_ASSERT(messages != nullptr, "chunk {} of matrix {} is not expected", chunk, matrix);
  messages->finish();
  messages.reset();
  const RowRange range = chunks_[chunk];
  const auto all = row_numbers_.span();
  const MatrixView arrived = (*arrivals_)[matrix].view().rows_in(range);
  rank_.backend.run(
      rank_.queue,
      kernels::GatherRows{arrived, all.first(static_cast<std::size_t>(range.size())), {}, rows});
}

void ChunkStream::send(std::size_t matrix, std::size_t chunk, MatrixView all, const Round& round) {
  under_way_[number_of(matrix, chunk)] = begin(matrix, chunk, all, round);
}

void ChunkStream::finish() {
  for (std::unique_ptr<PendingExchange>& messages : under_way_) {
    if (messages != nullptr) messages->finish();
    messages.reset();
  }
}

}  // namespace atl
