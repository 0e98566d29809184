// Features of edges on their way into rows (kernels::AggregateEdges and its gradients).
//
// Edge e from j carries m_e = x_j + b + sum_k features[e, k] W[k, :], one row of as many columns as
// x has. It is made where it is needed and never stored.
#pragma once

#include "kernels/views.hpp"

namespace atl {

struct EdgeTerms {
  // [edges, weight.rows] without gaps between rows, in the order of the operator's col_idx.
  std::span<const float> features;
  ConstMatrixView weight;  // [features of an edge, columns], of the parameters' type
  ConstMatrixView bias;    // [1, columns], of the parameters' type
};

}  // namespace atl
