#include "kernels/backend.hpp"

#include <cstdint>

#include "base/error.hpp"
#include "kernels/checks.hpp"
#include "kernels/profiled_operation.hpp"

namespace atl {

namespace {

using namespace checks;

// The operator whose rows are the sources of `op`, without factors.
SparseOperator by_source(const SparseOperator& op, const SourceEdges& edges) {
  SparseOperator reverse;
  reverse.rows = op.cols;
  reverse.cols = op.rows;
  reverse.row_ptr = edges.row_ptr;
  reverse.col_idx = edges.targets;
  return reverse;
}

// Of one edge, in each.
std::int64_t feature_bytes(ConstMatrixView weight) { return weight.rows * bytes_of(DType::kF32); }
std::int64_t score_bytes(const AttentionSpec& attention) {
  const std::int64_t scores =
      attention.edge_scores.absent() ? 0 : attention.heads * bytes_of(attention.edge_scores.dtype);
  return scores + feature_bytes(attention.edges.weight);
}
// That are made with the features of an edge in one pass.
int edge_products(const AttentionSpec& attention) {
  return static_cast<int>(attention.edges.count());
}

}  // namespace

void Backend::spmm(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                   double beta, MatrixView y, const Epilogue& epilogue) {
  ProfiledOperation profiled(profile_of(queue), "spmm",
                             [&] { return spmm_work(op, rows, x, beta, y, host_accessible()); });
  check_view(*this, x, "spmm x");
  check_rows(rows, op.rows, "spmm rows");
  check_shape(*this, x, op.cols, x.cols, x.dtype, "spmm x");
  check_shape(*this, y, op.rows, x.cols, x.dtype, "spmm y");
  if (rows.size() == 0 || x.cols == 0) return;
  check_operator(op);
  ATOLL_ASSERT(beta == 0 || beta == 1, "spmm beta {}", beta);
  check_disjoint(y.rows_in(rows), x, "spmm y and x");
  check_epilogue(*this, epilogue, y.rows_in(rows));
  last_kernel_ = "";
  do_spmm(queue, op, rows, x, beta, y, epilogue);
  if (profiled.recorded() && *last_kernel_ != '\0') {
    const auto label = fmt::format("{} wide by {}", x.cols, last_kernel_);
    profiled.set_what(labels_.insert(label).first->c_str());
  }
}

void Backend::attend(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView z,
                     ConstMatrixView t, const AttentionSpec& attention, MatrixView y,
                     const Epilogue& epilogue) {
  const ProfiledOperation profiled(profile_of(queue), "attend", [&] {
    return attention_work(op, rows, z, 2 + edge_products(attention), score_bytes(attention), {t, y},
                          host_accessible());
  });
  check_view(*this, z, "attend z");
  check_rows(rows, op.rows, "attend rows");
  check_attention(*this, attention, op, z, t);
  check_shape(*this, y, op.rows, z.cols, z.dtype, "attend y");
  if (rows.size() == 0 || z.cols == 0) return;
  for (const ConstMatrixView input : {z, t, attention.vector, attention.source_scores,
                                      attention.edge_scores, attention.edges.weight}) {
    check_disjoint(y.rows_in(rows), input, "attend y and an input");
  }
  check_epilogue(*this, epilogue, y.rows_in(rows));
  do_attend(queue, op, rows, z, t, attention, y, epilogue);
}

void Backend::attend_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                                      ConstMatrixView z, ConstMatrixView t, ConstMatrixView dy,
                                      const AttentionSpec& attention, MatrixView dt,
                                      MatrixView coefficients, MatrixView dvector,
                                      MatrixView dedge_weight) {
  const ProfiledOperation profiled(profile_of(queue), "attend_backward_targets", [&] {
    return attention_work(
        op, rows, z, 4 + 2 * edge_products(attention),
        2 * attention.heads * bytes_of(coefficients.dtype) + score_bytes(attention), {t, dy, dt},
        host_accessible());
  });
  check_view(*this, z, "attend_backward_targets z");
  check_rows(rows, op.rows, "attend_backward_targets rows");
  check_attention(*this, attention, op, z, t);
  check_shape(*this, dy, op.rows, z.cols, z.dtype, "attend_backward_targets dy");
  check_shape(*this, dt, t.rows, t.cols, t.dtype, "attend_backward_targets dt");
  check_coefficients(*this, attention, op, coefficients, parameter_dtype(z.dtype));
  check_dvector(*this, dvector, attention.score == AttentionScore::kGatv2, z);
  check_dedge_weight(*this, dedge_weight, attention);
  if (rows.size() == 0 || z.cols == 0) return;
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
  do_attend_backward_targets(queue, op, rows, z, t, dy, attention, dt, coefficients, dvector,
                             dedge_weight);
}

void Backend::attend_backward_sources(Queue& queue, const SparseOperator& op,
                                      const SourceEdges& edges, RowRange sources, ConstMatrixView z,
                                      ConstMatrixView t, ConstMatrixView dy,
                                      ConstMatrixView coefficients, const AttentionSpec& attention,
                                      MatrixView dz, MatrixView dvector) {
  const bool additive = attention.score == AttentionScore::kAdditive;
  const ProfiledOperation profiled(profile_of(queue), "attend_backward_sources", [&] {
    const std::int64_t of_score = additive ? 0 : t.cols * bytes_of(t.dtype);
    return attention_work(by_source(op, edges), sources, dy,
                          (additive ? 1 : 2) + edge_products(attention),
                          8 + 2 * attention.heads * bytes_of(coefficients.dtype) + of_score +
                              feature_bytes(attention.edges.weight),
                          {z, dy}, host_accessible());
  });
  check_view(*this, z, "attend_backward_sources z");
  check_rows(sources, op.cols, "attend_backward_sources sources");
  check_attention(*this, attention, op, z, t);
  check_source_edges(edges, op);
  check_shape(*this, dy, op.rows, z.cols, z.dtype, "attend_backward_sources dy");
  check_shape(*this, dz, sources.size(), z.cols, z.dtype, "attend_backward_sources dz");
  check_coefficients(*this, attention, op, coefficients, parameter_dtype(z.dtype));
  check_dvector(*this, dvector, additive, z);
  if (dz.empty()) return;
  for (const MatrixView output : {dz, dvector}) {
    for (const ConstMatrixView input : {z, t, dy, coefficients, attention.vector,
                                        attention.source_scores, attention.edges.weight}) {
      check_disjoint(output, input, "attend_backward_sources: an output and an input");
    }
  }
  check_disjoint(dvector, dz, "attend_backward_sources dvector and dz");
  do_attend_backward_sources(queue, op, edges, sources, z, t, dy, coefficients, attention, dz,
                             dvector);
}

