// Inside the ranks that hold one part (PartGroup), changes how they share a matrix: from a share of
// its rows on each, with all columns, to all rows with a slice of the columns, and back.
#pragma once

#include <map>
#include <memory>

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
  };
  // Those of kToColumns or kToRows.
  static Columns columns_of(const Program& program, const Operation& conversion, DType dtype);

  // rank.group is there. All references must outlive it.
  ColumnExchange(const Rank& rank, const RankShape& shape)
      : rank_(rank), shape_(&shape), members_(rank.in_part()), packets_(members_) {}

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

 private:
  // Memory that transfers read and write; an abandoned one holds on to it.
  struct Memory {
    std::map<DType, Tensor> packed;  // a row of each type
    std::shared_ptr<const void> values;
  };

  void columns_of_range(const Columns& columns, ConstMatrixView shares, MatrixView part, Rows rows,
                        const OperationLabel& label);
  void rows_of_range(const Columns& columns, MatrixView part, MatrixView shares, Rows rows,
                     const OperationLabel& label);
  // Room for so many rows of the slices of all others, one matrix behind the other.
  std::vector<MatrixView> packed_slices(Queue& queue, const Columns& columns, std::int64_t rows);
  // The columns of a role: from rows with all of them to these columns alone (kToColumns), or back
  // (kToRows).
  void copy_slice(const Rule& conversion, Queue& queue, const Columns& columns, int role,
                  ConstMatrixView from, MatrixView to);
  // From packed slices to the shares of others in `part` (kToColumns), or back (kToRows).
  std::unique_ptr<PendingPackets> begin(const Rule& conversion,
                                        const std::vector<MatrixView>& packed, MatrixView part,
                                        RowRange of_part, const OperationLabel& label);
  // A span of copying for `conversion`.
  ScopedSpan copying(const Rule& conversion, const OperationLabel& label) const {
    return {rank_.trace, conversion.span, tag_of(label), label.direction};
  }
  static TraceTag tag_of(const OperationLabel& label) { return {label.epoch, label.layer}; }
  // Waits for the others of the group.
  void finish(PendingPackets& packets, const Rule& conversion, const OperationLabel& label);
  // From here on transfers write to values in this memory.
  void use(std::shared_ptr<const void> memory);

  const Rank& rank_;
  const RankShape* shape_;
  const Rank members_;  // this rank among them
  PacketTransfer packets_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace atl
