#include "datasets/neighbourhood.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"

namespace atl {

namespace {

class NeighbourhoodBuilder {
 public:
  explicit NeighbourhoodBuilder(const Dataset& dataset)
      : dataset_(dataset), graph_(dataset.graph()) {
    // Pages that nobody writes take no memory.
    const auto count = static_cast<std::size_t>(graph_.nodes());
    place_.reset(static_cast<std::int32_t*>(std::calloc(count, sizeof(std::int32_t))));
    if (!place_) throw std::bad_alloc();
  }

  LocalGraph build(std::span<const GlobalId> nodes, int hops) {
    for (const GlobalId id : nodes) add(to_index(id));
    local_.within.push_back(std::ssize(local_.inner_ids));
    for (int hop = 1; hop <= hops; ++hop) add_next();
    local_.global_nodes = graph_.nodes();
    local_.central = std::ssize(local_.inner_ids);
    describe_nodes();
    fill_rows(hops == 0 ? 0 : local_.within[static_cast<std::size_t>(hops) - 1]);
    return std::move(local_);
  }

 private:
  void add(std::int64_t node) {
    place_[node] = static_cast<std::int32_t>(local_.inner_ids.size()) + 1;
    local_.inner_ids.push_back(GlobalId{node});
  }

  // Nodes one edge farther than those of the last hop.
  void add_next() {
    const auto known = static_cast<std::size_t>(local_.within.back());
    const std::size_t before =
        local_.within.size() < 2
            ? 0
            : static_cast<std::size_t>(local_.within[local_.within.size() - 2]);
    std::vector<std::int32_t> found;
    for (std::size_t i = before; i < known; ++i) {
      const std::int64_t row = to_index(local_.inner_ids[i]);
      for (std::int64_t e = graph_.in_edges.row_ptr[row]; e < graph_.in_edges.row_ptr[row + 1];
           ++e) {
        const std::int32_t u = graph_.in_edges.col_idx[e];
        require_node(e, u);
        if (place_[u] != 0) continue;
        place_[u] = -1;
        found.push_back(u);
      }
    }
    std::ranges::sort(found);
    for (const std::int32_t u : found) add(u);
    local_.within.push_back(std::ssize(local_.inner_ids));
  }

  void require_node(std::int64_t edge, std::int32_t node) const {
    if (node >= 0 && node < graph_.nodes()) return;
    fail_input("{}: entry {} is {}; allowed are node ids 0 to {}", file("col_idx"), edge, node,
               graph_.nodes() - 1);
  }

  void require_type(const char* array, std::int64_t entry, std::uint16_t type,
                    std::int64_t types) const {
    if (type < types) return;
    fail_input("{}: entry {} is {}; allowed are types 0 to {}", file(array), entry, type,
               types - 1);
  }

  // As in a part of the whole graph, by all in-edges of each node.
  void describe_nodes() {
    const CsrView& edges = graph_.in_edges;
    for (const GlobalId id : local_.inner_ids) {
      const std::int64_t row = to_index(id);
      double degree = 0;
      bool loops = false;
      for (std::int64_t e = edges.row_ptr[row]; e < edges.row_ptr[row + 1]; ++e) {
        if (!std::isfinite(edges.value(e))) {
          fail_input("{}: entry {} is {}; allowed are finite numbers", file("edge_weights"), e,
                     edges.value(e));
        }
        degree += edges.value(e);
        loops = loops || edges.col_idx[e] == row;
      }
      local_.in_degree.push_back(static_cast<float>(degree));
      local_.has_self_loop.push_back(loops ? 1 : 0);
      if (graph_.node_types.empty()) continue;
      require_type("node_types", row, graph_.node_types[row], dataset_.info().node_types);
      local_.node_types.push_back(graph_.node_types[row]);
    }
  }

  // In-edges of the first `rows` inner nodes; columns in the order of the nodes' ids, as in a part
  // of all nodes in their natural order, so that sums have the same terms in the same order.
  void fill_rows(std::int64_t rows) {
    const CsrView& edges = graph_.in_edges;
    LocalMatrix& matrix = local_.forward;
    matrix.halo.recv_offset = {0, 0};
    matrix.halo.send_offset = {0, 0};
    matrix.edge_feature_columns = graph_.edge_feature_columns;
    std::vector<std::pair<std::int32_t, std::int64_t>> sorted;  // node, entry
    for (std::int64_t i = 0; i < std::ssize(local_.inner_ids); ++i) {
      sorted.clear();
      const std::int64_t row = to_index(local_.inner_ids[static_cast<std::size_t>(i)]);
      for (std::int64_t e = edges.row_ptr[row]; i < rows && e < edges.row_ptr[row + 1]; ++e) {
        sorted.emplace_back(edges.col_idx[e], e);
      }
      std::ranges::sort(sorted);
      for (const auto& [node, entry] : sorted) {
        matrix.csr.col_idx.push_back(place_[node] - 1);
        take(entry);
      }
      matrix.csr.row_ptr.push_back(std::ssize(matrix.csr.col_idx));
      matrix.split.push_back(matrix.csr.row_ptr.back());
    }
  }

  void take(std::int64_t entry) {
    LocalMatrix& matrix = local_.forward;
    if (!graph_.in_edges.values.empty()) {
      matrix.csr.values.push_back(graph_.in_edges.values[entry]);
    }
    if (!graph_.edge_types.empty()) {
      require_type("edge_types", entry, graph_.edge_types[entry], dataset_.info().relations);
      matrix.edge_types.push_back(graph_.edge_types[entry]);
    }
    const std::int64_t columns = graph_.edge_feature_columns;
    const auto features = graph_.edge_features.begin() + entry * columns;
    matrix.edge_features.insert(matrix.edge_features.end(), features, features + columns);
  }

  std::string file(const char* name) const {
    return (dataset_.folder() / (std::string(name) + ".npy")).string();
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  const Dataset& dataset_;
  GraphView graph_;
  std::unique_ptr<std::int32_t[], Free> place_;  // of each node: its inner row, and 1; 0: none
  LocalGraph local_;
};

void require_finite_rows(const Shard& shard, const std::filesystem::path& folder) {
  const std::span<const float> values = shard.features();
  const auto wrong =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == values.end()) return;
  const std::int64_t at = wrong - values.begin();
  const std::int64_t columns = shard.dataset().features;
  fail_input("{}: row {}, column {} is {}; allowed are finite numbers",
             (folder / "features.npy").string(),
             to_index(shard.graph().inner_ids[static_cast<std::size_t>(at / columns)]),
             at % columns, *wrong);
}

}  // namespace

Shard neighbourhood(const Dataset& dataset, std::span<const GlobalId> nodes, int hops) {
  Shard shard = Shard::copy(dataset, NeighbourhoodBuilder(dataset).build(nodes, hops));
  require_finite_rows(shard, dataset.folder());
  return shard;
}

}  // namespace atl
