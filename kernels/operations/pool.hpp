// Pooling of neighbours and both halves of its gradient: see kernels/pool.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// y[i, :] = the rows of x that row i of `op` has edges from, pooled as kernels/pool.hpp defines
// it; 0 where it has none. Factors and values of `op` are not read. x [op.cols, F], y [op.rows,
// F]; a NaN among the numbers that are pooled gives NaN.
struct Pool {
  static constexpr const char* kName = "pool";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  PoolSpec spec;
  MatrixView y;

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_operator(op);
    check_rows(rows, op.rows, "pool rows");
    check_shape(backend, x, op.cols, x.cols, x.dtype, "pool x");
    check_shape(backend, y, op.rows, x.cols, x.dtype, "pool y");
    check_disjoint(y.rows_in(rows), x, "pool y and x");
  }
  EdgePass pass(bool host_readable) const { return {op, rows, x, 1, host_readable}; }
  SpanWork work(bool host_readable) const { return edge_pass_work(pass(host_readable), 0, {y}); }
};

// The half of pool's gradient that belongs to rows i in `rows`, from y as pool wrote it and dy:
//   g_ic = dy_ic / how many edges have the maximum, which share the gradient;
//   softmax: dy_ic / sum_j exp(t (x_jc - y_ic)), where no term exceeds the number of edges;
//   power mean: dy_ic / sum_j (b_jc / y_ic)^p.
// g [op.rows, F] of the parameters' type; 0 for rows without edges.
struct PoolBackwardTargets {
  static constexpr const char* kName = "pool_backward_targets";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  ConstMatrixView y;
  ConstMatrixView dy;
  PoolSpec spec;
  MatrixView g;

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_operator(op);
    check_rows(rows, op.rows, "pool_backward_targets rows");
    check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_backward_targets x");
    for (const ConstMatrixView view : {y, dy}) {
      check_shape(backend, view, op.rows, x.cols, x.dtype, "pool_backward_targets y or dy");
    }
    check_shape(backend, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_targets g");
    check_disjoint({g.rows_in(rows)}, {x, y, dy}, "pool_backward_targets g and an input");
  }
  EdgePass pass(bool host_readable) const { return {op, rows, x, 1, host_readable}; }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), 0, {y, dy, g});
  }
};

// The other half: what reaches x[j, :] for sources j in `sources`, columns of `op`:
//   dx[j - sources.begin, c] = sum over its edges of g_ic where x_jc = y_ic; or, softmax,
//   g_ic exp(d) (1 + d) with d = t (x_jc - y_ic); power mean, g_ic (b_jc / y_ic)^(p - 1) where
//   x_jc lies between the bounds of b. dx [sources.size(), F].
struct PoolBackwardSources {
  static constexpr const char* kName = "pool_backward_sources";
  SparseOperator op;
  SourceEdges edges;
  RowRange sources;
  ConstMatrixView x;
  ConstMatrixView y;
  ConstMatrixView g;
  PoolSpec spec;
  MatrixView dx;

  bool empty() const { return dx.empty(); }
  void check(const BackendTraits& backend) const {
    check_operator(op);
    check_rows(sources, op.cols, "pool_backward_sources sources");
    check_source_edges(edges, op);
    check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_backward_sources x");
    check_shape(backend, y, op.rows, x.cols, x.dtype, "pool_backward_sources y");
    check_shape(backend, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_sources g");
    check_shape(backend, dx, sources.size(), x.cols, x.dtype, "pool_backward_sources dx");
    check_disjoint({dx}, {x, y, g}, "pool_backward_sources dx and an input");
  }
  EdgePass pass(bool host_readable) const {
    return {by_source(op, edges), sources, y, 2, host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), g.cols * bytes_of(g.dtype), {x, x});
  }
};

// slope_ic = the derivative of y_ic with respect to t of softmax, or p of the power mean, for
// rows i in `rows`, from y as pool wrote it; 0 for rows without edges:
//   softmax: sum_j alpha_ijc x_jc^2 - y_ic^2;
//   power mean: y_ic / p (sum_j beta_ijc log b_jc - log y_ic), beta the shares of b_jc^p.
// slope [op.rows, F].
struct PoolSlope {
  static constexpr const char* kName = "pool_slope";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView x;
  ConstMatrixView y;
  PoolSpec spec;
  MatrixView slope;

  bool empty() const { return rows.size() == 0 || x.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_operator(op);
    check_rows(rows, op.rows, "pool_slope rows");
    check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_slope x");
    check_shape(backend, y, op.rows, x.cols, x.dtype, "pool_slope y");
    check_shape(backend, slope, op.rows, x.cols, x.dtype, "pool_slope slope");
    ATOLL_ASSERT(spec.kind != PoolKind::kMaximum, "pool_slope of a maximum");
    check_disjoint({slope.rows_in(rows)}, {x, y}, "pool_slope slope and an input");
  }
  EdgePass pass(bool host_readable) const { return {op, rows, x, 2, host_readable}; }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), 0, {y, slope});
  }
};

}  // namespace atl::kernels
