// The weight of edges between parts as an objective of descent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/descent.hpp"
#include "partition/graph_level.hpp"

namespace atl {

class CutWeight {
 public:
  // graph and part_of outlive this.
  CutWeight(const GraphLevel& graph, std::span<std::int32_t> part_of, int parts)
      : graph_(graph), part_of_(part_of), parts_(parts) {}

  bool may_gain(std::int32_t node) const {
    bool near = false;
    graph_.for_each_neighbour(
        node, [&](std::int32_t u, std::int64_t) { near |= part_of_[u] != part_of_[node]; });
    return near;
  }
  Proposal best(std::int32_t node, const PartLoads& loads, bool any) const {
    static thread_local std::vector<std::int64_t> weight_to;
    weight_to.assign(static_cast<std::size_t>(parts_), 0);
    graph_.for_each_neighbour(
        node, [&](std::int32_t u, std::int64_t weight) { weight_to[part_of_[u]] += weight; });
    const int own = part_of_[node];
    Proposal best;
    best.node = node;
    for (int part = 0; part < parts_; ++part) {
      if (part == own || (weight_to[part] == 0 && !any) || !loads.fits(node, part)) continue;
      best.offer(part, weight_to[part] - weight_to[own], loads);
    }
    return best;
  }
  void move(std::int32_t node, int to) { part_of_[node] = to; }

 private:
  const GraphLevel& graph_;
  std::span<std::int32_t> part_of_;
  int parts_;
};

}  // namespace atl
