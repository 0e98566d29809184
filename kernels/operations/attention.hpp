// Attention over in-edges and both halves of its gradient: see kernels/attention.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/checks.hpp"
#include "kernels/operation_work.hpp"

namespace atl::kernels {

// Bytes of what scores read along one edge.
inline std::int64_t score_bytes(const AttentionSpec& attention) {
  const std::int64_t scores =
      attention.edge_scores.absent() ? 0 : attention.heads * bytes_of(attention.edge_scores.dtype);
  return scores + feature_bytes(attention.edges.weight);
}
// Products that are made with the features of an edge in one pass.
inline int edge_products(const AttentionSpec& attention) {
  return static_cast<int>(attention.edges.count());
}

// y[i, :] = epilogue of row i of the attention that kernels/attention.hpp defines, over the edges
// of `op`, whose factors and values are not read. A row without edges, and not attending to
// itself, gives epilogue(0). z [op.cols, H C]; t [op.rows, H C], additive: [op.rows, H] of the
// parameters' type; y [op.rows, H C]. rows, y and dropout as in spmm. Nothing of size edges x
// columns exists.
struct Attend {
  static constexpr const char* kName = "attend";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView z;
  ConstMatrixView t;
  AttentionSpec attention;
  MatrixView y;
  Epilogue epilogue = {};

  bool empty() const { return rows.size() == 0 || z.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, z, "attend z");
    check_rows(rows, op.rows, "attend rows");
    check_attention(backend, attention, op, z, t);
    check_shape(backend, y, op.rows, z.cols, z.dtype, "attend y");
    if (empty()) return;
    check_disjoint({y.rows_in(rows)},
                   {z, t, attention.vector, attention.source_scores, attention.edge_scores,
                    attention.edges.weight},
                   "attend y and an input");
    check_epilogue(backend, epilogue, y.rows_in(rows));
  }
  EdgePass pass(bool host_readable) const {
    return {op, rows, z, 2 + edge_products(attention), host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(pass(host_readable), score_bytes(attention), {t, y});
  }
};

// The half of attend's gradient that goes along the edges of rows i in `rows`, from dy [op.rows,
// H C] = d loss / d (the attention before the epilogue):
//   dt[i, :], of t's shape and type, is written;
//   coefficients[e, h] = dropped(alpha) and coefficients[e, H + h] = the gradient of what stands
//   behind it: e_ij, additive: s_j + t_i; e is the edge's place in col_idx, nnz + i for the row
//   itself. [nnz + (with_self ? op.rows : 0), 2 H] of the parameters' type; edges that with_self
//   passes over get 0. Only edges of `rows` are written;
//   gatv2: the gradient of `vector` is added to dvector [1, H C]; else dvector is absent;
//   with features of edges, that of their weight to dedge_weight, of its shape and type; else
//   that is absent.
struct AttendBackwardTargets {
  static constexpr const char* kName = "attend_backward_targets";
  SparseOperator op;
  RowRange rows;
  ConstMatrixView z;
  ConstMatrixView t;
  ConstMatrixView dy;
  AttentionSpec attention;
  MatrixView dt;
  MatrixView coefficients;
  MatrixView dvector;
  MatrixView dedge_weight = {};

  bool empty() const { return rows.size() == 0 || z.cols == 0; }
  void check(const BackendTraits& backend) const {
    check_view(backend, z, "attend_backward_targets z");
    check_rows(rows, op.rows, "attend_backward_targets rows");
    check_attention(backend, attention, op, z, t);
    check_shape(backend, dy, op.rows, z.cols, z.dtype, "attend_backward_targets dy");
    check_shape(backend, dt, t.rows, t.cols, t.dtype, "attend_backward_targets dt");
    check_coefficients(backend, attention, op, coefficients, parameter_dtype(z.dtype));
    check_dvector(backend, dvector, attention.score == AttentionScore::kGatv2, z);
    check_dedge_weight(backend, dedge_weight, attention);
    if (empty()) return;
    check_disjoint({dt.rows_in(rows), coefficients, dvector, dedge_weight},
                   {z, t, dy, attention.vector, attention.source_scores, attention.edge_scores,
                    attention.edges.weight},
                   "attend_backward_targets: an output and an input");
    check_disjoint(dt, coefficients, "attend_backward_targets dt and coefficients");
    check_disjoint({dvector}, {dt, coefficients}, "attend_backward_targets dvector and an output");
    check_disjoint({dedge_weight}, {dt, coefficients, dvector},
                   "attend_backward_targets dedge_weight and an output");
  }
  EdgePass pass(bool host_readable) const {
    return {op, rows, z, 4 + 2 * edge_products(attention), host_readable};
  }
  SpanWork work(bool host_readable) const {
    return edge_pass_work(
        pass(host_readable),
        2 * attention.heads * bytes_of(coefficients.dtype) + score_bytes(attention), {t, dy, dt});
  }
};

// The other half: what reaches z[j, :] for sources j in `sources`, columns of `op`, from the
// targets whose coefficients are there:
//   dz[j - sources.begin, :] = sum over its edges of dropped(alpha) dy_i + the gradient of the
//   score with respect to z_j, of additive with s_j = <vector, z_j>. dz [sources.size(), H C];
//   additive: the gradient of `vector` from these sources is added to dvector; else absent.
struct AttendBackwardSources {
  static constexpr const char* kName = "attend_backward_sources";
  SparseOperator op;
  SourceEdges edges;
  RowRange sources;
  ConstMatrixView z;
  ConstMatrixView t;
  ConstMatrixView dy;
  ConstMatrixView coefficients;
  AttentionSpec attention;
  MatrixView dz;
  MatrixView dvector;

  bool empty() const { return dz.empty(); }
  void check(const BackendTraits& backend) const {
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
    check_disjoint(
        {dz, dvector},
        {z, t, dy, coefficients, attention.vector, attention.source_scores, attention.edges.weight},
        "attend_backward_sources: an output and an input");
    check_disjoint(dvector, dz, "attend_backward_sources dvector and dz");
  }
  EdgePass pass(bool host_readable) const {
    const bool additive = attention.score == AttentionScore::kAdditive;
    return {by_source(op, edges), sources, dy, (additive ? 1 : 2) + edge_products(attention),
            host_readable};
  }
  SpanWork work(bool host_readable) const {
    const bool additive = attention.score == AttentionScore::kAdditive;
    const std::int64_t of_score = additive ? 0 : t.cols * bytes_of(t.dtype);
    return edge_pass_work(pass(host_readable),
                          8 + 2 * attention.heads * bytes_of(coefficients.dtype) + of_score +
                              feature_bytes(attention.edges.weight),
                          {z, z});
  }
};

}  // namespace atl::kernels
