#include "kernels/operations/pool.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void Pool::check(const Backend& backend) const {
  check_operator(op);
  check_rows(rows, op.rows, "pool rows");
  check_shape(backend, x, op.cols, x.cols, x.dtype, "pool x");
  check_shape(backend, y, op.rows, x.cols, x.dtype, "pool y");
  check_disjoint(y.rows_in(rows), x, "pool y and x");
}

SpanWork Pool::work(bool host_readable) const {
  return attention_work(op, rows, x, 1, 0, {y}, host_readable);
}

void PoolBackwardTargets::check(const Backend& backend) const {
  check_operator(op);
  check_rows(rows, op.rows, "pool_backward_targets rows");
  check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_backward_targets x");
  for (const ConstMatrixView view : {y, dy}) {
    check_shape(backend, view, op.rows, x.cols, x.dtype, "pool_backward_targets y or dy");
  }
  check_shape(backend, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_targets g");
  for (const ConstMatrixView input : {x, y, dy}) {
    check_disjoint(g.rows_in(rows), input, "pool_backward_targets g and an input");
  }
}

SpanWork PoolBackwardTargets::work(bool host_readable) const {
  return attention_work(op, rows, x, 1, 0, {y, dy, g}, host_readable);
}

void PoolBackwardSources::check(const Backend& backend) const {
  check_operator(op);
  check_rows(sources, op.cols, "pool_backward_sources sources");
  check_source_edges(edges, op);
  check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_backward_sources x");
  check_shape(backend, y, op.rows, x.cols, x.dtype, "pool_backward_sources y");
  check_shape(backend, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_sources g");
  check_shape(backend, dx, sources.size(), x.cols, x.dtype, "pool_backward_sources dx");
  for (const ConstMatrixView input : {x, y, g}) {
    check_disjoint(dx, input, "pool_backward_sources dx and an input");
  }
}

SpanWork PoolBackwardSources::work(bool host_readable) const {
  return attention_work(by_source(op, edges), sources, y, 2, g.cols * bytes_of(g.dtype), {x, dx},
                        host_readable);
}

void PoolSlope::check(const Backend& backend) const {
  check_operator(op);
  check_rows(rows, op.rows, "pool_slope rows");
  check_shape(backend, x, op.cols, x.cols, x.dtype, "pool_slope x");
  check_shape(backend, y, op.rows, x.cols, x.dtype, "pool_slope y");
  check_shape(backend, slope, op.rows, x.cols, x.dtype, "pool_slope slope");
  ATOLL_ASSERT(spec.kind != PoolKind::kMaximum, "pool_slope of a maximum");
  for (const ConstMatrixView input : {x, y}) {
    check_disjoint(slope.rows_in(rows), input, "pool_slope slope and an input");
  }
}

SpanWork PoolSlope::work(bool host_readable) const {
  return attention_work(op, rows, x, 2, 0, {y, slope}, host_readable);
}

}  // namespace atl::kernels
