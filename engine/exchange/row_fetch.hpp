// Rows of other ranks by the ids of their nodes, which may be others each time: fetched from their
// owners, and what a rank has summed up for them returned and added there. Halo exchanges carry
// the same rows every time; these carry those that the links of an epoch name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/exchange/packet_transfer.hpp"
#include "engine/tensor/device_csr.hpp"

namespace atl {

// Where each node of the graph lives: 6 bytes per node on every rank.
struct NodeHomes {
  std::vector<std::uint16_t> rank;
  std::vector<std::int32_t> row;  // among the inner nodes of that rank

  // inner_ids: of this rank, on the host. Collective.
  static NodeHomes share(Transport& transport, std::span<const GlobalId> inner_ids,
                         std::int64_t nodes);
};

class RowFetch {
 public:
  // All references must outlive it. x: matrices of `columns` columns, `inner` rows of this rank.
  RowFetch(const Rank& rank, const NodeHomes& homes, std::int64_t inner, std::int64_t columns,
           DType dtype);

  // Forgets the list of nodes that the last connect() was for.
  void clear();
  // Puts a node on the list unless it is there or is an inner one.
  void want(std::int64_t node);
  // Tells the owners of the listed nodes. Collective.
  void connect(const OperationLabel& label);

  // Rows behind the inner ones after connect().
  std::int64_t fetched() const { return static_cast<std::int64_t>(wanted_.size()); }
  // Row of an inner or listed node after connect(): fetched ones lie behind the inner ones.
  std::int32_t row_of(std::int64_t node) const;

  // x [inner, columns] with the listed rows behind it, until the next fetch(). Collective.
  ConstMatrixView fetch(ConstMatrixView x, const OperationLabel& label);
  // The place for what give_back() returns: [fetched(), columns], to be written after fetch().
  MatrixView returned() { return returned_->reshaped(fetched(), columns_); }
  // Adds to each row of dx [inner, columns] what other ranks return for it, in their order.
  // Collective.
  void give_back(MatrixView dx, const OperationLabel& label);

  // Bytes of all this for `rows` listed rows, about.
  std::int64_t bytes(std::int64_t rows) const;

 private:
  bool is_inner(std::int64_t node) const;
  // Packets of rows that lie one after the other, by rank.
  std::vector<std::span<std::byte>> packets(MatrixView rows,
                                            std::span<const std::int64_t> offsets) const;
  void exchange(MatrixView sends, std::span<const std::int64_t> send_offsets, MatrixView receives,
                std::span<const std::int64_t> receive_offsets, const OperationLabel& label);
  // Memory for so many rows, kept and grown; its padding is zeros, which travel.
  void reserve(std::shared_ptr<Tensor>& memory, std::int64_t rows);

  const Rank& rank_;
  const NodeHomes& homes_;
  std::int64_t inner_;
  std::int64_t columns_;
  DType dtype_;
  PacketTransfer packets_;

  std::vector<std::int32_t> slot_of_;  // by node; -1: not listed
  std::vector<std::int32_t> wanted_;   // by owner after connect()
  std::vector<std::int64_t> wanted_offset_;
  std::vector<std::int64_t> sent_offset_;
  ConstDeviceArray<LocalId> sent_rows_;
  DeviceCsr sums_;  // adds rows returned to inner ones

  std::shared_ptr<Tensor> rows_, sent_, returned_;
};

}  // namespace atl
