// The hand-drawn graphs of the partition tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "partition/local_graph.hpp"

namespace atl {

// Six nodes in three parts of two, directed and weighted, with a self-loop at 1, a duplicate edge
// 2 -> 1 and node 0 without in-edges. Source -> destination (value):
//   0->1 (1)  1->1 (2)  2->1 (3)  2->1 (4)  4->1 (5)  3->2 (7)  1->3 (6)  4->3 (9)  5->4 (8)
struct DirectedExample {
  std::vector<std::int64_t> row_ptr{0, 0, 5, 6, 8, 9, 9};
  std::vector<std::int32_t> col_idx{0, 1, 2, 2, 4, 3, 1, 4, 5};
  std::vector<float> values{1, 2, 3, 4, 5, 7, 6, 9, 8};
  std::vector<std::int32_t> part_of{0, 0, 1, 1, 2, 2};
  GraphView graph() const { return {{row_ptr, col_idx, values}, false}; }
};

// The path 0 - 1 - 2 - 3 - 4 - 5, undirected, without values, cut in the middle.
struct PathExample {
  std::vector<std::int64_t> row_ptr{0, 1, 3, 5, 7, 9, 10};
  std::vector<std::int32_t> col_idx{1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
  std::vector<std::int32_t> part_of{0, 0, 0, 1, 1, 1};
  GraphView graph() const { return {{row_ptr, col_idx, {}}, true}; }
};

template <typename T>
std::vector<T> to_vector(std::span<const T> values) {
  return {values.begin(), values.end()};
}
template <typename Id>
std::vector<std::int64_t> to_indices(std::span<const Id> ids) {
  std::vector<std::int64_t> indices;
  for (const Id id : ids) indices.push_back(to_index(id));
  return indices;
}

}  // namespace atl
