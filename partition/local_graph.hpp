// The part of the graph that one rank holds: its inner nodes, the sparse matrices of both
// directions over local columns, and the lists of which rows travel to whom.
//
// Local numbering of columns: [central | marginal | halo grouped by owner, ascending]. Central
// nodes have no remote neighbour in either direction. Inside a row, local columns come before
// remote ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "base/ids.hpp"
#include "partition/node_order.hpp"

namespace atl {

// Who sends which rows to whom in one direction; P parts.
struct HaloListsView {
  // P + 1: halo rows [recv_offset[r], recv_offset[r + 1]) come from part r.
  std::span<const std::int64_t> recv_offset;
  // P + 1: send_rows[send_offset[r] .. send_offset[r + 1]) go to part r, in the receiver's order.
  std::span<const std::int64_t> send_offset;
  std::span<const LocalId> send_rows;  // inner nodes
  // P: the halo row that the first message of each part is for; empty: recv_offset. Differs where
  // only some of the parts send.
  std::span<const std::int64_t> recv_first = {};

  std::int64_t first_halo_row(std::size_t part) const {
    return recv_first.empty() ? recv_offset[part] : recv_first[part];
  }
  std::int64_t received_from(std::size_t part) const {
    return recv_offset[part + 1] - recv_offset[part];
  }
  // Messages received, one per row.
  std::int64_t halo_rows() const { return recv_offset.empty() ? 0 : recv_offset.back(); }
  std::int64_t sent_rows() const { return static_cast<std::int64_t>(send_rows.size()); }
};

// One direction of the local graph.
struct LocalMatrixView {
  CsrView csr;                          // inner rows; columns are local ids
  std::span<const std::int64_t> split;  // per row: index into col_idx of its first remote column
  HaloListsView halo;
  std::span<const GlobalId> halo_ids;  // global id of each halo row
  // Types of csr's entries, in its order; empty: edges have none. The forward matrix alone has
  // them: that of a directed graph's transpose is without.
  std::span<const std::uint16_t> edge_types = {};
  std::span<const float> edge_features = {};  // [entries, edge_feature_columns]
  std::int64_t edge_feature_columns = 0;
  // Messages that are no rows but partial sums for nodes of other parts (message_cover.hpp), a row
  // for each. Columns are marginal nodes, numbered from 0. halo.send_rows names a sum by the row
  // that it has behind the halo rows. None: all messages are rows.
  CsrView sums = {};
  std::span<const GlobalId> sum_ids = {};  // the node that each is for

  // Rows that matrices have behind the inner ones: those that come, and sums that are sent.
  std::int64_t outer_rows() const { return halo.halo_rows() + sums.rows(); }
};

struct LocalGraphView {
  int part = 0;
  int parts = 1;
  std::int64_t global_nodes = 0;
  std::int64_t central = 0;             // inner nodes [0, central) are central
  std::span<const GlobalId> inner_ids;  // global id of each inner node
  // Sum of the values of the in-edges of each inner node over the whole graph, explicit self-loops
  // included (their count where edges have no values).
  std::span<const float> in_degree;
  std::span<const float> out_degree;            // same for out-edges; equals in_degree if symmetric
  std::span<const std::uint8_t> has_self_loop;  // 1 where the graph itself has the edge (i, i)
  std::span<const std::uint16_t> node_types;    // of each inner node; empty: nodes have none
  LocalMatrixView forward;                      // A: row i reads its in-neighbours
  LocalMatrixView backward;                     // A^T: same spans as forward for a symmetric graph
  bool symmetric = true;
  // Where results of some nodes alone are wanted (datasets/neighbourhood.hpp): by number of hops,
  // how many inner nodes are no farther from these. They are the first ones. Empty: all are wanted.
  std::span<const std::int64_t> within = {};
  bool lasts = true;  // false: another graph takes its place after a few passes