void Backend::pool(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                   const PoolSpec& spec, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "pool", [&] {
    return attention_work(op, rows, x, 1, 0, {y}, host_accessible());
  });
  check_operator(op);
  check_rows(rows, op.rows, "pool rows");
  check_shape(*this, x, op.cols, x.cols, x.dtype, "pool x");
  check_shape(*this, y, op.rows, x.cols, x.dtype, "pool y");
  check_disjoint(y.rows_in(rows), x, "pool y and x");
  if (rows.size() == 0 || x.cols == 0) return;
  do_pool(queue, op, rows, x, spec, y);
}

void Backend::pool_backward_targets(Queue& queue, const SparseOperator& op, RowRange rows,
                                    ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                                    const PoolSpec& spec, MatrixView g) {
  const ProfiledOperation profiled(profile_of(queue), "pool_backward_targets", [&] {
    return attention_work(op, rows, x, 1, 0, {y, dy, g}, host_accessible());
  });
  check_operator(op);
  check_rows(rows, op.rows, "pool_backward_targets rows");
  check_shape(*this, x, op.cols, x.cols, x.dtype, "pool_backward_targets x");
  for (const ConstMatrixView view : {y, dy}) {
    check_shape(*this, view, op.rows, x.cols, x.dtype, "pool_backward_targets y or dy");
  }
  check_shape(*this, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_targets g");
  for (const ConstMatrixView input : {x, y, dy}) {
    check_disjoint(g.rows_in(rows), input, "pool_backward_targets g and an input");
  }
  if (rows.size() == 0 || x.cols == 0) return;
  do_pool_backward_targets(queue, op, rows, x, y, dy, spec, g);
}

void Backend::pool_backward_sources(Queue& queue, const SparseOperator& op,
                                    const SourceEdges& edges, RowRange sources, ConstMatrixView x,
                                    ConstMatrixView y, ConstMatrixView g, const PoolSpec& spec,
                                    MatrixView dx) {
  const ProfiledOperation profiled(profile_of(queue), "pool_backward_sources", [&] {
    return attention_work(by_source(op, edges), sources, y, 2, g.cols * bytes_of(g.dtype), {x, dx},
                          host_accessible());
  });
  check_operator(op);
  check_rows(sources, op.cols, "pool_backward_sources sources");
  check_source_edges(edges, op);
  check_shape(*this, x, op.cols, x.cols, x.dtype, "pool_backward_sources x");
  check_shape(*this, y, op.rows, x.cols, x.dtype, "pool_backward_sources y");
  check_shape(*this, g, op.rows, x.cols, parameter_dtype(x.dtype), "pool_backward_sources g");
  check_shape(*this, dx, sources.size(), x.cols, x.dtype, "pool_backward_sources dx");
  for (const ConstMatrixView input : {x, y, g}) {
    check_disjoint(dx, input, "pool_backward_sources dx and an input");
  }
  if (dx.empty()) return;
  do_pool_backward_sources(queue, op, edges, sources, x, y, g, spec, dx);
}

void Backend::pool_slope(Queue& queue, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                         ConstMatrixView y, const PoolSpec& spec, MatrixView slope) {
  const ProfiledOperation profiled(profile_of(queue), "pool_slope", [&] {
    return attention_work(op, rows, x, 2, 0, {y, slope}, host_accessible());
  });
  check_operator(op);
  check_rows(rows, op.rows, "pool_slope rows");
  check_shape(*this, x, op.cols, x.cols, x.dtype, "pool_slope x");
  check_shape(*this, y, op.rows, x.cols, x.dtype, "pool_slope y");
  check_shape(*this, slope, op.rows, x.cols, x.dtype, "pool_slope slope");
  ATOLL_ASSERT(spec.kind != PoolKind::kMaximum, "pool_slope of a maximum");
  for (const ConstMatrixView input : {x, y}) {
    check_disjoint(slope.rows_in(rows), input, "pool_slope slope and an input");
  }
  if (rows.size() == 0 || x.cols == 0) return;
  do_pool_slope(queue, op, rows, x, y, spec, slope);
}

void Backend::aggregate_edges(Queue& queue, const SparseOperator& op, RowRange rows,
                              ConstMatrixView x, const EdgeTerms& terms, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "aggregate_edges", [&] {
    return attention_work(op, rows, x, static_cast<int>(terms.weight.rows) + 1,
                          feature_bytes(terms.weight), {y}, host_accessible());
  });
  check_edge_terms(*this, terms, op, x);
  check_rows(rows, op.rows, "aggregate_edges rows");
  check_shape(*this, y, op.rows, x.cols, x.dtype, "aggregate_edges y");
  if (rows.size() == 0 || x.cols == 0) return;
  for (const ConstMatrixView input : {x, terms.weight, terms.bias}) {
    check_disjoint(y.rows_in(rows), input, "aggregate_edges y and an input");
  }
  do_aggregate_edges(queue, op, rows, x, terms, y);
}

