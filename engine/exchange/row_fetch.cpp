#include "engine/exchange/row_fetch.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace atl {

namespace {

// The ids that each rank sends to this one, where it sends sends[offsets[r]] to sends[offsets[r +
// 1]] to rank r. Collective.
struct ReceivedIds {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> offset;
};

template <typename T>
std::vector<std::span<std::byte>> slices(std::vector<T>& values,
                                         std::span<const std::int64_t> offsets) {
  std::vector<std::span<std::byte>> result;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    result.push_back(
        std::as_writable_bytes(std::span(values).subspan(offsets[r], offsets[r + 1] - offsets[r])));
  }
  return result;
}

ReceivedIds exchange_ids(Transport& transport, std::vector<std::int32_t>& sends,
                         std::span<const std::int64_t> offsets, const OperationLabel& label) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  const auto me = static_cast<std::size_t>(transport.rank());
  // Counts of all pairs: one small sum.
  std::vector<std::int64_t> counts(ranks * ranks, 0);
  for (std::size_t r = 0; r < ranks; ++r) counts[me * ranks + r] = offsets[r + 1] - offsets[r];
  transport.all_reduce(std::span(counts), label);
  const auto received = std::make_shared<ReceivedIds>();
  received->offset.assign(1, 0);
  for (std::size_t r = 0; r < ranks; ++r) {
    received->offset.push_back(received->offset.back() + counts[r * ranks + me]);
  }
  received->ids.resize(static_cast<std::size_t>(received->offset.back()));
  std::vector<std::span<const std::byte>> from;
  for (const std::span<std::byte> slice : slices(sends, offsets)) from.emplace_back(slice);
  transport.all_to_all_v(std::move(from), slices(received->ids, received->offset), label, received)
      ->wait_all();
  return *received;
}

}  // namespace

NodeHomes NodeHomes::share(Transport& transport, std::span<const GlobalId> inner_ids,
                           std::int64_t nodes) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  const auto me = static_cast<std::size_t>(transport.rank());
  NodeHomes homes;
  homes.rank.assign(static_cast<std::size_t>(nodes), 0);
  homes.row.assign(static_cast<std::size_t>(nodes), 0);
  const auto place = [&](std::size_t owner, std::span<const std::int32_t> ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto node = static_cast<std::size_t>(ids[i]);
      homes.rank[node] = static_cast<std::uint16_t>(owner);
      homes.row[node] = static_cast<std::int32_t>(i);
    }
  };
  std::vector<std::int32_t> mine;
  for (const GlobalId id : inner_ids) mine.push_back(static_cast<std::int32_t>(to_index(id)));
  place(me, mine);
  if (ranks == 1) return homes;
  // The same ids for every other rank.
  std::vector<std::int32_t> sends;
  std::vector<std::int64_t> offset{0};
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r != me) sends.insert(sends.end(), mine.begin(), mine.end());
    offset.push_back(static_cast<std::int64_t>(sends.size()));
  }
  const ReceivedIds received = exchange_ids(transport, sends, offset, {"homes of nodes"});
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    place(r, std::span(received.ids)
                 .subspan(received.offset[r], received.offset[r + 1] - received.offset[r]));
  }
  return homes;
}

RowFetch::RowFetch(const Rank& rank, const NodeHomes& homes, std::int64_t inner,
                   std::int64_t columns, DType dtype)
    : rank_(rank),
      homes_(homes),
      inner_(inner),
      columns_(columns),
      dtype_(dtype),
      packets_(rank),
      slot_of_(homes.row.size(), -1) {}

bool RowFetch::is_inner(std::int64_t node) const {
  return homes_.rank[static_cast<std::size_t>(node)] == rank_.transport.rank();
}

void RowFetch::clear() {
  for (const std::int32_t node : wanted_) slot_of_[static_cast<std::size_t>(node)] = -1;
  wanted_.clear();
}

void RowFetch::want(std::int64_t node) {
  std::int32_t& slot = slot_of_[static_cast<std::size_t>(node)];
  if (slot >= 0 || is_inner(node)) return;
  slot = 0;
  wanted_.push_back(static_cast<std::int32_t>(node));
}

std::int32_t RowFetch::row_of(std::int64_t node) const {
  const auto n = static_cast<std::size_t>(node);
  if (is_inner(node)) return homes_.row[n];
  ATOLL_ASSERT(slot_of_[n] >= 0, "node {} is not listed", node);
  return static_cast<std::int32_t>(inner_) + slot_of_[n];
}

