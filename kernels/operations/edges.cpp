#include "kernels/operations/edges.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

void AggregateEdges::check(const Backend& backend) const {
  check_edge_terms(backend, terms, op, x);
  check_rows(rows, op.rows, "aggregate_edges rows");
  check_shape(backend, y, op.rows, x.cols, x.dtype, "aggregate_edges y");
  if (empty()) return;
  for (const ConstMatrixView input : {x, terms.weight, terms.bias}) {
    check_disjoint(y.rows_in(rows), input, "aggregate_edges y and an input");
  }
}

SpanWork AggregateEdges::work(bool host_readable) const {
  return attention_work(op, rows, x, static_cast<int>(terms.weight.rows) + 1,
                        feature_bytes(terms.weight), {y}, host_readable);
}

void AggregateEdgesBackwardSources::check(const Backend& backend) const {
  check_edge_terms(backend, terms, op, x);
  check_rows(sources, op.cols, "aggregate_edges_backward_sources sources");
  check_source_edges(edges, op);
  check_shape(backend, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_sources dy");
  check_shape(backend, dx, sources.size(), x.cols, x.dtype, "aggregate_edges_backward_sources dx");
  if (empty()) return;
  for (const ConstMatrixView input : {x, dy, terms.weight, terms.bias}) {
    check_disjoint(dx, input, "aggregate_edges_backward_sources dx and an input");
  }
}

SpanWork AggregateEdgesBackwardSources::work(bool host_readable) const {
  return attention_work(by_source(op, edges), sources, dy, static_cast<int>(terms.weight.rows) + 1,
                        8 + feature_bytes(terms.weight), {x, x}, host_readable);
}

void AggregateEdgesBackwardTerms::check(const Backend& backend) const {
  const DType parameters = parameter_dtype(x.dtype);
  check_edge_terms(backend, terms, op, x);
  check_rows(rows, op.rows, "aggregate_edges_backward_terms rows");
  check_shape(backend, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_terms dy");
  check_shape(backend, dweight, terms.weight.rows, x.cols, parameters,
              "aggregate_edges_backward_terms dweight");
  check_shape(backend, dbias, 1, x.cols, parameters, "aggregate_edges_backward_terms dbias");
  if (empty()) return;
  for (const MatrixView output : {dweight, dbias}) {
    for (const ConstMatrixView input : {x, dy, terms.weight, terms.bias}) {
      check_disjoint(output, input, "aggregate_edges_backward_terms: an output and an input");
    }
  }
  check_disjoint(dbias, dweight, "aggregate_edges_backward_terms dbias and dweight");
}

SpanWork AggregateEdgesBackwardTerms::work(bool host_readable) const {
  return attention_work(op, rows, x, 2 * (static_cast<int>(terms.weight.rows) + 1),
                        feature_bytes(terms.weight), {dy}, host_readable);
}

}  // namespace atl::kernels