void Backend::aggregate_edges_backward_sources(Queue& queue, const SparseOperator& op,
                                               const SourceEdges& edges, RowRange sources,
                                               ConstMatrixView x, const EdgeTerms& terms,
                                               ConstMatrixView dy, MatrixView dx) {
  const ProfiledOperation profiled(profile_of(queue), "aggregate_edges_backward_sources", [&] {
    return attention_work(by_source(op, edges), sources, dy,
                          static_cast<int>(terms.weight.rows) + 1, 8 + feature_bytes(terms.weight),
                          {x, x}, host_accessible());
  });
  check_edge_terms(*this, terms, op, x);
  check_rows(sources, op.cols, "aggregate_edges_backward_sources sources");
  check_source_edges(edges, op);
  check_shape(*this, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_sources dy");
  check_shape(*this, dx, sources.size(), x.cols, x.dtype, "aggregate_edges_backward_sources dx");
  if (dx.empty()) return;
  for (const ConstMatrixView input : {x, dy, terms.weight, terms.bias}) {
    check_disjoint(dx, input, "aggregate_edges_backward_sources dx and an input");
  }
  do_aggregate_edges_backward_sources(queue, op, edges, sources, x, terms, dy, dx);
}

void Backend::aggregate_edges_backward_terms(Queue& queue, const SparseOperator& op, RowRange rows,
                                             ConstMatrixView x, const EdgeTerms& terms,
                                             ConstMatrixView dy, MatrixView dweight,
                                             MatrixView dbias) {
  const ProfiledOperation profiled(profile_of(queue), "aggregate_edges_backward_terms", [&] {
    return attention_work(op, rows, x, 2 * (static_cast<int>(terms.weight.rows) + 1),
                          feature_bytes(terms.weight), {dy}, host_accessible());
  });
  const DType parameters = parameter_dtype(x.dtype);
  check_edge_terms(*this, terms, op, x);
  check_rows(rows, op.rows, "aggregate_edges_backward_terms rows");
  check_shape(*this, dy, op.rows, x.cols, x.dtype, "aggregate_edges_backward_terms dy");
  check_shape(*this, dweight, terms.weight.rows, x.cols, parameters,
              "aggregate_edges_backward_terms dweight");
  check_shape(*this, dbias, 1, x.cols, parameters, "aggregate_edges_backward_terms dbias");
  if (rows.size() == 0 || x.cols == 0) return;
  for (const MatrixView output : {dweight, dbias}) {
    for (const ConstMatrixView input : {x, dy, terms.weight, terms.bias}) {
      check_disjoint(output, input, "aggregate_edges_backward_terms: an output and an input");
    }
  }
  check_disjoint(dbias, dweight, "aggregate_edges_backward_terms dbias and dweight");
  do_aggregate_edges_backward_terms(queue, op, rows, x, terms, dy, dweight, dbias);
}

void Backend::head_dots(Queue& queue, ConstMatrixView x, ConstMatrixView vector, MatrixView out) {
  const ProfiledOperation profiled(profile_of(queue), "head_dots", [&] {
    return streaming_work({x, out});
  });
  check_view(*this, x, "head_dots x");
  check_shape(*this, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots vector");
  check_shape(*this, out, x.rows, out.cols, parameter_dtype(x.dtype), "head_dots out");
  check_heads(out.cols, x.cols, "head_dots");
  check_disjoint(out, x, "head_dots out and x");
  check_disjoint(out, vector, "head_dots out and vector");
  if (out.empty()) return;
  if (x.cols == 0) return do_fill_zero(queue, out);
  do_head_dots(queue, x, vector, out);
}

void Backend::head_dots_backward(Queue& queue, ConstMatrixView d, ConstMatrixView x,
                                 ConstMatrixView vector, MatrixView dx, MatrixView dvector) {
  const ProfiledOperation profiled(profile_of(queue), "head_dots_backward", [&] {
    return streaming_work({d, x, dx});
  });
  check_view(*this, x, "head_dots_backward x");
  check_shape(*this, d, x.rows, d.cols, parameter_dtype(x.dtype), "head_dots_backward d");
  check_heads(d.cols, x.cols, "head_dots_backward");
  check_shape(*this, vector, 1, x.cols, parameter_dtype(x.dtype), "head_dots_backward vector");
  check_shape(*this, dx, x.rows, x.cols, x.dtype, "head_dots_backward dx");
  check_shape(*this, dvector, 1, x.cols, parameter_dtype(x.dtype), "head_dots_backward dvector");
  for (const MatrixView output : {dx, dvector}) {
    for (const ConstMatrixView input : {d, x, vector}) {
      check_disjoint(output, input, "head_dots_backward: an output and an input");
    }
  }
  check_disjoint(dvector, dx, "head_dots_backward dvector and dx");
  if (!x.empty()) do_head_dots_backward(queue, d, x, vector, dx, dvector);
}

void Backend::head_mean(Queue& queue, ConstMatrixView x, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "head_mean", [&] {
    return streaming_work({x, y});
  });
  check_view(*this, x, "head_mean x");
  check_shape(*this, y, x.rows, y.cols, x.dtype, "head_mean y");
  check_heads(y.cols, x.cols, "head_mean");
  check_disjoint(y, x, "head_mean y and x");
  if (!x.empty()) do_head_mean(queue, x, y);
}

void Backend::head_mean_backward(Queue& queue, ConstMatrixView dy, MatrixView dx) {
  const ProfiledOperation profiled(profile_of(queue), "head_mean_backward", [&] {
    return streaming_work({dy, dx});
  });
  check_view(*this, dy, "head_mean_backward dy");
  check_shape(*this, dx, dy.rows, dx.cols, dy.dtype, "head_mean_backward dx");
  check_heads(dy.cols, dx.cols, "head_mean_backward");
  check_disjoint(dx, dy, "head_mean_backward dx and dy");
  if (!dx.empty()) do_head_mean_backward(queue, dy, dx);
}

void Backend::pair_dots(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                        std::span<const LocalId> second, MatrixView out) {
  const ProfiledOperation profiled(profile_of(queue), "pair_dots", [&] {
    SpanWork work = streaming_work({out, out, out});  // with the lists
    const double elements = static_cast<double>(out.rows) * static_cast<double>(x.cols);
    work.flops += 2 * elements;
    work.bytes += 2 * elements * static_cast<double>(bytes_of(x.dtype));
    return work;
  });
  check_view(*this, x, "pair_dots x");
  check_shape(*this, out, length(first), 1, parameter_dtype(x.dtype), "pair_dots out");
  check_length(length(second), length(first), "pair_dots second");
  if (out.empty()) return;
  check_disjoint(out, x, "pair_dots out and x");
  do_pair_dots(queue, x, first, second, out);
}

void Backend::pair_products(Queue& queue, ConstMatrixView x, std::span<const LocalId> first,
                            ConstMatrixView z, std::span<const LocalId> second, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "pair_products", [&] {
    return streaming_work({y, y, y});
  });
  check_view(*this, x, "pair_products x");
  check_shape(*this, z, z.rows, x.cols, x.dtype, "pair_products z");
  check_shape(*this, y, length(first), x.cols, x.dtype, "pair_products y");
  check_length(length(second), length(first), "pair_products second");
  if (y.empty()) return;
  check_disjoint(y, x, "pair_products y and x");
  check_disjoint(y, z, "pair_products y and z");
  do_pair_products(queue, x, first, z, second, y);
}

