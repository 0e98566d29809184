#include "kernels/operation_work.hpp"

#include <algorithm>

namespace atl {

namespace {

double bytes_in(ConstMatrixView view) {
  return static_cast<double>(view.rows * view.cols * bytes_of(view.dtype));
}

// Evenly spread over the rows where the host may not read which have how many.
double edges_of(const SparseOperator& op, RowRange rows, bool readable) {
  if (op.counted_edges >= 0) return static_cast<double>(op.counted_edges);
  if (!readable) {
    return static_cast<double>(op.col_idx.size()) * static_cast<double>(rows.size()) /
           static_cast<double>(op.rows);
  }
  return static_cast<double>(op.row_ptr[static_cast<std::size_t>(rows.end)] -
                             op.row_ptr[static_cast<std::size_t>(rows.begin)]);
}

}  // namespace

SpanWork streaming_work(std::initializer_list<ConstMatrixView> views) {
  SpanWork work;
  for (const ConstMatrixView& view : views) work.bytes += bytes_in(view);
  work.no_reuse_bytes = work.bytes;
  return work;
}

SpanWork gradient_work(ConstMatrixView dy, const ActivationGradient& activation,
                       std::initializer_list<ConstMatrixView> beside) {
  SpanWork work = streaming_work(beside);
  for (const ConstMatrixView view : {dy, activation.from, ConstMatrixView(activation.dx)}) {
    work.bytes += bytes_in(view);
  }
  work.no_reuse_bytes = work.bytes;
  return work;
}

SpanWork gemm_work(Transpose transpose_a, ConstMatrixView a, ConstMatrixView b, double beta,
                   ConstMatrixView c) {
  SpanWork work = streaming_work({a, b, c});
  if (beta != 0) work.bytes += bytes_in(c);
  work.no_reuse_bytes = work.bytes;
  const std::int64_t inner = transpose_a == Transpose::kYes ? a.rows : a.cols;
  work.flops =
      2.0 * static_cast<double>(c.rows) * static_cast<double>(c.cols) * static_cast<double>(inner);
  return work;
}

SpanWork spmm_work(const SparseRows& rows, ConstMatrixView x, double beta, ConstMatrixView y) {
  if (rows.rows == 0) return {};
  const auto row = static_cast<double>(x.cols * bytes_of(x.dtype));
  const double per_edge = 4 + (rows.has_values ? 4 : 0);
  const double per_row = 8 + (rows.has_row_scale ? 4 : 0) + (rows.has_self_weight ? 4 : 0) +
                         (beta == 0 ? 1 : 2) * static_cast<double>(y.cols * bytes_of(y.dtype));
  const double sources = rows.edges + (rows.has_self_weight ? rows.rows : 0);
  const double factor = rows.has_col_scale ? 4 : 0;
  const double structure = rows.edges * per_edge + rows.rows * per_row;
  SpanWork work;
  work.flops = 2 * rows.edges * static_cast<double>(x.cols);
  work.no_reuse_bytes = structure + sources * (row + factor);
  work.bytes = structure + std::min(sources, static_cast<double>(rows.columns)) * (row + factor);
  return work;
}

SpanWork spmm_work(const SparseOperator& op, RowRange rows, ConstMatrixView x, double beta,
                   ConstMatrixView y, bool readable) {
  if (rows.size() == 0) return {};
  return spmm_work({.rows = static_cast<double>(rows.size()),
                    .edges = edges_of(op, rows, readable),
                    .columns = op.cols,
                    .has_values = !op.values.empty(),
                    .has_row_scale = !op.row_scale.empty(),
                    .has_col_scale = !op.col_scale.empty(),
                    .has_self_weight = !op.self_weight.empty()},
                   x, beta, y);
}

EdgePass::EdgePass(const SparseOperator& op, RowRange range, ConstMatrixView x_, int products_,
                   bool readable)
    : of_rows(static_cast<double>(op.rows)), x(x_), products(products_) {
  if (range.size() == 0) return;
  rows = {.rows = static_cast<double>(range.size()),
          .edges = edges_of(op, range, readable),
          .columns = op.cols};
}

SpanWork edge_pass_work(const EdgePass& pass, std::int64_t edge_bytes,
                        std::initializer_list<ConstMatrixView> beside) {
  if (pass.rows.rows == 0) return {};
  const auto rows = static_cast<std::int64_t>(pass.rows.rows);
  SpanWork work = spmm_work(pass.rows, pass.x, 0, {nullptr, rows, 0, 0, pass.x.dtype});
  work.flops *= pass.products;
  double bytes = pass.rows.edges * static_cast<double>(edge_bytes);
  for (const ConstMatrixView& view : beside) {
    bytes += bytes_in(view) / pass.of_rows * pass.rows.rows;
  }
  work.bytes += bytes;
  work.no_reuse_bytes += bytes;
  return work;
}

SpanWork pack_work(ConstMatrixView x, std::size_t rows, std::span<const std::byte> packets) {
  SpanWork work;
  work.bytes = static_cast<double>(rows) * static_cast<double>(x.cols * bytes_of(x.dtype)) +
               static_cast<double>(packets.size());
  work.no_reuse_bytes = work.bytes;
  return work;
}

SparseOperator by_source(const SparseOperator& op, const SourceEdges& edges) {
  SparseOperator reverse;
  reverse.rows = op.cols;
  reverse.cols = op.rows;
  reverse.row_ptr = edges.row_ptr;
  reverse.col_idx = edges.targets;
  return reverse;
}

std::int64_t feature_bytes(ConstMatrixView weight) { return weight.rows * bytes_of(DType::kF32); }

}  // namespace atl
