// Aggregates with features of edges and their gradients: see kernels/edge_terms.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/edge_terms.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

// y[i, :] = sum of max(m_e, 0) over the edges e of row i, i in `rows`, with m_e of
// kernels/edge_terms.hpp; the operator's factors and values are not read. x [op.cols, F], y
// [op.rows, F]. Nothing of size edges x columns exists, here and in both halves of the gradient.
struct AggregateEdges {
  static constexpr const char* kName = "aggregate_edges";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  EdgeTerms terms;
  MatrixView y;

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// dx[j - sources.begin, :] = sum of dy_i over the edges e from j, each to its i, in the columns
// where m_e > 0. dy [op.rows, F], dx [sources.size(), F].
struct AggregateEdgesBackwardSources {
  static constexpr const char* kName = "aggregate_edges_backward_sources";
  SparseOperator op;
  SourceEdges edges;
  RowRange sources;
  ConstMatrixView x;
  EdgeTerms terms;
  ConstMatrixView dy;
  MatrixView dx;

  bool empty() const { return dx.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// Along the edges of rows in `rows`, the gradients of W and b are added to dweight and dbias, of
// their shapes and types.
struct AggregateEdgesBackwardTerms {
  static constexpr const char* kName = "aggregate_edges_backward_terms";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  EdgeTerms terms;
  ConstMatrixView dy;
  MatrixView dweight;
  MatrixView dbias;

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