void Backend::gather_rows(Queue& queue, ConstMatrixView x, std::span<const LocalId> rows,
                          std::span<const float> scale, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "gather_rows", [&] {
    return streaming_work({y, y});
  });
  check_view(*this, x, "gather_rows x");
  check_shape(*this, y, length(rows), x.cols, x.dtype, "gather_rows y");
  check_optional_length(length(scale), x.rows, "gather_rows scale");
  if (y.empty()) return;
  check_disjoint(y, x, "gather_rows y and x");
  do_gather_rows(queue, x, rows, scale, y);
}

void Backend::quantize_rows(Queue& queue, ConstMatrixView x, const PackList& list,
                            std::span<const float> scale, const RoundingSpec& rounding,
                            std::span<std::byte> packets, const PackTrace& trace) {
  const ProfiledOperation profiled(profile_of(queue), "quantize_rows",
                                   [&] { return pack_work(x, list.rows.size(), packets); });
  check_view(*this, x, "quantize_rows x");
  check_wire_storage(x, "quantize_rows x");
  check_length(length(list.first), length(list.rows) + 1, "quantize_rows first");
  check_length(length(list.bits), length(list.offset), "quantize_rows bits");
  check_optional_length(length(scale), x.rows, "quantize_rows scale");
  check_length(length(rounding.row_ids), x.rows, "quantize_rows row_ids");
  check_length(length(trace.range), length(list.rows), "quantize_rows range");
  check_length(length(trace.variance), length(list.bits), "quantize_rows variance");
  check_length(length(trace.bad), 1, "quantize_rows bad");
  check_packets(packets, x, "quantize_rows packets");
  if (list.rows.empty() || x.cols == 0) return;
  do_quantize_rows(queue, x, list, scale, rounding, packets, trace);
}

void Backend::dequantize_rows(Queue& queue, std::span<const std::byte> packets,
                              const UnpackList& list, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "dequantize_rows",
                                   [&] { return pack_work(y, list.rows.size(), packets); });
  check_view(*this, y, "dequantize_rows y");
  check_wire_storage(y, "dequantize_rows y");
  check_length(length(list.offset), length(list.rows), "dequantize_rows offset");
  check_length(length(list.bits), length(list.rows), "dequantize_rows bits");
  check_packets(packets, y, "dequantize_rows packets");
  if (list.rows.empty() || y.cols == 0) return;
  do_dequantize_rows(queue, packets, list, y);
}

void Backend::fill_zero(Queue& queue, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "fill_zero",
                                   [&] { return streaming_work({y}); });
  check_view(*this, y, "fill_zero y");
  if (!y.empty()) do_fill_zero(queue, y);
}

void Backend::convert(Queue& queue, ConstMatrixView x, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "convert", [&] {
    return streaming_work({x, y});
  });
  check_view(*this, x, "convert x");
  check_shape(*this, y, x.rows, x.cols, y.dtype, "convert y");
  check_disjoint(y, x, "convert y and x");
  if (!x.empty()) do_convert(queue, x, y);
}

void Backend::gemm(Queue& queue, Transpose transpose_a, ConstMatrixView a, Transpose transpose_b,
                   ConstMatrixView b, double beta, MatrixView c, const Epilogue& epilogue) {
  const ProfiledOperation profiled(profile_of(queue), "gemm",
                                   [&] { return gemm_work(transpose_a, a, b, beta, c); });
  check_view(*this, a, "gemm a");
  const bool swap_a = transpose_a == Transpose::kYes;
  const bool swap_b = transpose_b == Transpose::kYes;
  const std::int64_t inner = swap_a ? a.rows : a.cols;
  const std::int64_t cols = swap_b ? b.rows : b.cols;
  check_shape(*this, b, swap_b ? cols : inner, swap_b ? inner : cols, a.dtype, "gemm b");
  const DType wide = parameter_dtype(a.dtype);
  check_shape(*this, c, swap_a ? a.cols : a.rows, cols, c.dtype == wide ? wide : a.dtype, "gemm c");
  ATOLL_ASSERT(beta == 0 || beta == 1, "gemm beta {}", beta);
  check_disjoint(c, a, "gemm c and a");
  check_disjoint(c, b, "gemm c and b");
  if (c.empty()) return;
  check_epilogue(*this, epilogue, c);
  if (inner == 0) {
    if (beta == 0) do_fill_zero(queue, c);
    if (!epilogue.identity()) do_apply_epilogue(queue, c, epilogue, c);
    return;
  }
  do_gemm(queue, transpose_a, a, transpose_b, b, beta, c, epilogue);
}

