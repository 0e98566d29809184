// Turns a stream of edges into sorted compressed rows in two passes over the stream, within the
// memory of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/csr.hpp"
#include "datasets/type_array.hpp"

namespace atl {

// source -> target: row `target` of the result holds `source`.
struct Edge {
  std::int32_t source;
  std::int32_t target;
  float weight = 1;
  std::uint16_t type = 0;
};

// Takes the edges block by block. A stream is called twice and must deliver the same edges.
using EdgeSink = std::function<void(std::span<const Edge>)>;
using EdgeStream = std::function<void(const EdgeSink&)>;

constexpr std::int64_t kMaxNodes = (std::int64_t{1} << 31U) - 1;

// Collects edges into blocks for a sink; flush() after the last.
class EdgeBlock {
 public:
  explicit EdgeBlock(const EdgeSink& sink) : sink_(sink) { edges_.reserve(kEdges); }
  void add(std::int64_t source, std::int64_t target, float weight = 1, std::uint16_t type = 0) {
    edges_.push_back(
        {static_cast<std::int32_t>(source), static_cast<std::int32_t>(target), weight, type});
    if (edges_.size() == kEdges) flush();
  }
  void flush() {
    sink_(edges_);
    edges_.clear();
  }

 private:
  static constexpr std::size_t kEdges = 1U << 14U;
  const EdgeSink& sink_;
  std::vector<Edge> edges_;
};

struct GraphBuildOptions {
  std::string place;        // names the source in errors
  std::int64_t nodes = -1;  // -1: largest id + 1, and at least `least_nodes`
  std::int64_t least_nodes = 0;
  // The number of nodes is wanted, not read from a file that may lie: almost all may be isolated.
  bool trust_nodes = false;
  bool directed = false;  // else every edge counts in both directions
  bool keep_self_loops = false;
  bool weighted = false;
  bool typed = false;  // edges of different types between two nodes are different edges
  // How many types there are, which all of them are below; 0: the largest + 1.
  std::int64_t relations = 0;
  // typed, directed: of every edge of type r also the one back, of type r + relations.
  bool reverse_relations = false;
  bool with_origins = false;  // see BuiltGraph
  // Drops a random (seeded) part of the distinct edges so that at most this many remain;
  // undirected edges count once.
  std::optional<std::int64_t> keep_edges;
  std::uint64_t seed = 0;
};

struct BuiltGraph {
  Csr csr;
  std::vector<std::uint16_t> types;  // typed: of every entry of csr
  // with_origins: the number in the stream, from 0, of the edge that each entry of csr is. Where
  // several became one, the first of them.
  std::vector<std::int64_t> origins;
  std::int64_t relations = 0;     // typed: how many, reverse ones included
  std::int64_t edges_source = 0;  // edges in the stream
  std::int64_t self_loops = 0;    // of these, u -> u
  std::int64_t duplicates = 0;    // of these, repeats of an earlier edge in the same direction
  std::int64_t merged = 0;  // of these, those that became one with an earlier edge in any direction
  // Undirected only: node pairs that the stream lists in one direction only, and the first of them.
  std::int64_t one_way = 0;
  Edge first_one_way{-1, -1, 0};
  // Undirected and weighted: node pairs whose two directions have different weights, and the first
  // of them with the weight in either direction.
  std::int64_t uneven = 0;
  Edge first_uneven{-1, -1, 0};
  float first_uneven_back = 0;
};

// Rows come out sorted by source, then by type, and without duplicates. Weights of duplicates are
// summed; where a source lists both directions of an undirected edge, each direction is summed and
// the larger sum counts (as max(A, A^T)). Self-loops are dropped unless keep_self_loops. Throws
// Error{kInput} if there are no nodes, if ids are so sparse that most nodes would not occur, if a
// summed weight is not finite, or if there are more than kMaxTypes types with the reverse ones.
// Memory: the result, plus 4 bytes per node.
BuiltGraph build_graph(const EdgeStream& stream, const GraphBuildOptions& options);

}  // namespace atl
