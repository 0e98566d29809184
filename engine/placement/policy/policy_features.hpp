// Columns of a PolicyGraph's nodes and edges, and the list its edges are collected in.
#pragma once

#include <utility>
#include <vector>

#include "engine/placement/policy/policy_graph.hpp"

namespace atl {

// Columns of nodes, in blocks by kind.
enum PolicyNodeColumn : std::uint8_t {
  kIsGroup,
  kIsDevice,
  kIsCandidate,
  kGroup,
  kDevice = kGroup + 15,
  kCandidate = kDevice + 10,
  kNodeColumns = kCandidate + 9,
};
// Columns of edges: the kind, then what each kind says.
enum PolicyEdgeKind : std::uint8_t {
  kNextLayer,
  kPreviousLayer,
  kMessage,
  kLink,
  kPlacedOn,
  kHolds,
  kOffers,
  kBears,
  kEdgeKinds,
};
enum PolicyEdgeColumn : std::uint8_t {
  kMessageSeconds = kEdgeKinds,
  kLinkValues,
  kPlacedShare = kLinkValues + 3,
  kOfferedChange,
  kBorneChange = kOfferedChange + 3,
  kEdgeColumns = kBorneChange + 3,
};

// Edges in any order, then sorted by destination.
class PolicyEdgeList {
 public:
  // The features of the new edge, 0 but for its kind; valid until the next call.
  std::vector<float>& add(PolicyEdgeKind kind, int source, int destination);
  // Fills edge_begin, edge_source and edge_features; graph.nodes is set.
  void write(PolicyGraph& graph);

 private:
  // (destination, source), features
  using Edge = std::pair<std::pair<int, int>, std::vector<float>>;
  std::vector<Edge> edges_;
};

}  // namespace atl
