// Graphs with the sizes and the skew of degrees of published sets, for speed alone: random
// neighbours, no locality.
#pragma once

#include <cstdint>
#include <vector>

namespace atl {

struct BenchmarkShape {
  const char* name;
  std::int64_t nodes;
  std::int64_t edges;  // stored: both directions of an undirected edge
  double busiest;      // largest degree / mean degree
};

// ogbn-arxiv (made undirected), ogbn-products, Reddit.
constexpr BenchmarkShape kGraphShapes[] = {{"arxiv", 169'343, 2'315'598, 960},
                                           {"products", 2'449'029, 123'718'280, 346},
                                           {"reddit", 232'965, 114'615'892, 44}};

struct RandomGraph {
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> col_idx;

  std::int64_t rows() const { return static_cast<std::int64_t>(row_ptr.size()) - 1; }
  std::int64_t nnz() const { return static_cast<std::int64_t>(col_idx.size()); }
};

// Nodes and edges are the shape's times `scale`. Rows have the hubs of the set where they are known
// (degree_tail.hpp). Otherwise both the degrees of rows and the columns follow a
// weight of (r + r0)^(-1/2) for the node of rank r, r0 chosen for the busiest node; ranks are
// spread over the ids.
RandomGraph make_graph(const BenchmarkShape& shape, double scale);

}  // namespace atl
