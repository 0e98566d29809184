#include "partition/local_graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace {

// Sum of the values of every listed row, in double; the number of edges where they have no values.
std::vector<float> weighted_degrees(const CsrView& csr, std::span<const GlobalId> ids) {
  std::vector<float> degrees(ids.size());
  parallel_for(std::ssize(ids), 1024, [&](std::int64_t i) {
    const std::int64_t row = to_index(ids[i]);
    double sum = 0;
    for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) sum += csr.value(e);
    degrees[i] = static_cast<float>(sum);
  });
  return degrees;
}

}  // namespace

LocalGraphView LocalGraph::view() const {
  LocalGraphView view;
  view.part = part;
  view.parts = parts;
  view.global_nodes = global_nodes;
  view.central = central;
  view.inner_ids = inner_ids;
  view.in_degree = in_degree;
  view.out_degree = symmetric ? in_degree : out_degree;
  view.has_self_loop = has_self_loop;
  view.node_types = node_types;
  view.forward = forward.view();
  view.backward = symmetric ? forward.view() : backward.view();
  view.symmetric = symmetric;
  view.within = within;
  return view;
}

LocalGraphBuilder::LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of,
                                     int parts, NodeOrder order)
    : LocalGraphBuilder(graph, part_of, parts, order, {}) {}

LocalGraphBuilder::LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of,
                                     int parts, std::span<const std::int32_t> sequence)
    : LocalGraphBuilder(graph, part_of, parts, NodeOrder::kNatural, sequence) {}

LocalGraphBuilder::LocalGraphBuilder(const GraphView& graph, std::span<const std::int32_t> part_of,
                                     int parts, NodeOrder order,
                                     std::span<const std::int32_t> sequence)
    : graph_(graph), part_of_(part_of), parts_(parts) {
  ATOLL_ASSERT(parts >= 1 && static_cast<std::int64_t>(part_of.size()) == graph.nodes(),
               "{} parts, {} entries for {} nodes", parts, part_of.size(), graph.nodes());
  for (const std::int32_t part : part_of) {
    ATOLL_ASSERT(part >= 0 && part < parts, "part {} of {}", part, parts);
  }
  if (!graph_.symmetric) transposed_ = transpose(graph_.in_edges);
  find_central();
  order_nodes(order, sequence);
  forward_messages_ = find_messages(readers(Direction::kForward));
  if (!graph_.symmetric) backward_messages_ = find_messages(readers(Direction::kBackward));
  halo_column_.resize(part_of.size());
}

void LocalGraphBuilder::find_central() {
  const std::int64_t nodes = graph_.nodes();
  const CsrView in = graph_.in_edges;
  const CsrView out = out_edges();
  is_central_.resize(nodes);
  parallel_for(nodes, 1024, [&](std::int64_t v) {
    const auto is_local = [&](std::int32_t u) { return part_of_[u] == part_of_[v]; };
    is_central_[v] = std::ranges::all_of(in.row(v), is_local) &&
                     (graph_.symmetric || std::ranges::all_of(out.row(v), is_local));
  });
}

// Edges in both directions between the nodes of one part, numbered as in `members`, which is what
// local_of_ says of them.
Csr LocalGraphBuilder::structure_of(std::span<const std::int32_t> members) const {
  const CsrView in = graph_.in_edges;
  const CsrView out = out_edges();
  Csr structure;
  structure.row_ptr.reserve(members.size() + 1);
  for (const std::int32_t v : members) {
    const auto add = [&](const CsrView& edges) {
      for (const std::int32_t u : edges.row(v)) {
        if (part_of_[u] == part_of_[v]) structure.col_idx.push_back(local_of_[u]);
      }
    };
    add(in);
    if (!graph_.symmetric) add(out);
    structure.row_ptr.push_back(static_cast<std::int64_t>(structure.col_idx.size()));
  }
  return structure;
}

