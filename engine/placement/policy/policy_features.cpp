#include "engine/placement/policy/policy_features.hpp"

#include <algorithm>

namespace atl {

const std::vector<std::string>& policy_node_features() {
  static const std::vector<std::string> names = {
      "is group", "is device", "is candidate",
      //
      "group compute", "group collective", "group sent inside", "group sent outside",
      "group received inside", "group received outside", "group arrival", "group window",
      "group exposed", "group busy", "group waits", "group decided", "group current",
      "group position", "group outside of layers",
      //
      "device spmm speed", "device gemm speed", "device elementwise speed", "device quantize speed",
      "device memory used", "device utilisation", "device computing", "device card", "device count",
      "device progress",
      //
      "candidate lower bound", "candidate slowest rank", "candidate slowest steps",
      "candidate computing", "candidate cards", "candidate missing memory", "candidate is start",
      "candidate is inherited", "candidate count"};
  return names;
}

const std::vector<std::string>& policy_edge_features() {
  static const std::vector<std::string> names = {
      "next layer", "previous layer", "message", "link", "placed on", "holds", "offers", "bears",
      //
      "message seconds", "link seconds", "link bandwidth", "link inside a host", "placed share",
      "offered compute", "offered waits", "offered arrival", "borne computing", "borne card",
      "borne memory"};
  return names;
}

std::vector<float>& PolicyEdgeList::add(PolicyEdgeKind kind, int source, int destination) {
  std::vector<float> features(policy_edge_features().size(), 0.0F);
  features[kind] = 1;
  edges_.push_back({{destination, source}, std::move(features)});
  return edges_.back().second;
}

void PolicyEdgeList::write(PolicyGraph& graph) {
  std::ranges::stable_sort(edges_, {}, &Edge::first);
  graph.edge_begin.assign(static_cast<std::size_t>(graph.nodes) + 1, 0);
  for (const Edge& edge : edges_) {
    ++graph.edge_begin[static_cast<std::size_t>(edge.first.first) + 1];
    graph.edge_source.push_back(LocalId{edge.first.second});
    graph.edge_features.insert(graph.edge_features.end(), edge.second.begin(), edge.second.end());
  }
  for (std::size_t i = 1; i < graph.edge_begin.size(); ++i) {
    graph.edge_begin[i] += graph.edge_begin[i - 1];
  }
}

}  // namespace atl
