#include "kernels/operation_work.hpp"

#include <algorithm>

namespace atl {

namespace {

double bytes_in(ConstMatrixView view) {
  return static_cast<double>(view.rows * view.cols * bytes_of(view.dtype));
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
  for (const ConstMatrixView view : {dy, activation.y, ConstMatrixView(activation.dx)}) {
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

SpanWork spmm_work(const SparseOperator& op, RowRange rows, ConstMatrixView x, double beta,
                   ConstMatrixView y, bool readable) {
  if (rows.size() == 0) return {};
  const auto all_edges = static_cast<double>(op.col_idx.size());
  const auto count = static_cast<double>(rows.size());
  const double edges = readable
                           ? static_cast<double>(op.row_ptr[static_cast<std::size_t>(rows.end)] -
                                                 op.row_ptr[static_cast<std::size_t>(rows.begin)])
                           : all_edges * count / static_cast<double>(op.rows);
  const double row = static_cast<double>(x.cols * bytes_of(x.dtype));
  const bool self = !op.self_weight.empty();
  const double per_edge = 4 + (op.values.empty() ? 0 : 4);
  const double per_row = 8 + (op.row_scale.empty() ? 0 : 4) + (self ? 4 : 0) +
                         (beta == 0 ? 1 : 2) * static_cast<double>(y.cols * bytes_of(y.dtype));
  const double sources = edges + (self ? count : 0);
  const double factor = op.col_scale.empty() ? 0 : 4;
  SpanWork work;
  work.flops = 2 * edges * static_cast<double>(x.cols);
  work.no_reuse_bytes = edges * per_edge + count * per_row + sources * (row + factor);
  work.bytes = edges * per_edge + count * per_row +
               std::min(sources, static_cast<double>(op.cols)) * (row + factor);
  return work;
}

SpanWork pack_work(ConstMatrixView x, std::size_t rows, std::span<const std::byte> packets) {
  SpanWork work;
  work.bytes = static_cast<double>(rows) * static_cast<double>(x.cols * bytes_of(x.dtype)) +
               static_cast<double>(packets.size());
  work.no_reuse_bytes = work.bytes;
  return work;
}

}  // namespace atl