void LocalGraphBuilder::order_nodes(NodeOrder order, std::span<const std::int32_t> sequence) {
  const std::int64_t nodes = graph_.nodes();
  ATOLL_ASSERT(sequence.empty() || std::ssize(sequence) == nodes);
  std::vector<NodeList> members(parts_);
  local_of_.resize(nodes);
  for (std::int32_t i = 0; i < nodes; ++i) {
    const std::int32_t v = sequence.empty() ? i : sequence[i];
    NodeList& list = members[part_of_[v]];
    local_of_[v] = static_cast<std::int32_t>(list.size());
    list.push_back(v);
  }
  order_.resize(parts_);
  central_.resize(parts_);
  // Parts touch their own nodes only.
  parallel_for(parts_, 1, [&](std::int64_t part) {
    const NodeList& own = members[part];
    NodeList ordered = node_order(order, structure_of(own).view());
    for (std::int32_t& v : ordered) v = own[v];
    const auto marginal = std::stable_partition(
        ordered.begin(), ordered.end(), [&](std::int32_t v) { return is_central_[v] != 0; });
    central_[part] = marginal - ordered.begin();
    order_[part].reserve(ordered.size());
    for (const std::int32_t v : ordered) {
      local_of_[v] = static_cast<std::int32_t>(order_[part].size());
      order_[part].push_back(GlobalId{v});
    }
  });
}

// Row v of `readers` lists who reads node v. Marginal nodes only: nobody else is read from afar.
std::vector<LocalGraphBuilder::NodeList> LocalGraphBuilder::find_messages(
    const CsrView& readers) const {
  const auto parts = static_cast<std::size_t>(parts_);
  std::vector<NodeList> messages(parts * parts);
  parallel_for(parts_, 1, [&](std::int64_t from) {
    std::vector<std::int64_t> last_node(parts, -1);  // by receiver: the node last added
    const std::span<const GlobalId> inner = order_[from];
    for (const GlobalId id : inner.subspan(central_[from])) {
      const std::int64_t v = to_index(id);
      for (const std::int32_t u : readers.row(v)) {
        const std::int32_t to = part_of_[u];
        if (to == from || last_node[to] == v) continue;
        last_node[to] = v;
        messages[from * parts + to].push_back(static_cast<std::int32_t>(v));
      }
    }
  });
  return messages;
}

const LocalGraphBuilder::NodeList& LocalGraphBuilder::messages(Direction direction, int from,
                                                               int to) const {
  const bool forward = direction == Direction::kForward || graph_.symmetric;
  const auto& all = forward ? forward_messages_ : backward_messages_;
  return all[static_cast<std::size_t>(from) * parts_ + to];
}

LocalGraph LocalGraphBuilder::build(int part) {
  ATOLL_ASSERT(part >= 0 && part < parts_, "part {} of {}", part, parts_);
  LocalGraph graph;
  graph.part = part;
  graph.parts = parts_;
  graph.global_nodes = graph_.nodes();
  graph.central = central_[part];
  graph.inner_ids = order_[part];
  graph.symmetric = graph_.symmetric;
  graph.in_degree = weighted_degrees(graph_.in_edges, graph.inner_ids);
  graph.has_self_loop.reserve(graph.inner_ids.size());
  for (const GlobalId id : graph.inner_ids) {
    const auto row = graph_.in_edges.row(to_index(id));
    graph.has_self_loop.push_back(std::ranges::find(row, to_index(id)) != row.end() ? 1 : 0);
  }
  if (!graph_.node_types.empty()) {
    graph.node_types.reserve(graph.inner_ids.size());
    for (const GlobalId id : graph.inner_ids) {
      graph.node_types.push_back(graph_.node_types[to_index(id)]);
    }
  }
  graph.forward = build_matrix(part, Direction::kForward);
  if (!graph_.symmetric) {
    graph.out_degree = weighted_degrees(transposed_.view(), graph.inner_ids);
    graph.backward = build_matrix(part, Direction::kBackward);
  }
  return graph;
}