void Backend::apply_epilogue(Queue& queue, ConstMatrixView x, const Epilogue& epilogue,
                             MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "apply_epilogue", [&] {
    return streaming_work({x, y});
  });
  check_view(*this, x, "epilogue x");
  check_shape(*this, y, x.rows, x.cols, x.dtype, "epilogue y");
  check_same_or_disjoint(y, x, "epilogue y and x");
  if (x.empty()) return;
  check_epilogue(*this, epilogue, y);
  do_apply_epilogue(queue, x, epilogue, y);
}

void Backend::combine(Queue& queue, float a, ConstMatrixView x, float b, ConstMatrixView z,
                      MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "combine", [&] {
    return streaming_work({x, z, y});
  });
  check_view(*this, x, "combine x");
  check_shape(*this, z, x.rows, x.cols, x.dtype, "combine z");
  check_shape(*this, y, x.rows, x.cols, x.dtype, "combine y");
  check_same_or_disjoint(y, x, "combine y and x");
  check_same_or_disjoint(y, z, "combine y and z");
  if (!x.empty()) do_combine(queue, a, x, b, z, y);
}

void Backend::scale(Queue& queue, ConstMatrixView x, ConstMatrixView factor, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "scale", [&] {
    return streaming_work({x, y});
  });
  check_view(*this, x, "scale x");
  check_shape(*this, factor, 1, 1, parameter_dtype(x.dtype), "scale factor");
  check_shape(*this, y, x.rows, x.cols, x.dtype, "scale y");
  check_same_or_disjoint(y, x, "scale y and x");
  check_disjoint(y, factor, "scale y and factor");
  if (!x.empty()) do_scale(queue, x, factor, y);
}

void Backend::dot(Queue& queue, ConstMatrixView x, ConstMatrixView z, bool accumulate,
                  MatrixView out) {
  const ProfiledOperation profiled(profile_of(queue), "dot", [&] {
    return streaming_work({x, z});
  });
  check_view(*this, x, "dot x");
  check_shape(*this, z, x.rows, x.cols, x.dtype, "dot z");
  ATOLL_ASSERT(out.rows == 1 && out.cols == 1 &&
                   (out.dtype == DType::kF64 || out.dtype == parameter_dtype(x.dtype)),
               "dot out of {} x {}, dtype {}", out.rows, out.cols, static_cast<int>(out.dtype));
  check_disjoint(out, x, "dot out and x");
  check_disjoint(out, z, "dot out and z");
  if (x.empty()) {
    if (!accumulate) do_fill_zero(queue, out);
    return;
  }
  // A long row is cut, so that threads can share it.
  constexpr std::int64_t kCols = 256;
  const std::int64_t whole = x.rows == 1 ? x.cols / kCols * kCols : 0;
  if (whole == 0) return do_dot(queue, x, z, accumulate, out);
  const auto cut = [&](ConstMatrixView view, std::int64_t first, std::int64_t rows,
                       std::int64_t cols) -> ConstMatrixView {
    const auto* data = static_cast<const std::byte*>(view.data) + first * bytes_of(view.dtype);
    return {data, rows, cols, cols, view.dtype};
  };
  const std::int64_t rows = whole / kCols;
  do_dot(queue, cut(x, 0, rows, kCols), cut(z, 0, rows, kCols), accumulate, out);
  if (whole == x.cols) return;
  const std::int64_t rest = x.cols - whole;
  do_dot(queue, cut(x, whole, 1, rest), cut(z, whole, 1, rest), /*accumulate=*/true, out);
}

void Backend::maximum(Queue& queue, ConstMatrixView x, ConstMatrixView z, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "maximum", [&] {
    return streaming_work({x, z, y});
  });
  check_view(*this, x, "maximum x");
  check_shape(*this, z, x.rows, x.cols, x.dtype, "maximum z");
  check_shape(*this, y, x.rows, x.cols, x.dtype, "maximum y");
  check_same_or_disjoint(y, x, "maximum y and x");
  check_same_or_disjoint(y, z, "maximum y and z");
  if (!x.empty()) do_maximum(queue, x, z, y);
}

void Backend::maximum_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                               ConstMatrixView z, MaximumOf of, MatrixView dx) {
  const ProfiledOperation profiled(profile_of(queue), "maximum_backward", [&] {
    return streaming_work({dy, x, z, dx});
  });
  check_view(*this, dy, "maximum_backward dy");
  check_shape(*this, x, dy.rows, dy.cols, dy.dtype, "maximum_backward x");
  check_shape(*this, z, dy.rows, dy.cols, dy.dtype, "maximum_backward z");
  check_shape(*this, dx, dy.rows, dy.cols, dy.dtype, "maximum_backward dx");
  check_same_or_disjoint(dx, dy, "maximum_backward dx and dy");
  check_disjoint(dx, x, "maximum_backward dx and x");
  check_disjoint(dx, z, "maximum_backward dx and z");
  if (!dy.empty()) do_maximum_backward(queue, dy, x, z, of, dx);
}

void Backend::activation_backward(Queue& queue, ConstMatrixView dy,
                                  const ActivationGradient& activation) {
  const ProfiledOperation profiled(profile_of(queue), "activation_backward",
                                   [&] { return gradient_work(dy, activation); });
  check_view(*this, dy, "activation_backward dy");
  ATOLL_ASSERT(!activation.absent(), "activation_backward without an activation");
  check_activation(*this, activation, dy);
  if (!dy.empty()) do_activation_backward(queue, dy, activation);
}

