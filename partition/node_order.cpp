#include "partition/node_order.hpp"

#include <metis.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "base/names.hpp"
#include "partition/metis_call.hpp"
#include "partition/union_find.hpp"

namespace atl {

namespace {

using Nodes = std::vector<std::int32_t>;

constexpr NameTable<NodeOrder, 6> kNodeOrders = {{{"natural", NodeOrder::kNatural},
                                                  {"degree", NodeOrder::kDegree},
                                                  {"breadth-first", NodeOrder::kBreadthFirst},
                                                  {"rcm", NodeOrder::kRcm},
                                                  {"metis", NodeOrder::kMetis},
                                                  {"communities", NodeOrder::kCommunities}}};

std::int64_t degree(const CsrView& graph, std::int32_t v) {
  return graph.row_ptr[v + 1] - graph.row_ptr[v];
}

Nodes natural(const CsrView& graph) {
  Nodes order(static_cast<std::size_t>(graph.rows()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Nodes of equal degree by id.
Nodes by_degree(const CsrView& graph, bool ascending) {
  Nodes order = natural(graph);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return ascending ? degree(graph, a) < degree(graph, b) : degree(graph, a) > degree(graph, b);
  });
  return order;
}

Nodes breadth_first(const CsrView& graph, bool sort_neighbours) {
  std::vector<bool> visited(static_cast<std::size_t>(graph.rows()), false);
  Nodes order;
  order.reserve(visited.size());
  const auto visit = [&](std::int32_t v) {
    if (visited[static_cast<std::size_t>(v)]) return;
    visited[static_cast<std::size_t>(v)] = true;
    order.push_back(v);
  };
  for (const std::int32_t start : by_degree(graph, /*ascending=*/true)) {
    std::size_t next = order.size();
    visit(start);
    for (; next < order.size(); ++next) {
      const auto first = static_cast<std::ptrdiff_t>(order.size());
      for (const std::int32_t u : graph.row(order[next])) visit(u);
      if (!sort_neighbours) continue;
      std::stable_sort(order.begin() + first, order.end(), [&](std::int32_t a, std::int32_t b) {
        return degree(graph, a) < degree(graph, b);
      });
    }
  }
  return order;
}

Nodes reverse_cuthill_mckee(const CsrView& graph) {
  Nodes order = breadth_first(graph, /*sort_neighbours=*/true);
  std::ranges::reverse(order);
  return order;
}

Nodes metis_parts(const CsrView& graph) {
  constexpr std::int64_t kNodesPerPart = 1024;
  Nodes order = breadth_first(graph, /*sort_neighbours=*/false);
  auto parts = static_cast<idx_t>(graph.rows() / kNodesPerPart);
  if (parts < 2) return order;
  if (graph.nnz() > std::numeric_limits<idx_t>::max()) {
    fail_option(
        "--node-order metis: a part has {} edges, and METIS here counts in 32 bits (at most {}); "
        "use --node-order communities",
        graph.nnz(), std::numeric_limits<idx_t>::max());
  }
  std::vector<idx_t> row_ptr{0};
  std::vector<idx_t> columns;
  columns.reserve(static_cast<std::size_t>(graph.nnz()));
  for (std::int32_t v = 0; v < graph.rows(); ++v) {
    // METIS wants neither loops nor duplicates.
    const auto first = static_cast<std::ptrdiff_t>(columns.size());
    for (const std::int32_t u : graph.row(v)) {
      if (u != v) columns.push_back(u);
    }
    std::sort(columns.begin() + first, columns.end());
    columns.erase(std::unique(columns.begin() + first, columns.end()), columns.end());
    row_ptr.push_back(static_cast<idx_t>(columns.size()));
  }
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  auto nodes = static_cast<idx_t>(graph.rows());
  idx_t constraints = 1;
  idx_t cut = 0;
  std::vector<idx_t> part_of(static_cast<std::size_t>(nodes));
  const MetisCall call;
  const int status =
      METIS_PartGraphKway(&nodes, &constraints, row_ptr.data(), columns.data(), nullptr, nullptr,
                          nullptr, &parts, nullptr, nullptr, options, &cut, part_of.data());
  if (status != METIS_OK) {
    fail(ErrorKind::kMemory, "METIS failed with status {} while nodes were ordered", status);
  }
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return part_of[static_cast<std::size_t>(a)] < part_of[static_cast<std::size_t>(b)];
  });
  return order;
}

// Nested communities by greedy modularity: each node merges once, into a community that may merge
// later itself, so that merged nodes form trees.
class CommunityMerger {
 public:
  explicit CommunityMerger(const CsrView& graph)
      : graph_(graph),
        nodes_(static_cast<std::size_t>(graph.rows())),
        communities_(graph.rows()),
        first_child_(nodes_, kNone),
        next_sibling_(nodes_, kNone),
        merged_edges_(nodes_),
        weight_to_(nodes_, 0) {
    total_.reserve(nodes_);
    for (std::int32_t v = 0; v < graph.rows(); ++v) {
      total_.push_back(static_cast<double>(degree(graph, v)));
    }
  }

