#include "kernels/operations/attention.hpp"

#include "base/error.hpp"
#include "kernels/backend.hpp"
#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

using namespace checks;

namespace {

// Bytes of what scores read along one edge.
std::int64_t score_bytes(const AttentionSpec& attention) {
  const std::int64_t scores =
      attention.edge_scores.absent() ? 0 : attention.heads * bytes_of(attention.edge_scores.dtype);
  return scores + feature_bytes(attention.edges.weight);
}
// Products that are made with the features of an edge in one pass.
int edge_products(const AttentionSpec& attention) {
  return static_cast<int>(attention.edges.count());
}

}  // namespace

void Attend::check(const Backend& backend) const {
  check_view(backend, z, "attend z");
  check_rows(rows, op.rows, "attend rows");
  check_attention(backend, attention, op, z, t);
  check_shape(backend, y, op.rows, z.cols, z.dtype, "attend y");
  if (empty()) return;
  for (const ConstMatrixView input : {z, t, attention.vector, attention.source_scores,
                                      attention.edge_scores, attention.edges.weight}) {
    check_disjoint(y.rows_in(rows), input, "attend y and an input");
  }
  check_epilogue(backend, epilogue, y.rows_in(rows));
}

SpanWork Attend::work(bool host_readable) const {
  return attention_work(op, rows, z, 2 + edge_products(attention), score_bytes(attention), {t, y},
                        host_readable);
}

void AttendBackwardTargets::check(const Backend& backend) const {
  check_view(backend, z, "attend_backward_targets z");
  check_rows(rows, op.rows, "attend_backward_targets rows");
  check_attention(backend, attention, op, z, t);
  check_shape(backend, dy, op.rows, z.cols, z.dtype, "attend_backward_targets dy");
  check_shape(backend, dt, t.rows, t.cols, t.dtype, "attend_backward_targets dt");
  check_coefficients(backend, attention, op, coefficients, parameter_dtype(z.dtype));
  check_dvector(backend, dvector, attention.score == AttentionScore::kGatv2, z);
  check_dedge_weight(backend, dedge_weight, attention);
  if (empty()) return;
  for (const MatrixView output : {dt.rows_in(rows), coefficients, dvector, dedge_weight}) {
    for (const ConstMatrixView input : {z, t, dy, attention.vector, attention.source_scores,
                                        attention.edge_scores, attention.edges.weight}) {
      check_disjoint(output, input, "attend_backward_targets: an output and an input");
    }
  }
  check_disjoint(dt, coefficients, "attend_backward_targets dt and coefficients");
  check_disjoint(dvector, dt, "attend_backward_targets dvector and dt");
  check_disjoint(dvector, coefficients, "attend_backward_targets dvector and coefficients");
  for (const MatrixView other : {dt, coefficients, dvector}) {
    check_disjoint(dedge_weight, other, "attend_backward_targets dedge_weight and an output");
  }
}

SpanWork AttendBackwardTargets::work(bool host_readable) const {
  return attention_work(op, rows, z, 4 + 2 * edge_products(attention),
                        2 * attention.heads * bytes_of(coefficients.dtype) + score_bytes(attention),
                        {t, dy, dt}, host_readable);
}

void AttendBackwardSources::check(const Backend& backend) const {
  const bool additive = attention.score == AttentionScore::kAdditive;
  check_view(backend, z, "attend_backward_sources z");
  check_rows(sources, op.cols, "attend_backward_sources sources");
  check_attention(backend, attention, op, z, t);
  check_source_edges(edges, op);
  check_shape(backend, dy, op.rows, z.cols, z.dtype, "attend_backward_sources dy");
  check_shape(backend, dz, sources.size(), z.cols, z.dtype, "attend_backward_sources dz");
  check_coefficients(backend, attention, op, coefficients, parameter_dtype(z.dtype));
  check_dvector(backend, dvector, additive, z);
  if (empty()) return;
  for (const MatrixView output : {dz, dvector}) {
    for (const ConstMatrixView input : {z, t, dy, coefficients, attention.vector,
                                        attention.source_scores, attention.edges.weight}) {
      check_disjoint(output, input, "attend_backward_sources: an output and an input");
    }
  }
  check_disjoint(dvector, dz, "attend_backward_sources dvector and dz");
}

SpanWork AttendBackwardSources::work(bool host_readable) const {
  const bool additive = attention.score == AttentionScore::kAdditive;
  const std::int64_t of_score = additive ? 0 : t.cols * bytes_of(t.dtype);
  return attention_work(by_source(op, edges), sources, dy,
                        (additive ? 1 : 2) + edge_products(attention),
                        8 + 2 * attention.heads * bytes_of(coefficients.dtype) + of_score +
                            feature_bytes(attention.edges.weight),
                        {z, dy}, host_readable);
}

}  // namespace atl::kernels
