// A graph between the dataset's own and the few thousand nodes that are cut: its nodes are
// communities of the level below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.hpp"

namespace atl {

// Either the dataset's graph, read where it is mapped (edges weigh 1), or a contracted one.
// Self-loops may be there and mean nothing.
struct GraphLevel {
  CsrView edges;
  CsrView reversed;                            // of a directed graph, else empty
  std::span<const std::int32_t> edge_weights;  // as edges.col_idx; empty: 1 each
  std::span<const std::int32_t> node_weights;  // [nodes, constraints]
  std::int64_t constraints = 1;

  std::int64_t nodes() const { return edges.rows(); }
  std::int64_t entries() const { return edges.nnz() + reversed.nnz(); }
  std::int64_t degree(std::int64_t v) const {
    return static_cast<std::int64_t>(edges.row(v).size() +
                                     (reversed.row_ptr.empty() ? 0 : reversed.row(v).size()));
  }
  // f(neighbour, weight) for every edge but loops, each direction on its own.
  template <typename F>
  void for_each_neighbour(std::int32_t v, const F& f) const {
    for (std::int64_t e = edges.row_ptr[v]; e < edges.row_ptr[v + 1]; ++e) {
      const std::int32_t u = edges.col_idx[e];
      if (u != v) f(u, std::int64_t{edge_weights.empty() ? 1 : edge_weights[e]});
    }
    if (reversed.row_ptr.empty()) return;
    for (const std::int32_t u : reversed.row(v)) {
      if (u != v) f(u, std::int64_t{1});
    }
  }
};

// Storage of a contracted level.
struct ContractedGraph {
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<std::int32_t> edge_weights;
  std::vector<std::int32_t> node_weights;
  std::int64_t constraints = 1;

  GraphLevel level() const {
    return {{row_ptr, col_idx, {}}, {}, edge_weights, node_weights, constraints};
  }
};

struct Communities {
  std::vector<std::int32_t> of;  // every node's, numbered from 0 in the order of their first nodes
  std::int64_t count = 0;
};

// Nodes join those they have most edges to, the ones with few edges first. No community weighs more
// than `bounds` [constraints] unless it is one node, or spans two parts where part_of is not empty.
// In a round every node looks once. The same for any number of threads.
Communities find_communities(const GraphLevel& graph, std::span<const std::int64_t> bounds,
                             std::span<const std::int32_t> part_of, int rounds, std::uint64_t seed);

// One node per community; edges between two are added up (at most 2^31 - 1), those within
// disappear.
ContractedGraph contract(const GraphLevel& graph, const Communities& communities);

// Nets (partition/halo_rows.hpp) with communities for pins, each once. Nets with one pin are left
// out, those with the same pins are one that weighs as much.
struct ContractedNets {
  Csr pins;
  std::vector<std::int32_t> weights;
};
// with_itself: net n is node n's and has it as a pin, listed or not. weights: of the nets, empty: 1
// each.
ContractedNets contract_nets(const CsrView& pins, bool with_itself,
                             std::span<const std::int32_t> weights,
                             std::span<const std::int32_t> community_of);

}  // namespace atl