  Nodes order() {
    std::vector<std::int32_t> tops;
    for (const std::int32_t v : by_degree(graph_, /*ascending=*/true)) {
      if (!merge(v)) tops.push_back(v);
    }
    Nodes order;
    order.reserve(nodes_);
    Nodes stack;
    for (const std::int32_t top : tops) {
      stack.push_back(top);
      while (!stack.empty()) {
        const std::int32_t v = stack.back();
        stack.pop_back();
        order.push_back(v);
        for (std::int32_t c = first_child_[index(v)]; c != kNone; c = next_sibling_[index(c)]) {
          stack.push_back(c);
        }
      }
    }
    return order;
  }

 private:
  struct Edge {
    std::int32_t to;
    double weight;
  };
  static constexpr std::int32_t kNone = -1;
  static std::size_t index(std::int32_t v) { return static_cast<std::size_t>(v); }

  // Edges of the community of v to others, added up.
  std::vector<Edge> outer_edges(std::int32_t v) {
    std::vector<Edge> edges;
    const auto add = [&](std::int32_t to, double weight) {
      const std::int32_t community = communities_.root(to);
      if (community == v) return;
      double& sum = weight_to_[index(community)];
      if (sum == 0) edges.push_back({community, 0});
      sum += weight;
    };
    for (const std::int32_t u : graph_.row(v)) add(u, 1);
    for (std::int32_t c = first_child_[index(v)]; c != kNone; c = next_sibling_[index(c)]) {
      for (const Edge& edge : merged_edges_[index(c)]) add(edge.to, edge.weight);
      merged_edges_[index(c)] = {};
    }
    for (Edge& edge : edges) {
      edge.weight = weight_to_[index(edge.to)];
      weight_to_[index(edge.to)] = 0;
    }
    return edges;
  }

  // Merges v into the neighbour with the greatest gain; false if none gains.
  bool merge(std::int32_t v) {
    std::vector<Edge> edges = outer_edges(v);
    const double scale =
        total_[index(v)] / static_cast<double>(std::max<std::int64_t>(1, graph_.nnz()));
    double best = 0;
    std::int32_t into = kNone;
    for (const Edge& edge : edges) {
      const double gain = edge.weight - scale * total_[index(edge.to)];
      if (gain > best || (gain == best && into != kNone && edge.to < into)) {
        best = gain;
        into = edge.to;
      }
    }
    if (into == kNone) return false;
    communities_.join(v, into);
    total_[index(into)] += total_[index(v)];
    next_sibling_[index(v)] = first_child_[index(into)];
    first_child_[index(into)] = v;
    merged_edges_[index(v)] = std::move(edges);
    return true;
  }

  const CsrView& graph_;
  std::size_t nodes_;
  UnionFind communities_;
  Nodes first_child_;  // trees of merged nodes
  Nodes next_sibling_;
  std::vector<std::vector<Edge>>
      merged_edges_;               // of a node that merged, until its parent took them
  std::vector<double> weight_to_;  // scratch, zero between calls
  std::vector<double> total_;      // degrees of a community's nodes
};

}  // namespace

std::vector<std::string> node_order_names() { return names_of(kNodeOrders); }
const char* to_string(NodeOrder order) { return name_of(kNodeOrders, order); }
NodeOrder parse_node_order(const std::string& name) {
  return parse_name(kNodeOrders, name, "--node-order");
}

std::vector<std::int32_t> node_order(NodeOrder order, const CsrView& graph) {
  switch (order) {
    case NodeOrder::kNatural:
      return natural(graph);
    case NodeOrder::kDegree:
      return by_degree(graph, /*ascending=*/false);
    case NodeOrder::kBreadthFirst:
      return breadth_first(graph, /*sort_neighbours=*/false);
    case NodeOrder::kRcm:
      return reverse_cuthill_mckee(graph);
    case NodeOrder::kMetis:
      return metis_parts(graph);
    case NodeOrder::kCommunities:
      return CommunityMerger(graph).order();
  }
  ATOLL_ASSERT(false, "order {}", static_cast<int>(order));
}

}  // namespace atl
