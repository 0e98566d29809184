// The least work of operations of a backend: products to compute and bytes to move.
#pragma once

#include <initializer_list>
#include <span>

#include "base/span_work.hpp"
#include "kernels/views.hpp"

namespace atl {

// Every matrix once; a matrix that is read and written is listed twice.
SpanWork streaming_work(std::initializer_list<ConstMatrixView> views);

// A sum of gradients dy: as they are, or through `activation` on the way; `beside`: what else is
// read.
SpanWork gradient_work(ConstMatrixView dy, const ActivationGradient& activation,
                       std::initializer_list<ConstMatrixView> beside = {});

// op(a) op(b), with c read too unless beta is 0.
SpanWork gemm_work(Transpose transpose_a, ConstMatrixView a, ConstMatrixView b, double beta,
                   ConstMatrixView c);

// Rows of a sparse operator, by what they hold.
struct SparseRows {
  double rows = 0;
  double edges = 0;          // stored entries
  std::int64_t columns = 0;  // of the operator: rows of x that may be read
  bool has_values = false;   // a factor per edge
  bool has_row_scale = false;
  bool has_col_scale = false;
  bool has_self_weight = false;
};

// Per edge an index, its factors and a row of x; per row its offset, its factors, its own row of x
// if that counts, and a row of y. Without reuse every edge reads memory; at least, every row of x
// that may be needed is read once.
SpanWork spmm_work(const SparseRows& rows, ConstMatrixView x, double beta, ConstMatrixView y);
// `readable`: the host may read op.row_ptr; else edges are taken to be spread evenly over rows.
SpanWork spmm_work(const SparseOperator& op, RowRange rows, ConstMatrixView x, double beta,
                   ConstMatrixView y, bool readable);

// A pass along the edges of some rows, in which so many sums or inner products of all columns of x
// are made per edge.
struct EdgePass {
  // `readable`: as in spmm_work.
  EdgePass(const SparseOperator& op, RowRange range, ConstMatrixView x_, int products_,
           bool readable);

  SparseRows rows;
  double of_rows = 0;  // of the operator
  ConstMatrixView x;
  int products = 1;
};
// Per edge an index, `edge_bytes` and a row of x; per row its offset and its share of `beside`,
// matrices with a row for each of the operator's. What has rows for the pass alone, such as
// gradients of sources, is counted by a matrix of the same columns that has them all.
SpanWork edge_pass_work(const EdgePass& pass, std::int64_t edge_bytes,
                        std::initializer_list<ConstMatrixView> beside);

// The operator whose rows are the sources of `op`, without factors.
SparseOperator by_source(const SparseOperator& op, const SourceEdges& edges);

// Bytes that the weight of features of edges reads along one edge: a feature each.
std::int64_t feature_bytes(ConstMatrixView weight);

// `rows` rows like those of x read or written, and the packets.
SpanWork pack_work(ConstMatrixView x, std::size_t rows, std::span<const std::byte> packets);

}  // namespace atl
