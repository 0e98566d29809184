#include "engine/program/column_exchange.hpp"

#include <algorithm>

#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

// How many rows of a share are converted together.
std::int64_t rows_at_once(const ColumnExchange::Columns& columns, std::int64_t bytes) {
  return std::max<std::int64_t>(bytes / (bytes_of(columns.dtype) * columns.all), 1);
}

// A share has some of the central rows and some of the marginal ones, so all rows of a share don't
// follow one another in the part.
std::vector<Rows> contiguous(Rows rows) {
  if (rows == Rows::kAll) return {Rows::kCentral, Rows::kMarginal};
  return {rows};
}

}  // namespace

ColumnExchange::Columns ColumnExchange::columns_of(const Program& program,
                                                   const Operation& conversion, DType dtype) {
  const bool to_rows = conversion.is(rules::kToRows);
  return {to_rows ? conversion.columns : program.at(conversion.inputs[0]).columns,
          conversion.as<Slices>(), conversion.wide ? parameter_dtype(dtype) : dtype};
}

void ColumnExchange::use(std::shared_ptr<const void> memory) {
  if (memory_->values == memory) return;
  // An abandoned transfer keeps the memory that it had.
  memory_ = std::make_shared<Memory>();
  memory_->values = std::move(memory);
}

void ColumnExchange::to_columns(const Columns& columns, ConstMatrixView shares, MatrixView part,
                                Rows rows, const OperationLabel& label,
                                std::shared_ptr<const void> memory) {
  use(std::move(memory));
  for (const Rows range : contiguous(rows)) columns_of_range(columns, shares, part, range, label);
}

void ColumnExchange::to_rows(const Columns& columns, MatrixView part, MatrixView shares, Rows rows,
                             const OperationLabel& label, std::shared_ptr<const void> memory) {
  use(std::move(memory));
  for (const Rows range : contiguous(rows)) rows_of_range(columns, part, shares, range, label);
}

std::vector<ColumnExchange::Chunk> ColumnExchange::chunks_of(const Columns& columns,
                                                             RowRange of_part) const {
  const int roles = rank_.group->roles();
  const std::int64_t share = (of_part.size() + roles - 1) / roles;
  const std::int64_t each =
      sends_at_once() ? std::max<std::int64_t>(share, 1) : rows_at_once(columns, bytes_at_once_);
  std::vector<Chunk> chunks;
  do {
    const std::int64_t first = std::ssize(chunks) * each;
    chunks.push_back({first, first + each, chunks.size() % 2});
  } while (chunks.back().end < share);
  return chunks;
}

void ColumnExchange::columns_of_range(const Columns& columns, ConstMatrixView shares,
                                      MatrixView part, Rows rows, const OperationLabel& label) {
  const int own_role = rank_.group->role();
  const ConstMatrixView own = shares.rows_in(shape_->range_of(rows));
  const MatrixView own_part = part.rows_in(rank_.group->share(shape_->range_of_part(rows)));
  UnderWay under_way;
  for (const Chunk& chunk : chunks_of(columns, shape_->range_of_part(rows))) {
    std::unique_ptr<PendingPackets>& packets = under_way[chunk.buffer];
    finish(packets, rules::kToColumns, label);  // until then its memory is read
    const ConstMatrixView from = own.rows_in(chunk.of(own.rows));
    Queue& packing = packets_.packing_queue();
    const std::vector<MatrixView> packed = packed_slices(packing, columns, chunk, from.rows);
    const ScopedSpan span = copying(rules::kToColumns, label);
    for (int role = 0; role < rank_.group->roles(); ++role) {
      copy_slice(rules::kToColumns, packing, columns, role, from,
                 packed[static_cast<std::size_t>(role)]);
    }
    packets = begin(rules::kToColumns, packed, part, rows, chunk, label);
    copy_slice(rules::kToColumns, rank_.queue, columns, own_role, from,
               own_part.rows_in(chunk.of(own_part.rows)));
  }
  for (const std::size_t buffer : {0, 1}) finish(under_way[buffer], rules::kToColumns, label);
}

void ColumnExchange::rows_of_range(const Columns& columns, MatrixView part, MatrixView shares,
                                   Rows rows, const OperationLabel& label) {
  const int own_role = rank_.group->role();
  const MatrixView own = shares.rows_in(shape_->range_of(rows));
  const MatrixView own_part = part.rows_in(rank_.group->share(shape_->range_of_part(rows)));
  UnderWay under_way;
  std::array<std::vector<MatrixView>, 2> packed;
  const auto unpack = [&](const Chunk& chunk) {
    finish(under_way[chunk.buffer], rules::kToRows, label);
    const ScopedSpan span = copying(rules::kToRows, label);
    for (int role = 0; role < rank_.group->roles(); ++role) {
      copy_slice(rules::kToRows, rank_.queue, columns, role,
                 packed[chunk.buffer][static_cast<std::size_t>(role)],
                 own.rows_in(chunk.of(own.rows)));
    }
  };
  const std::vector<Chunk> chunks = chunks_of(columns, shape_->range_of_part(rows));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const MatrixView to = own.rows_in(chunk.of(own.rows));
    // Packets are read and written behind what computes these rows, and what read the last ones.
    Queue& packing = packets_.packing_queue();
    packed[chunk.buffer] = packed_slices(packing, columns, chunk, to.rows);
    {
      const ScopedSpan span = copying(rules::kToRows, label);
      under_way[chunk.buffer] =
          begin(rules::kToRows, packed[chunk.buffer], part, rows, chunk, label);
      copy_slice(rules::kToRows, rank_.queue, columns, own_role,
                 own_part.rows_in(chunk.of(own_part.rows)), to);
    }
    if (c > 0) unpack(chunks[c - 1]);
  }
  unpack(chunks.back());
}

