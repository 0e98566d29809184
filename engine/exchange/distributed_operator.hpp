// The normalised adjacency of one rank in both directions, with the lists that complete it across
// ranks: what one aggregate needs to know.
#pragma once

#include <vector>

#include "engine/tensor/device_csr.hpp"
#include "partition/arrival.hpp"
#include "partition/recomputation.hpp"

namespace atl {

class ComputedHalo;
class HaloReturn;
class RelationOperators;
class Transport;

const char* to_string(Direction direction);

// One direction of S = diag(r) (A + diag(self)) diag(c) on one rank. Rows are inner nodes, columns
// inner nodes followed by halo rows. Halo rows arrive multiplied by their column factor, so the
// column scale is 1 there.
struct DistributedOperator {
  Direction direction = Direction::kForward;
  SparseOperator matrix;
  HaloListsView halo;                  // on the host, as the next two
  CsrView csr;                         // the structure of `matrix`
  std::span<const float> row_scale;    // its row factors; empty = 1
  std::span<const LocalId> send_rows;  // halo.send_rows in the backend's memory
  // [sendable()]: column factor applied before sending; empty = 1
  std::span<const float> message_scale;
  // [sendable()], in the backend's memory: what keys the rounding noise of each row,
  // node_of_message() of which is its node; empty: the rank's inner_ids.
  std::span<const GlobalId> message_ids;
  // [sums, marginal rows]: partial sums that travel in place of rows (partition/message_cover.hpp),
  // scaled. They lie behind the halo rows.
  SparseOperator sums;
  RowRange central;
  RowRange marginal;
  // Where packets travel in pieces, one for each group of marginal rows: how many messages of a
  // packet are in its pieces up to this one, [ranks * pieces]. Empty: packets travel whole.
  int pieces = 1;
  std::span<const std::int64_t> sent_pieces = {};
  std::span<const std::int64_t> received_pieces = {};

  std::int64_t inner() const { return matrix.rows; }
  // Inner rows, halo rows, and the sums that are made to be sent.
  std::int64_t with_halo() const { return matrix.cols; }
  // Rows that send_rows may name, the first ones.
  std::int64_t sendable() const { return sums.rows > 0 ? with_halo() : inner(); }
};

// Where several ranks send a row for one node, the rounding noise of these must differ: above the
// bits of global ids, below 2^48, it is said who sends it.
inline constexpr int kSenderShift = 32;
constexpr GlobalId message_for(GlobalId node, int sender) {
  return GlobalId{to_index(node) | static_cast<std::int64_t>(sender + 1) << kSenderShift};
}
constexpr GlobalId node_of_message(GlobalId id) {
  return GlobalId{to_index(id) & ((std::int64_t{1} << kSenderShift) - 1)};
}

// How long what is prepared for a graph is used.
inline Lifetime lifetime_of(const LocalGraphView& graph) {
  return graph.lasts ? Lifetime::kRun : Lifetime::kStep;
}

// Makes the sums of op that travel, from the marginal rows of x [op.with_halo(), F].
void make_sums(Backend& backend, Queue& queue, const DistributedOperator& op, MatrixView x);

enum class Normalisation {
  kSymmetric,   // D^-1/2 (A + I) D^-1/2 with D = in-degree with self-loop (Kipf & Welling 2017, eq.
                // 2)
  kMean,        // D^-1 A with D = in-degree, rows without in-edges give 0 (Hamilton et al. 2017)
  kSum,         // A
  kSumAndSelf,  // A + I, with a self-loop more for nodes that have one (Xu et al. 2019, eq. 4.1)
  // Edges alone, whose coefficients are computed from rows (kernels::Attend). Its backward
  // operator is that of HaloReturn. Row factors are those of equal coefficients, for choices that
  // are made before these are known.
  kEdges,
  // The mean of every relation (RelationOperators), which is what computes it; the operators here
  // are for its messages. Backward as kEdges.
  kRelations,
};
// "symmetric", "mean", "sum", "sum and self", "edges" or "relations"
const char* to_string(Normalisation normalisation);
// Whether S has factors of rows and of columns, S itself not transposed, and adds the node's row.
constexpr bool has_row_factors(Normalisation n) {
  return n == Normalisation::kSymmetric || n == Normalisation::kMean;
}
constexpr bool has_column_factors(Normalisation n) { return n == Normalisation::kSymmetric; }
constexpr bool adds_self(Normalisation n) {
  return n == Normalisation::kSymmetric || n == Normalisation::kSumAndSelf;
}

// Owns what the two operators of one normalisation refer to. The graph must outlive it. Throws
// Error{kInput} naming a node whose in-edges have weights of negative sum.
class GraphOperators {
 public:
  // relations: of kRelations, how many types edges have. groups: of marginal rows, by which packets
  // are divided.
  GraphOperators(Backend& backend, Queue& queue, const LocalGraphView& graph,
                 Normalisation normalisation, const Recomputation& recomputation = {},
                 std::int64_t relations = 0, const MarginalGroups& groups = {});
  ~GraphOperators();
  GraphOperators(const GraphOperators&) = delete;
  GraphOperators& operator=(const GraphOperators&) = delete;

  const DistributedOperator& forward() const { return forward_; }    // S
  const DistributedOperator& backward() const { return backward_; }  // S^T
  // Null except for kEdges and kRelations.
  const HaloReturn* halo_return() const { return halo_return_.get(); }
  // Null except for kRelations.
  const RelationOperators* relations() const { return relations_.get(); }
  // Halo rows that are not fetched but computed here; null: none on any rank.
  const ComputedHalo* computed_halo() const { return computed_halo_.get(); }
  // Asks other ranks for what computing these rows needs, if there are any, and tells them how to
  // divide packets. Collective; once.
  void connect(Backend& backend, Queue& queue, Transport& transport);

 private:
  // Device copies of one direction's structure.
  struct Structure {
    DeviceCsr matrix;
    DeviceCsr sums;  // that travel
    ConstDeviceArray<LocalId> send_rows;
    ConstDeviceArray<GlobalId> message_ids;
    std::vector<std::int64_t> sent_pieces;
    std::vector<std::int64_t> received_pieces;
  };
  DistributedOperator make(Backend& backend, Queue& queue, const LocalGraphView& graph,
                           const LocalMatrixView& matrix, Direction direction,
                           const MarginalGroups& groups, Structure& structure);

  Structure forward_structure_;
  Structure backward_structure_;
  std::vector<std::shared_ptr<const PreparedSparse>> prepared_;
  std::vector<float> host_row_factor_;          // r of every inner node
  ConstDeviceArray<float> row_factor_;          // the same
  ConstDeviceArray<float> forward_col_scale_;   // c of inner nodes, then 1 for forward outer rows
  ConstDeviceArray<float> backward_col_scale_;  // r of inner nodes, then 1 for backward outer rows
  ConstDeviceArray<float> self_weight_;
  DistributedOperator forward_;
  DistributedOperator backward_;
  std::unique_ptr<ComputedHalo> computed_halo_;
  std::unique_ptr<HaloReturn> halo_return_;
  std::unique_ptr<RelationOperators> relations_;
};

}  // namespace atl
