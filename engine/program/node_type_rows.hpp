// The inner rows of a rank, those of one type of nodes after those of another: products with a
// weight per type read blocks of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace atl {

class NodeTypeRows {
 public:
  // So many nodes of type `type`, at least one, in rows `rows` of what is sorted.
  struct Block {
    std::int64_t type = 0;
    RowRange rows;
  };

  NodeTypeRows() = default;
  // types: of each inner row.
  NodeTypeRows(Backend& backend, Queue& queue, std::span<const std::uint16_t> types);

  // Blocks alone: so many types with equally many of these rows.
  static NodeTypeRows evenly(std::int64_t types, std::int64_t rows);

  const std::vector<Block>& blocks() const { return blocks_; }
  // Which row stands at each sorted place; within a type they keep their order.
  std::span<const LocalId> sorted() const { return sorted_.span(); }
  // At which sorted place each row stands.
  std::span<const LocalId> places() const { return places_.span(); }

 private:
  std::vector<Block> blocks_;
  ConstDeviceArray<LocalId> sorted_, places_;
};

}  // namespace atl
