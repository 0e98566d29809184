// Sets of nodes that grow together, each named by one of its nodes.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace atl {

class UnionFind {
 public:
  // Each node alone.
  explicit UnionFind(std::int64_t nodes) : above_(static_cast<std::size_t>(nodes)) {
    std::iota(above_.begin(), above_.end(), 0);
  }

  // The node that names the set of this one. Paths there are halved on the way.
  std::int32_t root(std::int32_t node) {
    while (above_[node] != node) {
      above_[node] = above_[above_[node]];
      node = above_[node];
    }
    return node;
  }
  // One set joins another, whose name both have from now on. Both are given by their roots.
  void join(std::int32_t root, std::int32_t into) { above_[root] = into; }

 private:
  std::vector<std::int32_t> above_;  // a forest, in which a root is above itself
};

}  // namespace atl
