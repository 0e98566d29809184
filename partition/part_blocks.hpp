// Blocks of a part: all nodes of the graph are dealt to blocks, and the subgraph that a block
// induces over all parts is cut as the graph is. A part makes its share of one from what it holds
// of the graph: both ends of a link know the blocks of all nodes that they share, so they list the
// same messages in the same order without talking.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buckets.hpp"
#include "base/parallel.hpp"
#include "partition/local_graph.hpp"

namespace atl {

// A number for each node that a part knows.
struct NodeNumbers {
  std::vector<std::int32_t> inner;
  std::vector<std::int32_t> forward_halo;
  std::vector<std::int32_t> backward_halo;  // empty for a symmetric graph
};

// number_of(id) for each of them.
template <typename NumberOf>
NodeNumbers number_nodes(const LocalGraphView& part, const NumberOf& number_of) {
  const auto numbers = [&](std::span<const GlobalId> ids) {
    std::vector<std::int32_t> result(ids.size());
    parallel_for(std::ssize(ids), 4096, [&](std::int64_t i) { result[i] = number_of(ids[i]); });
    return result;
  };
  return {numbers(part.inner_ids), numbers(part.forward.halo_ids),
          part.symmetric ? std::vector<std::int32_t>() : numbers(part.backward.halo_ids)};
}

// The share of a part in a block.
struct PartBlock {
  LocalGraph graph;           // its degrees are those in the block
  std::vector<LocalId> rows;  // by inner node: its row in the part

  std::int64_t inner() const { return std::ssize(rows); }
};

class PartBlocks {
 public:
  // The part must outlive it; its messages are all rows, not sums.
  explicit PartBlocks(const LocalGraphView& part);

  // Deals the nodes anew: block_of is the same for a node on all parts, from 0.
  void deal(int blocks, NodeNumbers block_of);
  // Inner nodes of the part in a block, ascending.
  std::span<const std::int32_t> rows(int block) const { return inner_.of(block); }
  // Nodes keep their order within central and marginal ones, of which there may be fewer than in
  // the part. Takes time for the nodes and edges of these nodes. Memory of `result` is used again.
  void extract(int block, PartBlock& result);

 private:
  // Edges of a row that stay in its block.
  struct Kept {
    std::int64_t first = 0;  // of `places` of its piece of members
    std::int32_t local = 0;
    std::int32_t remote = 0;
  };
  // One direction of the part.
  struct Side {
    LocalMatrixView matrix;
    std::vector<std::int32_t> owner;  // of each halo row
    std::vector<std::int32_t> block_of_halo;
    Buckets halo;  // halo rows by block
    // Scratch of one block.
    std::vector<Kept> kept;  // by member
    // Where edges that stay lie in their rows, of each piece of members.
    std::vector<std::vector<std::int32_t>> places;
    std::vector<std::uint8_t> is_read;  // by halo row: by a member
    std::vector<std::int32_t> column;   // by halo row that is: its column in the block
  };

  std::span<const std::int32_t> remote(const Side& side, std::int64_t row) const;
  void find_edges(int block, Side& side);
  void order_rows(int block, PartBlock& result);
  void number_halo(int block, Side& side, LocalMatrix& matrix);
  void list_messages(int block, const Side& readers, const PartBlock& result, LocalMatrix& matrix);
  void fill_rows(const Side& side, const PartBlock& result, LocalMatrix& matrix) const;
  void fill_nodes(PartBlock& result) const;

  LocalGraphView part_;
  std::vector<std::uint16_t> block_of_row_;  // narrow, to stay in a cache
  Buckets inner_;                            // inner nodes by block
  std::vector<Side> sides_;  // forward, and backward of a graph that isn't symmetric
  // Scratch of one block.
  std::vector<std::vector<std::int32_t>> of_row_;  // by thread: places of edges of a row
  std::vector<std::int32_t> order_;                // by inner node: its place among the members
  std::vector<std::int32_t> new_row_;              // by row of the part that is a member
  bool moves_rows_ = false;                        // some are central that are marginal in the part
  std::vector<std::vector<LocalId>> sent_;         // by part
};

}  // namespace atl
