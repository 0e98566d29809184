// Aggregates with features of edges and their gradients: see kernels/edge_terms.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

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
  void check(const BackendTraits& backend) const {
    check_edge_terms(backend, terms, op, x);
    check_rows(rows, op.rows, "aggregate_edges rows");
    check_shape(backend, y, op.rows, x.cols, x.dtype, "aggregate_edges y");
    if (empty()) return;
    check_disjoint({y.rows_in(rows)}, {x, terms.weight, terms.bias},
                   "aggregate_edges y and an input");
  }
  EdgePass pass(bool host_readable) const {
    return {op, rows, x, static_cast<int>(terms.weight.rows) + 1, host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), feature_bytes(terms.weight), {y});
  }
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
  void check(const BackendTraits& backend) const {
    check_edge_terms(backend, terms, op, x);
    check_rows(sources, op.cols, "aggregate_edges_backward_sources sources");
    check_source_edges(edges, op);
    check_shape(backend, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_sources dy");
    check_shape(backend, dx, sources.size(), x.cols, x.dtype,
                "aggregate_edges_backward_sources dx");
    if (empty()) return;
    check_disjoint({dx}, {x, dy, terms.weight, terms.bias},
                   "aggregate_edges_backward_sources dx and an input");
  }
  EdgePass pass(bool host_readable) const {
    return {by_source(op, edges), sources, dy, static_cast<int>(terms.weight.rows) + 1,
            host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), 8 + feature_bytes(terms.weight), {x, x});
  }
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
  void check(const BackendTraits& backend) const {
    const DType parameters = parameter_dtype(x.dtype);
    check_edge_terms(backend, terms, op, x);
    check_rows(rows, op.rows, "aggregate_edges_backward_terms rows");
    check_shape(backend, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_terms dy");
    check_shape(backend, dweight, terms.weight.rows, x.cols, parameters,
                "aggregate_edges_backward_terms dweight");
    check_shape(backend, dbias, 1, x.cols, parameters, "aggregate_edges_backward_terms dbias");
    if (empty()) return;
    check_disjoint({dweight, dbias}, {x, dy, terms.weight, terms.bias},
                   "aggregate_edges_backward_terms: an output and an input");
    check_disjoint(dbias, dweight, "aggregate_edges_backward_terms dbias and dweight");
  }
  EdgePass pass(bool host_readable) const {
    return {op, rows, x, 2 * (static_cast<int>(terms.weight.rows) + 1), host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), feature_bytes(terms.weight), {dy});
  }
};

}  // namespace atl::kernels
