// Roots of how many edges the inner nodes of a rank have, or those of its share of a part, by which
// rows are multiplied before and after attention.
#pragma once

#include "engine/exchange/rank.hpp"
#include "engine/tensor/tensor.hpp"
#include "partition/local_graph.hpp"

namespace atl {

struct DegreeViews {
  std::span<const LocalId> counting;  // 0, 1, 2, ...
  std::span<const float> of_sources;
  std::span<const float> of_targets;
};

class DegreeFactors {
 public:
  DegreeFactors() = default;
  // Edges are counted as attention goes along them, parallel ones each: with_self, a node has one
  // edge to itself, whether the graph has it or not. At least 1.
  DegreeFactors(const Rank& rank, const LocalGraphView& graph, bool with_self);

  DegreeViews views() const { return {counting_.span(), of_sources_.span(), of_targets_.span()}; }

 private:
  ConstDeviceArray<LocalId> counting_;  // 0, 1, 2, ...
  ConstDeviceArray<float> of_sources_;
  ConstDeviceArray<float> of_targets_;
};

}  // namespace atl