void Backend::column_sums(Queue& queue, ConstMatrixView x, bool accumulate, MatrixView out,
                          const ActivationGradient& activation) {
  const ProfiledOperation profiled(profile_of(queue),
                                   activation.absent() ? "column_sums" : "relu_dropout_column_sums",
                                   [&] { return gradient_work(x, activation); });
  check_view(*this, x, "column_sums x");
  check_shape(*this, out, 1, x.cols, parameter_dtype(x.dtype), "column_sums out");
  check_disjoint(out, x, "column_sums out and x");
  check_activation(*this, activation, x);
  check_sums_through(activation);
  check_disjoint(out, activation.dx, "column_sums out and dx");
  if (x.cols == 0) return;
  if (x.rows > 0) return do_column_sums(queue, x, accumulate, out, activation);
  if (!accumulate) do_fill_zero(queue, out);
}

void Backend::sum_parts(Queue& queue, ConstMatrixView parts, MatrixView out) {
  const ProfiledOperation profiled(profile_of(queue), "sum_parts", [&] {
    return streaming_work({parts, out});
  });
  for (const ConstMatrixView view : {parts, ConstMatrixView(out)}) {
    ATOLL_ASSERT(view.dtype == DType::kF32 || view.dtype == DType::kF64, "sum_parts dtype {}",
                 static_cast<int>(view.dtype));
  }
  ATOLL_ASSERT(parts.rows >= 1 && out.rows == 1 && out.cols == parts.cols &&
                   out.dtype == parts.dtype && parts.stride >= parts.cols,
               "sum_parts: {} x {} into {} x {}", parts.rows, parts.cols, out.rows, out.cols);
  check_disjoint(out, parts, "sum_parts out and parts");
  if (out.cols > 0) do_sum_parts(queue, parts, out);
}

void Backend::batch_norm_moments(Queue& queue, ConstMatrixView x, std::span<const double> shift,
                                 std::span<double> sums) {
  const ProfiledOperation profiled(profile_of(queue), "batch_norm_moments",
                                   [&] { return streaming_work({x}); });
  check_view(*this, x, "batch_norm_moments x");
  check_length(length(shift), x.cols, "batch_norm_moments shift");
  check_length(length(sums), 2 * x.cols, "batch_norm_moments sums");
  if (x.cols == 0) return;
  if (x.rows > 0) return do_batch_norm_moments(queue, x, shift, sums);
  do_fill_zero(queue, eight_byte_view(sums));
}

void Backend::batch_norm_statistics(Queue& queue, std::span<const double> sums, std::int64_t count,
                                    double momentum, double epsilon, std::span<double> running_mean,
                                    std::span<double> running_variance, std::span<double> mean,
                                    std::span<double> inv_std) {
  const ProfiledOperation profiled(profile_of(queue), "batch_norm_statistics",
                                   [&] { return SpanWork{}; });
  const std::int64_t columns = length(mean);
  check_length(length(sums), 2 * columns, "batch_norm_statistics sums");
  check_length(length(running_mean), columns, "batch_norm_statistics running_mean");
  check_length(length(running_variance), columns, "batch_norm_statistics running_variance");
  check_length(length(inv_std), columns, "batch_norm_statistics inv_std");
  ATOLL_ASSERT(count >= 1 && epsilon > 0, "batch_norm_statistics: {} rows, epsilon {}", count,
               epsilon);
  if (columns == 0) return;
  do_batch_norm_statistics(queue, sums, count, momentum, epsilon, running_mean, running_variance,
                           mean, inv_std);
}

void Backend::batch_norm_gradient_sums(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                       std::span<const double> mean,
                                       std::span<const double> inv_std, std::span<double> sums,
                                       MatrixView dgamma, MatrixView dbeta,
                                       const ActivationGradient& activation) {
  const ProfiledOperation profiled(
      profile_of(queue),
      activation.absent() ? "batch_norm_gradient_sums" : "relu_dropout_gradient_sums",
      [&] { return gradient_work(dy, activation, {x}); });
  check_view(*this, x, "batch_norm_gradient_sums x");
  check_shape(*this, dy, x.rows, x.cols, x.dtype, "batch_norm_gradient_sums dy");
  check_length(length(mean), x.cols, "batch_norm_gradient_sums mean");
  check_length(length(inv_std), x.cols, "batch_norm_gradient_sums inv_std");
  check_length(length(sums), 2 * x.cols, "batch_norm_gradient_sums sums");
  for (const MatrixView gradient : {dgamma, dbeta}) {
    check_shape(*this, gradient, 1, x.cols, parameter_dtype(x.dtype),
                "batch_norm_gradient_sums dgamma or dbeta");
  }
  check_disjoint(dgamma, dbeta, "batch_norm_gradient_sums dgamma and dbeta");
  check_activation(*this, activation, dy);
  check_sums_through(activation);
  check_disjoint(activation.dx, x, "batch_norm_gradient_sums dx and x");
  if (x.cols == 0) return;
  if (x.rows > 0) {
    return do_batch_norm_gradient_sums(queue, dy, x, mean, inv_std, sums, dgamma, dbeta,
                                       activation);
  }
  do_fill_zero(queue, eight_byte_view(sums));
}

