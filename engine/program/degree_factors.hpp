// Roots of how many edges the inner nodes of a rank have, by which rows are multiplied before and
// after attention.
#pragma once

#include "engine/program/program.hpp"
#include "engine/tensor/tensor.hpp"

namespace atl {

class DegreeFactors {
 public:
  DegreeFactors() = default;
  // Edges are counted as attention goes along them, parallel ones each: with_self, a node has one
  // edge to itself, whether the graph has it or not. At least 1.
  DegreeFactors(Backend& backend, Queue& queue, const LocalGraphView& graph, bool with_self);

  // out = x times the factors of its rows. x [inner nodes, F]; out: rows `range` of the result.
  void scale(Backend& backend, Queue& queue, DegreeRoot root, ConstMatrixView x, RowRange range,
             MatrixView out) const;

 private:
  ConstDeviceArray<LocalId> rows_;  // 0, 1, 2, ...
  ConstDeviceArray<float> of_sources_;
  ConstDeviceArray<float> of_targets_;
};

}  // namespace atl