void RowFetch::connect(const OperationLabel& label) {
  const auto ranks = static_cast<std::size_t>(rank_.transport.size());
  if (ranks == 1) return;
  const auto owner = [&](std::int32_t node) { return homes_.rank[static_cast<std::size_t>(node)]; };
  std::ranges::stable_sort(wanted_, {}, owner);
  wanted_offset_.assign(ranks + 1, 0);
  std::vector<std::int32_t> requests;
  for (std::size_t k = 0; k < wanted_.size(); ++k) {
    const auto node = static_cast<std::size_t>(wanted_[k]);
    slot_of_[node] = static_cast<std::int32_t>(k);
    ++wanted_offset_[std::size_t{homes_.rank[node]} + 1];
    requests.push_back(homes_.row[node]);
  }
  std::partial_sum(wanted_offset_.begin(), wanted_offset_.end(), wanted_offset_.begin());
  ReceivedIds asked = exchange_ids(rank_.transport, requests, wanted_offset_, label);
  sent_offset_ = std::move(asked.offset);

  // Rows that are returned for an inner node are added in the order of their senders.
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(inner_) + 1, 0);
  std::vector<LocalId> sent;
  for (const std::int32_t row : asked.ids) {
    ++row_ptr[static_cast<std::size_t>(row) + 1];
    sent.push_back(LocalId{row});
  }
  std::partial_sum(row_ptr.begin(), row_ptr.end(), row_ptr.begin());
  std::vector<std::int64_t> next(row_ptr.begin(), row_ptr.end() - 1);
  std::vector<std::int32_t> col_idx(asked.ids.size());
  for (std::size_t k = 0; k < asked.ids.size(); ++k) {
    std::int64_t& at = next[static_cast<std::size_t>(asked.ids[k])];
    col_idx[static_cast<std::size_t>(at++)] = static_cast<std::int32_t>(k);
  }
  sent_rows_ = {rank_.backend, rank_.queue, std::move(sent)};
  sums_ = {rank_.backend, rank_.queue, Csr{std::move(row_ptr), std::move(col_idx), {}},
           std::ssize(asked.ids)};
  reserve(rows_, inner_ + fetched());
  reserve(returned_, fetched());
  reserve(sent_, static_cast<std::int64_t>(sent_rows_.span().size()));
}

void RowFetch::reserve(std::shared_ptr<Tensor>& memory, std::int64_t rows) {
  if (memory != nullptr && memory->rows() >= rows) return;
  memory = std::make_shared<Tensor>(rank_.backend, rows, columns_, dtype_);
  fill_zero_rows(rank_.backend, rank_.queue, memory->view());
}

std::vector<std::span<std::byte>> RowFetch::packets(MatrixView rows,
                                                    std::span<const std::int64_t> offsets) const {
  std::vector<std::span<std::byte>> result;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    result.push_back(rows_as_bytes(rows.rows_in({offsets[r], offsets[r + 1]})));
  }
  return result;
}

void RowFetch::exchange(MatrixView sends, std::span<const std::int64_t> send_offsets,
                        MatrixView receives, std::span<const std::int64_t> receive_offsets,
                        const OperationLabel& label) {
  std::vector<std::span<const std::byte>> from;
  for (const std::span<std::byte> packet : packets(sends, send_offsets)) from.emplace_back(packet);
  const auto memory =
      std::make_shared<std::array<std::shared_ptr<Tensor>, 3>>(std::array{rows_, sent_, returned_});
  packets_.begin(0, std::move(from), packets(receives, receive_offsets), label, memory)->finish();
}

ConstMatrixView RowFetch::fetch(ConstMatrixView x, const OperationLabel& label) {
  if (rank_.transport.size() == 1) return x;
  const auto sent = static_cast<std::int64_t>(sent_rows_.span().size());
  const MatrixView sends = sent_->reshaped(sent, columns_);
  const MatrixView rows = rows_->reshaped(inner_ + fetched(), columns_);
  rank_.backend.run(rank_.queue, kernels::Convert{x, rows.rows_in({0, inner_})});
  rank_.backend.run(packets_.packing_queue(), kernels::GatherRows{x, sent_rows_.span(), {}, sends});
  exchange(sends, sent_offset_, rows.rows_in({inner_, rows.rows}), wanted_offset_, label);
  return rows;
}

void RowFetch::give_back(MatrixView dx, const OperationLabel& label) {
  if (rank_.transport.size() == 1) return;
  const auto sent = static_cast<std::int64_t>(sent_rows_.span().size());
  const MatrixView arrived = sent_->reshaped(sent, columns_);
  packets_.packing_queue();  // after what wrote returned()
  exchange(returned(), wanted_offset_, arrived, sent_offset_, label);
  if (sent == 0) return;
  rank_.backend.run(rank_.queue, kernels::Spmm{sums_.view(), {0, inner_}, arrived, 1, dx});
}

std::int64_t RowFetch::bytes(std::int64_t rows) const {
  if (rank_.transport.size() == 1) return 0;
  // As many are sent as fetched, if ranks are alike.
  return (inner_ + 3 * rows) * padded_columns(columns_) * bytes_of(dtype_) + 24 * rows;
}

}  // namespace atl