void Backend::batch_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                  std::span<const double> mean, std::span<const double> inv_std,
                                  ConstMatrixView gamma, std::span<const double> sums,
                                  std::int64_t count, MatrixView dx) {
  const ProfiledOperation profiled(profile_of(queue), "batch_norm_backward", [&] {
    return streaming_work({x, dy, dx});
  });
  check_view(*this, x, "batch_norm_backward x");
  check_shape(*this, dy, x.rows, x.cols, x.dtype, "batch_norm_backward dy");
  check_shape(*this, dx, x.rows, x.cols, x.dtype, "batch_norm_backward dx");
  check_shape(*this, gamma, 1, x.cols, parameter_dtype(x.dtype), "batch_norm_backward gamma");
  check_length(length(mean), x.cols, "batch_norm_backward mean");
  check_length(length(inv_std), x.cols, "batch_norm_backward inv_std");
  check_length(length(sums), 2 * x.cols, "batch_norm_backward sums");
  ATOLL_ASSERT(count >= x.rows, "batch_norm_backward: {} of {} rows", x.rows, count);
  check_disjoint(dx, x, "batch_norm_backward dx and x");
  check_disjoint(dx, gamma, "batch_norm_backward dx and gamma");
  check_same_or_disjoint(dx, dy, "batch_norm_backward dx and dy");
  if (x.empty()) return;
  do_batch_norm_backward(queue, dy, x, mean, inv_std, gamma, sums, count, dx);
}

void Backend::inverse_std(Queue& queue, std::span<const double> variance, double epsilon,
                          std::span<double> out) {
  const ProfiledOperation profiled(profile_of(queue), "inverse_std", [&] { return SpanWork{}; });
  check_length(length(out), length(variance), "inverse_std out");
  ATOLL_ASSERT(epsilon > 0, "inverse_std epsilon {}", epsilon);
  if (!out.empty()) do_inverse_std(queue, variance, epsilon, out);
}