std::unique_ptr<PendingPackets> ColumnExchange::begin(const Rule& conversion,
                                                      const std::vector<MatrixView>& packed,
                                                      MatrixView part, Rows rows,
                                                      const Chunk& chunk,
                                                      const OperationLabel& label) {
  const PartGroup& group = *rank_.group;
  std::vector<std::span<const std::byte>> sends(packed.size());
  std::vector<std::span<std::byte>> receives(packed.size());
  for (int role = 0; role < group.roles(); ++role) {
    if (role == group.role()) continue;
    const auto r = static_cast<std::size_t>(role);
    std::span<std::byte> sent = rows_as_bytes(packed[r]);
    const MatrixView share = part.rows_in(group.share(shape_->range_of_part(rows), role));
    std::span<std::byte> received = rows_as_bytes(share.rows_in(chunk.of(share.rows)));
    if (&conversion == &rules::kToRows) std::swap(sent, received);
    sends[r] = sent;
    receives[r] = received;
  }
  // Each conversion is done before the next one begins: a slot for each of its buffers.
  return packets_.begin(static_cast<int>(chunk.buffer), std::move(sends), std::move(receives),
                        label, memory_);
}

void ColumnExchange::finish(std::unique_ptr<PendingPackets>& packets, const Rule& conversion,
                            const OperationLabel& label) {
  if (packets == nullptr) return;
  {
    ScopedSpan span(rank_.trace, "wait", tag_of(label), label.direction);
    span.set_what(conversion.span);
    packets->finish();
  }
  record_packets(members_, packets->packet_times(), tag_of(label), label.direction,
                 conversion.span);
  packets.reset();
}

void ColumnExchange::copy_slice(const Rule& conversion, Queue& queue, const Columns& columns,
                                int role, ConstMatrixView from, MatrixView to) {
  const ColumnRange slice = columns.slice_of(role, rank_.group->roles());
  // A rank packs no rows for itself.
  if (slice.count == 0 || from.rows == 0 || to.rows == 0) return;
  for (std::int64_t k = 0; k < columns.slices.matrices; ++k) {
    std::int64_t first_read = k * columns.of_matrix() + slice.first;
    std::int64_t first_written = k * slice.count;
    if (&conversion == &rules::kToRows) std::swap(first_read, first_written);
    rank_.backend.run(queue, kernels::ApplyEpilogue{from.columns_in(first_read, slice.count),
                                                    {},
                                                    to.columns_in(first_written, slice.count)});
  }
}

std::vector<MatrixView> ColumnExchange::packed_slices(Queue& queue, const Columns& columns,
                                                      const Chunk& chunk, std::int64_t rows) {
  const PartGroup& group = *rank_.group;
  std::vector<MatrixView> slices;
  std::int64_t elements = 0;
  for (int role = 0; role < group.roles(); ++role) {
    const std::int64_t stride = columns.slice_bytes(role, group.roles()) / bytes_of(columns.dtype);
    const std::int64_t count =
        columns.slices.matrices * columns.slice_of(role, group.roles()).count;
    slices.push_back({nullptr, role == group.role() ? 0 : rows, count, stride, columns.dtype});
    elements += slices.back().rows * stride;
  }
  Tensor& memory = memory_->packed[columns.dtype][chunk.buffer];
  if (memory.cols() < elements) {
    memory = Tensor(rank_.backend, 1, elements, columns.dtype);
    // Copies don't write padding, which travels.
    rank_.backend.run(queue, kernels::FillZero{memory.view()});
  }
  auto* place = static_cast<std::byte*>(memory.view().data);
  for (MatrixView& slice : slices) {
    slice.data = place;
    place += rows_as_bytes(slice).size();
  }
  return slices;
}

std::int64_t ColumnExchange::Columns::bytes_to_others(int role, int roles) const {
  std::int64_t bytes = 0;
  for (int other = 0; other < roles; ++other) {
    if (other != role) bytes += slice_bytes(other, roles);
  }
  return bytes;
}

std::int64_t ColumnExchange::Columns::buffer_bytes(int role, int roles, std::int64_t share,
                                                   bool at_once) const {
  const std::int64_t rows =
      at_once ? share : std::min(2 * rows_at_once(*this, kBytesAtOnce), share);
  return rows * bytes_to_others(role, roles);
}

std::int64_t ColumnExchange::bytes_to_columns(const Columns& columns) const {
  return shape_->rows.inner * columns.bytes_to_others(rank_.group->role(), rank_.group->roles());
}

std::int64_t ColumnExchange::bytes_to_rows(const Columns& columns) const {
  return (shape_->rows.part - shape_->rows.inner) *
         columns.slice_bytes(rank_.group->role(), rank_.group->roles());
}

std::int64_t ColumnExchange::buffer_bytes(const Columns& columns) const {
  return columns.buffer_bytes(rank_.group->role(), rank_.group->roles(), shape_->rows.inner,
                              sends_at_once());
}

}  // namespace atl