  std::int64_t inner() const { return static_cast<std::int64_t>(inner_ids.size()); }
  std::int64_t marginal() const { return inner() - central; }
};

// Storage behind the views.
struct HaloLists {
  std::vector<std::int64_t> recv_offset;
  std::vector<std::int64_t> send_offset;
  std::vector<LocalId> send_rows;
  HaloListsView view() const { return {recv_offset, send_offset, send_rows}; }
};

struct LocalMatrix {
  Csr csr;
  std::vector<std::int64_t> split;
  HaloLists halo;
  std::vector<GlobalId> halo_ids;
  std::vector<std::uint16_t> edge_types;
  std::vector<float> edge_features;
  std::int64_t edge_feature_columns = 0;
  Csr sums;
  std::vector<GlobalId> sum_ids;
  LocalMatrixView view() const {
    return {csr.view(),           split,       halo.view(), halo_ids, edge_types, edge_features,
            edge_feature_columns, sums.view(), sum_ids};
  }
};

struct LocalGraph {
  int part = 0;
  int parts = 1;
  std::int64_t global_nodes = 0;
  std::int64_t central = 0;
  std::vector<GlobalId> inner_ids;
  std::vector<float> in_degree;
  std::vector<float> out_degree;  // empty if symmetric
  std::vector<std::uint8_t> has_self_loop;
  std::vector<std::uint16_t> node_types;
  LocalMatrix forward;
  LocalMatrix backward;  // empty if symmetric
  bool symmetric = true;
  std::vector<std::int64_t> within;

  LocalGraphView view() const;
};

// The whole graph as the partitioner and the builder see it. `in_edges` row i: sources of edges
// into i (global ids fit int32; larger graphs are refused when a dataset is opened).
struct GraphView {
  CsrView in_edges;
  bool symmetric = true;  // in_edges equals its transpose, values, types and features included
  // Types of in_edges' entries; empty: edges have none.
  std::span<const std::uint16_t> edge_types = {};
  std::span<const float> edge_features = {};  // [entries, edge_feature_columns]
  std::int64_t edge_feature_columns = 0;
  std::span<const std::uint16_t> node_types = {};  // of every node; empty: nodes have none

  std::int64_t nodes() const { return in_edges.rows(); }
};

// Which matrix of the graph a halo belongs to.
enum class Direction : std::uint8_t { kForward, kBackward };

// Builds the local graph of one part at a time, so that only one is in memory. The constructor is
// linear in nodes + edges (but for what the node order takes), and so are all calls of build()
// together. Duplicate edges count as often as they occur; self-loops are ordinary local edges.
class LocalGraphBuilder {
 public:
  // part_of has one entry in [0, parts) per node; it and the graph must outlive the builder. order:
  // of nodes inside the central and the marginal range of each part.
  LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of, int parts,
                    NodeOrder order = NodeOrder::kBreadthFirst);
  // The same with the order in which `sequence` has all nodes.
  LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of, int parts,
                    std::span<const std::int32_t> sequence);

  // Runs its loops in parallel but is not itself thread-safe: calls share a scratch array.
  LocalGraph build(int part);

  const GraphView& graph() const { return graph_; }
  std::span<const std::int32_t> part_of() const { return part_of_; }
  int parts() const { return parts_; }
  CsrView out_edges() const { return graph_.symmetric ? graph_.in_edges : transposed_.view(); }
  // Inner nodes of a part in local order, and how many of them, the first ones, are central.
  std::span<const GlobalId> inner_ids(int part) const { return order_[part]; }
  std::int64_t central(int part) const { return central_[part]; }
  // Who reads each node in a direction.
  CsrView readers(Direction direction) const {
    return direction == Direction::kForward ? out_edges() : graph_.in_edges;
  }
  // Rows that part `to` receives from part `from`.
  std::int64_t halo_rows(Direction direction, int from, int to) const {
    return static_cast<std::int64_t>(messages(direction, from, to).size());
  }

 private:
  using NodeList = std::vector<std::int32_t>;

  const NodeList& messages(Direction direction, int from, int to) const;
  void find_central();
  Csr structure_of(std::span<const std::int32_t> members) const;
  LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of, int parts,
                    NodeOrder order, std::span<const std::int32_t> sequence);
  void order_nodes(NodeOrder order, std::span<const std::int32_t> sequence);
  std::vector<NodeList> find_messages(const CsrView& readers) const;
  LocalMatrix build_matrix(int part, Direction direction);
  void fill_rows(int part, Direction direction, LocalMatrix& matrix) const;

  GraphView graph_;
  std::span<const std::int32_t> part_of_;
  int parts_;
  Csr transposed_;                            // only if not symmetric
  std::vector<std::uint8_t> is_central_;      // of every node
  std::vector<std::vector<GlobalId>> order_;  // inner nodes of each part, in local order
  std::vector<std::int64_t> central_;         // central nodes of each part
  std::vector<std::int32_t> local_of_;        // local id of every node on its owner
  // [from * parts + to]: nodes of `from` that `to` reads, in from's local order. That order is what
  // makes both ends of a link agree without talking.
  std::vector<NodeList> forward_messages_;
  std::vector<NodeList> backward_messages_;  // only if not symmetric
  std::vector<std::int32_t> halo_column_;    // scratch: column of each halo node of one part
};

}  // namespace atl