void Backend::layer_norm(Queue& queue, ConstMatrixView x, ConstMatrixView gamma,
                         ConstMatrixView beta, double epsilon, MatrixView y) {
  const ProfiledOperation profiled(profile_of(queue), "layer_norm", [&] {
    return streaming_work({x, y});
  });
  check_view(*this, x, "layer_norm x");
  check_shape(*this, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm gamma");
  check_shape(*this, beta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm beta");
  check_shape(*this, y, x.rows, x.cols, x.dtype, "layer_norm y");
  check_disjoint(y, x, "layer_norm y and x");
  check_disjoint(y, gamma, "layer_norm y and gamma");
  check_disjoint(y, beta, "layer_norm y and beta");
  ATOLL_ASSERT(epsilon > 0, "layer_norm epsilon {}", epsilon);
  if (!x.empty()) do_layer_norm(queue, x, gamma, beta, epsilon, y);
}

void Backend::layer_norm_backward(Queue& queue, ConstMatrixView dy, ConstMatrixView x,
                                  ConstMatrixView gamma, double epsilon, MatrixView dx,
                                  MatrixView dgamma, MatrixView dbeta) {
  const ProfiledOperation profiled(profile_of(queue), "layer_norm_backward", [&] {
    return streaming_work({x, dy, dx});
  });
  check_view(*this, x, "layer_norm_backward x");
  check_shape(*this, dy, x.rows, x.cols, x.dtype, "layer_norm_backward dy");
  check_shape(*this, dx, x.rows, x.cols, x.dtype, "layer_norm_backward dx");
  check_shape(*this, gamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward gamma");
  check_shape(*this, dgamma, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dgamma");
  check_shape(*this, dbeta, 1, x.cols, parameter_dtype(x.dtype), "layer_norm_backward dbeta");
  check_disjoint(dx, x, "layer_norm_backward dx and x");
  check_disjoint(dx, gamma, "layer_norm_backward dx and gamma");
  check_same_or_disjoint(dx, dy, "layer_norm_backward dx and dy");
  check_disjoint(dgamma, dbeta, "layer_norm_backward dgamma and dbeta");
  ATOLL_ASSERT(epsilon > 0, "layer_norm_backward epsilon {}", epsilon);
  if (x.empty()) return;
  do_layer_norm_backward(queue, dy, x, gamma, epsilon, dx, dgamma, dbeta);
}

void Backend::softmax_cross_entropy(Queue& queue, ConstMatrixView logits,
                                    std::span<const std::int32_t> labels,
                                    std::span<const LocalId> rows, double grad_scale,
                                    MatrixView dlogits, std::span<double> loss_sum,
                                    const SoftmaxTarget& target) {
  const ProfiledOperation profiled(profile_of(queue), "softmax_cross_entropy", [&] {
    return streaming_work({logits, dlogits});
  });
  check_view(*this, logits, "softmax_cross_entropy logits");
  check_shape(*this, dlogits, logits.rows, logits.cols, logits.dtype, "softmax dlogits");
  check_length(length(labels), logits.rows, "softmax_cross_entropy labels");
  check_length(length(loss_sum), 1, "softmax_cross_entropy loss_sum");
  check_disjoint(dlogits, logits, "softmax_cross_entropy dlogits and logits");
  if (!target.class_weights.empty()) {
    check_length(length(target.class_weights), logits.cols, "softmax_cross_entropy weights");
  }
  ATOLL_ASSERT(0 <= target.smoothing && target.smoothing < 1, "softmax_cross_entropy smoothing {}",
               target.smoothing);
  ATOLL_ASSERT(target.focus == 0 || (target.focus > 0 && target.smoothing == 0),
               "softmax_cross_entropy focus {} with smoothing {}", target.focus, target.smoothing);
  if (!rows.empty() && logits.cols > 0) {
    if (!target.label_only()) {
      return do_spread_cross_entropy(queue, logits, labels, rows, grad_scale, dlogits, loss_sum,
                                     target);
    }
    return do_softmax_cross_entropy(queue, logits, labels, rows, grad_scale, dlogits, loss_sum);
  }
  if (!dlogits.empty()) do_fill_zero(queue, dlogits);
  do_fill_zero(queue, eight_byte_view(loss_sum));
}

void Backend::sigmoid_cross_entropy(Queue& queue, ConstMatrixView logits,
                                    std::span<const std::uint8_t> targets,
                                    std::span<const LocalId> rows, double grad_scale,
                                    MatrixView dlogits, std::span<double> loss_sum,
                                    const SigmoidTarget& target) {
  const ProfiledOperation profiled(profile_of(queue), "sigmoid_cross_entropy", [&] {
    return streaming_work({logits, dlogits});
  });
  check_view(*this, logits, "sigmoid_cross_entropy logits");
  check_shape(*this, dlogits, logits.rows, logits.cols, logits.dtype, "sigmoid dlogits");
  check_length(length(targets), logits.rows * logits.cols, "sigmoid_cross_entropy targets");
  check_length(length(loss_sum), 1, "sigmoid_cross_entropy loss_sum");
  check_disjoint(dlogits, logits, "sigmoid_cross_entropy dlogits and logits");
  if (!target.weights.empty()) {
    check_length(length(target.weights), 2 * logits.cols, "sigmoid_cross_entropy weights");
  }
  ATOLL_ASSERT(target.focus >= 0, "sigmoid_cross_entropy focus {}", target.focus);
  if (!rows.empty() && logits.cols > 0) {
    if (!target.target_only()) {
      return do_weighted_sigmoid(queue, logits, targets, rows, grad_scale, dlogits, loss_sum,
                                 target);
    }
    return do_sigmoid_cross_entropy(queue, logits, targets, rows, grad_scale, dlogits, loss_sum);
  }
  if (!dlogits.empty()) do_fill_zero(queue, dlogits);
  do_fill_zero(queue, eight_byte_view(loss_sum));
}

void Backend::error_loss(Queue& queue, ErrorMeasure measure, ConstMatrixView values,
                         std::span<const float> targets, std::span<const LocalId> rows,
                         double grad_scale, MatrixView dvalues, std::span<double> loss_sum) {
  const ProfiledOperation profiled(profile_of(queue), "error_loss", [&] {
    return streaming_work({values, dvalues});
  });
  check_view(*this, values, "error_loss values");
  check_shape(*this, dvalues, values.rows, values.cols, values.dtype, "error_loss dvalues");
  check_length(length(targets), values.rows * values.cols, "error_loss targets");
  check_length(length(loss_sum), 1, "error_loss loss_sum");
  check_disjoint(dvalues, values, "error_loss dvalues and values");
  if (!rows.empty() && values.cols > 0) {
    return do_error_loss(queue, measure, values, targets, rows, grad_scale, dvalues, loss_sum);
  }
  if (!dvalues.empty()) do_fill_zero(queue, dvalues);
  do_fill_zero(queue, eight_byte_view(loss_sum));
}

void Backend::count_correct(Queue& queue, ConstMatrixView logits,
                            std::span<const std::int32_t> labels,
                            std::span<const std::uint8_t> split, std::span<std::int64_t> counts) {
  const ProfiledOperation profiled(profile_of(queue), "count_correct",
                                   [&] { return streaming_work({logits}); });
  check_view(*this, logits, "count_correct logits");
  check_length(length(labels), logits.rows, "count_correct labels");
  check_length(length(split), logits.rows, "count_correct split");
  check_length(length(counts), 6, "count_correct counts");
  if (!logits.empty()) return do_count_correct(queue, logits, labels, split, counts);
  do_fill_zero(queue, eight_byte_view(counts));
}

void Backend::count_multi_label(Queue& queue, ConstMatrixView logits,
                                std::span<const std::uint8_t> targets,
                                std::span<const std::uint8_t> split,
                                std::span<std::int64_t> counts) {
  const ProfiledOperation profiled(profile_of(queue), "count_multi_label",
                                   [&] { return streaming_work({logits}); });
  check_view(*this, logits, "count_multi_label logits");
  check_length(length(targets), logits.rows * logits.cols, "count_multi_label targets");
  check_length(length(split), logits.rows, "count_multi_label split");
  check_length(length(counts), 9, "count_multi_label counts");
  if (!logits.empty()) return do_count_multi_label(queue, logits, targets, split, counts);
  do_fill_zero(queue, eight_byte_view(counts));
}

void Backend::adam_step(Queue& queue, const AdamSpec& spec, MatrixView parameters,
                        ConstMatrixView gradients, MatrixView m, MatrixView v) {
  const ProfiledOperation profiled(profile_of(queue), "adam_step", [&] {
    return streaming_work({parameters, gradients, m, v, parameters, m, v});
  });
  check_view(*this, parameters, "adam_step parameters");
  const std::int64_t n = parameters.cols;
  for (const ConstMatrixView array :
       {ConstMatrixView(parameters), gradients, ConstMatrixView(m), ConstMatrixView(v)}) {
    check_shape(*this, array, 1, n, parameters.dtype, "adam_step arrays");
  }
  check_disjoint(parameters, gradients, "adam_step parameters and gradients");
  check_disjoint(m, gradients, "adam_step m and gradients");
  check_disjoint(v, gradients, "adam_step v and gradients");
  check_disjoint(m, v, "adam_step m and v");
  check_disjoint(parameters, m, "adam_step parameters and m");
  check_disjoint(parameters, v, "adam_step parameters and v");
  ATOLL_ASSERT(parameters.dtype != DType::kBf16 && spec.state != nullptr, "adam_step spec");
  std::int64_t covered = 0;
  for (const AdamSegment& segment : spec.segments) {
    ATOLL_ASSERT(segment.begin == covered && segment.end >= segment.begin,
                 "adam_step segment {}..{} after {}", segment.begin, segment.end, covered);
    covered = segment.end;
  }
  ATOLL_ASSERT(covered == n, "adam_step segments cover {} of {}", covered, n);
  if (n > 0) do_adam_step(queue, spec, parameters, gradients, m, v);
}

}  // namespace atl
