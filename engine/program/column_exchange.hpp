// Inside the ranks that hold one part (PartGroup), changes how they share a matrix: from a share of
// its rows on each, with all columns, to all rows with a slice of the columns, and back.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "engine/exchange/packet_transfer.hpp"
#include "engine/program/views.hpp"

namespace atl {

class ColumnExchange {
 public:
  // Columns that are converted. Several matrices side by side are stored without padding.
  struct Columns {
    std::int64_t all = 0;
    Slices slices = {};
    DType dtype = DType::kF32;

    std::int64_t of_matrix() const { return all / slices.matrices; }
    // Those of one matrix that a rank of the group has, of so many ranks.
    ColumnRange slice_of(int role, int roles) const {
      return column_slice(of_matrix(), role, roles, slices.unit);
    }
    // Bytes of a row of a role's slice.
    std::int64_t slice_bytes(int role, int roles) const {
      const std::int64_t count = slice_of(role, roles).count;
      return bytes_of(dtype) * (slices.packed ? slices.matrices * count : padded_columns(count));
    }
    // Those of the slices of all other roles.
    std::int64_t bytes_to_others(int role, int roles) const;
    // The memory of packets where a share has so many rows, all of them packed at once or not.
    std::int64_t buffer_bytes(int role, int roles, std::int64_t share, bool at_once) const;
  };
  // Those of kToColumns or kToRows.
  static Columns columns_of(const Program& program, const Operation& conversion, DType dtype);

  // Rows that have so many bytes are converted together: they are still in the cache when they set
  // out, and when they are unpacked.
  static constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 20;

  // rank.group is there. All references must outlive it.
  ColumnExchange(const Rank& rank, const RankShape& shape,
                 std::int64_t bytes_at_once = kBytesAtOnce)
      : rank_(rank),
        shape_(&shape),
        members_(rank.in_part()),
        packets_(members_),
        bytes_at_once_(bytes_at_once) {}

  // From now on converts rows of another graph. Must outlive it, or the next one.
  void enter(const RankShape& shape) { shape_ = &shape; }

  // Rows of a range: of the rank's share in `shares` [shape.rows.inner, F], of the whole part in
  // `part` [shape.rows.part, this rank's slice of F]. memory: owns `part`, see
  // Transport::all_to_all_v. Returns when work queued afterwards will find them there. Collective
  // in the group.
  void to_columns(const Columns& columns, ConstMatrixView shares, MatrixView part, Rows rows,
                  const OperationLabel& label, std::shared_ptr<const void> memory);
  void to_rows(const Columns& columns, MatrixView part, MatrixView shares, Rows rows,
               const OperationLabel& label, std::shared_ptr<const void> memory);

  // Bytes that this rank sends for all rows.
  std::int64_t bytes_to_columns(const Columns& columns) const;
  std::int64_t bytes_to_rows(const Columns& columns) const;
  std::int64_t buffer_bytes(const Columns& columns) const;

 private:
  // Packets are made, or unpacked, while others travel.
  using UnderWay = std::array<std::unique_ptr<PendingPackets>, 2>;
  // Memory that transfers read and write; an abandoned one holds on to it.
  struct Memory {
    std::map<DType, std::array<Tensor, 2>> packed;  // each a single row
    std::shared_ptr<const void> values;
  };
  // Rows of every share that are converted together.
  struct Chunk {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t buffer = 0;  // of UnderWay and Memory

    // Shares may be a row longer than others.
    RowRange of(std::int64_t share) const { return {std::min(begin, share), std::min(end, share)}; }
  };

  void columns_of_range(const Columns& columns, ConstMatrixView shares, MatrixView part, Rows rows,
                        const OperationLabel& label);
  void rows_of_range(const Columns& columns, MatrixView part, MatrixView shares, Rows rows,
                     const OperationLabel& label);
  // A device's own transport is fast, and starting it is not.
  bool sends_at_once() const { return members_.device != nullptr; }
  // All of a range of the part's rows: the same on all ranks of the group.
  std::vector<Chunk> chunks_of(const Columns& columns, RowRange of_part) const;
  // Room for so many rows of the slices of all others, one matrix behind the other.
  std::vector<MatrixView> packed_slices(Queue& queue, const Columns& columns, const Chunk& chunk,
                                        std::int64_t rows);
  // The columns of a role: from rows with all of them to these columns alone (kToColumns), or back
  // (kToRows).
  void copy_slice(const Rule& conversion, Queue& queue, const Columns& columns, int role,
                  ConstMatrixView from, MatrixView to);
  // From packed slices to the shares of others in `part` (kToColumns), or back (kToRows).
  std::unique_ptr<PendingPackets> begin(const Rule& conversion,
                                        const std::vector<MatrixView>& packed, MatrixView part,
                                        Rows rows, const Chunk& chunk, const OperationLabel& label);
  // A span of copying for `conversion`.
  ScopedSpan copying(const Rule& conversion, const OperationLabel& label) const {
    return {rank_.trace, conversion.span, tag_of(label), label.direction};
  }
  static TraceTag tag_of(const OperationLabel& label) { return {label.epoch, label.layer}; }
  // Waits for the others of the group, unless `packets` is null; makes it null.
  void finish(std::unique_ptr<PendingPackets>& packets, const Rule& conversion,
              const OperationLabel& label);
  // From here on transfers write to values in this memory.
  void use(std::shared_ptr<const void> memory);

  const Rank& rank_;
  const RankShape* shape_;
  const Rank members_;  // this rank among them
  PacketTransfer packets_;
  std::int64_t bytes_at_once_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace atl
