// Attention over in-edges and both halves of its gradient: see kernels/attention.hpp.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/attention.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
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
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