LocalMatrix LocalGraphBuilder::build_matrix(int part, Direction direction) {
  const CsrView rows = direction == Direction::kForward ? graph_.in_edges : out_edges();
  const std::span<const GlobalId> inner = order_[part];
  LocalMatrix matrix;
  HaloLists& halo = matrix.halo;
  halo.recv_offset = {0};
  halo.send_offset = {0};
  for (int peer = 0; peer < parts_; ++peer) {
    for (const std::int32_t v : messages(direction, peer, part)) {
      const std::size_t column = inner.size() + matrix.halo_ids.size();
      ATOLL_ASSERT(column < std::numeric_limits<std::int32_t>::max());
      halo_column_[v] = static_cast<std::int32_t>(column);
      matrix.halo_ids.push_back(GlobalId{v});
    }
    for (const std::int32_t v : messages(direction, part, peer)) {
      halo.send_rows.push_back(LocalId{local_of_[v]});
    }
    halo.recv_offset.push_back(static_cast<std::int64_t>(matrix.halo_ids.size()));
    halo.send_offset.push_back(static_cast<std::int64_t>(halo.send_rows.size()));
  }

  Csr& csr = matrix.csr;
  csr.row_ptr.reserve(inner.size() + 1);
  for (const GlobalId id : inner) {
    const auto degree = static_cast<std::int64_t>(rows.row(to_index(id)).size());
    csr.row_ptr.push_back(csr.row_ptr.back() + degree);
  }
  const std::int64_t entries = csr.row_ptr.back();
  csr.col_idx.resize(entries);
  csr.values.resize(rows.values.empty() ? 0 : entries);
  if (direction == Direction::kForward) {
    matrix.edge_types.resize(graph_.edge_types.empty() ? 0 : entries);
    matrix.edge_feature_columns = graph_.edge_feature_columns;
    matrix.edge_features.resize(entries * matrix.edge_feature_columns);
  }
  matrix.split.resize(inner.size());
  fill_rows(part, direction, matrix);
  return matrix;
}

// Local columns before remote ones, both ascending; equal columns keep their order.
void LocalGraphBuilder::fill_rows(int part, Direction direction, LocalMatrix& matrix) const {
  const CsrView rows = direction == Direction::kForward ? graph_.in_edges : out_edges();
  const std::span<const GlobalId> inner = order_[part];
  Csr& csr = matrix.csr;
  const bool columns_only =
      csr.values.empty() && matrix.edge_types.empty() && matrix.edge_features.empty();
  const auto take = [&](std::int64_t from, std::int64_t to) {
    if (!csr.values.empty()) csr.values[to] = rows.values[from];
    if (!matrix.edge_types.empty()) matrix.edge_types[to] = graph_.edge_types[from];
    const std::int64_t features = matrix.edge_feature_columns;
    std::copy_n(graph_.edge_features.begin() + from * features, features,
                matrix.edge_features.begin() + to * features);
  };
  parallel_pieces(std::ssize(inner), 256, [&](std::int64_t first, std::int64_t last, int) {
    std::vector<std::pair<std::int32_t, std::int64_t>> sorted;  // column, entry of `rows`
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = to_index(inner[i]);
      std::int64_t next = csr.row_ptr[i];
      for (const bool local : {true, false}) {
        const std::int64_t begin = next;
        sorted.clear();
        for (std::int64_t e = rows.row_ptr[row]; e < rows.row_ptr[row + 1]; ++e) {
          const std::int32_t u = rows.col_idx[e];
          if ((part_of_[u] == part) != local) continue;
          csr.col_idx[next] = local ? local_of_[u] : halo_column_[u];
          if (!columns_only) sorted.emplace_back(csr.col_idx[next], e);
          ++next;
        }
        std::sort(csr.col_idx.begin() + begin, csr.col_idx.begin() + next);
        std::ranges::sort(sorted);
        for (std::size_t k = 0; k < sorted.size(); ++k) {
          take(sorted[k].second, begin + static_cast<std::int64_t>(k));
        }
        if (local) matrix.split[i] = next;
      }
    }
  });
}

}  // namespace atl
