#include "engine/program/column_exchange.hpp"

#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

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

void ColumnExchange::columns_of_range(const Columns& columns, ConstMatrixView shares,
                                      MatrixView part, Rows rows, const OperationLabel& label) {
  const PartGroup& group = *rank_.group;
  const ConstMatrixView own = shares.rows_in(shape_->range_of(rows));
  const RowRange of_part = shape_->range_of_part(rows);
  Queue& packing = packets_.packing_queue();
  const std::vector<MatrixView> packed = packed_slices(packing, columns, own.rows);
  std::unique_ptr<PendingPackets> packets;
  {
    const ScopedSpan span = copying(rules::kToColumns, label);
    for (int role = 0; role < group.roles(); ++role) {
      copy_slice(rules::kToColumns, packing, columns, role, own,
                 packed[static_cast<std::size_t>(role)]);
    }
    packets = begin(rules::kToColumns, packed, part, of_part, label);
    copy_slice(rules::kToColumns, rank_.queue, columns, group.role(), own,
               part.rows_in(group.share(of_part)));
  }
  finish(*packets, rules::kToColumns, label);
}

void ColumnExchange::rows_of_range(const Columns& columns, MatrixView part, MatrixView shares,
                                   Rows rows, const OperationLabel& label) {
  const PartGroup& group = *rank_.group;
  const MatrixView own = shares.rows_in(shape_->range_of(rows));
  const RowRange of_part = shape_->range_of_part(rows);
  // Packets are read and written behind what computes these rows, and what read the last ones.
  Queue& packing = packets_.packing_queue();
  const std::vector<MatrixView> packed = packed_slices(packing, columns, own.rows);
  std::unique_ptr<PendingPackets> packets;
  {
    const ScopedSpan span = copying(rules::kToRows, label);
    packets = begin(rules::kToRows, packed, part, of_part, label);
    copy_slice(rules::kToRows, rank_.queue, columns, group.role(),
               part.rows_in(group.share(of_part)), own);
  }
  finish(*packets, rules::kToRows, label);
  const ScopedSpan span = copying(rules::kToRows, label);
  for (int role = 0; role < group.roles(); ++role) {
    copy_slice(rules::kToRows, rank_.queue, columns, role, packed[static_cast<std::size_t>(role)],
               own);
  }
}

std::unique_ptr<PendingPackets> ColumnExchange::begin(const Rule& conversion,
                                                      const std::vector<MatrixView>& packed,
                                                      MatrixView part, RowRange of_part,
                                                      const OperationLabel& label) {
  const PartGroup& group = *rank_.group;
  std::vector<std::span<const std::byte>> sends(packed.size());
  std::vector<std::span<std::byte>> receives(packed.size());
  for (int role = 0; role < group.roles(); ++role) {
    if (role == group.role()) continue;
    const auto r = static_cast<std::size_t>(role);
    std::span<std::byte> sent = rows_as_bytes(packed[r]);
    std::span<std::byte> received = rows_as_bytes(part.rows_in(group.share(of_part, role)));
    if (&conversion == &rules::kToRows) std::swap(sent, received);
    sends[r] = sent;
    receives[r] = received;
  }
  // Each conversion is done before the next one begins: one slot.
  return packets_.begin(0, std::move(sends), std::move(receives), label, memory_);
}

void ColumnExchange::finish(PendingPackets& packets, const Rule& conversion,
                            const OperationLabel& label) {
  {
    ScopedSpan span(rank_.trace, "wait", tag_of(label), label.direction);
    span.set_what(conversion.span);
    packets.finish();
  }
  record_packets(members_, packets.packet_times(), tag_of(label), label.direction, conversion.span);
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
                                                      std::int64_t rows) {
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
  Tensor& memory = memory_->packed[columns.dtype];
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

std::int64_t ColumnExchange::bytes_to_columns(const Columns& columns) const {
  return shape_->rows.inner * columns.bytes_to_others(rank_.group->role(), rank_.group->roles());
}

std::int64_t ColumnExchange::bytes_to_rows(const Columns& columns) const {
  return (shape_->rows.part - shape_->rows.inner) *
         columns.slice_bytes(rank_.group->role(), rank_.group->roles());
}

}  // namespace atl
