// The mean over in-neighbours along the edges of each type, of all types at once: one sparse
// product whose rows are pairs of a node and a relation, row i R + r those of node i along edges of
// type r. Its result [inner R, F] is the matrix [inner, R F] of the means side by side, so
// relations need no kernel of their own. The transpose reads the gradient the same way.
#pragma once

#include <vector>

#include "engine/tensor/device_csr.hpp"
#include "partition/local_graph.hpp"

namespace atl {

class RelationOperators {
 public:
  // Throws Error{kInput} naming a node whose in-edges of one type have weights of negative sum, or
  // where pairs are too many for the columns of a transposed operator.
  RelationOperators(Backend& backend, Queue& queue, const LocalGraphView& graph,
                    std::int64_t relations);

  std::int64_t relations() const { return relations_; }
  // [inner R, inner and forward halo].
  const SparseOperator& forward() const { return forward_.matrix; }
  // The share of this rank's edges in the transpose: [inner, inner R] and [forward halo, inner R].
  const SparseOperator& backward() const { return backward_.matrix; }
  const SparseOperator& halo_backward() const { return halo_backward_.matrix; }
  // The coefficient of every entry of the graph's forward matrix, on the host.
  std::span<const float> coefficients() const { return coefficients_; }

 private:
  struct Matrix {
    DeviceCsr csr;
    SparseOperator matrix;
    std::shared_ptr<const PreparedSparse> prepared;
  };
  static Matrix make(Backend& backend, Queue& queue, Csr csr, std::int64_t columns,
                     std::span<const RowRange> ranges, Lifetime lifetime);

  std::int64_t relations_;
  std::vector<float> coefficients_;
  Matrix forward_;
  Matrix backward_;
  Matrix halo_backward_;
};

}  // namespace atl
