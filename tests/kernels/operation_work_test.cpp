#include "kernels/operation_work.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/ceilings.hpp"
#include "kernels/operations/list.hpp"
#include "kernels/registry.hpp"

namespace atl {
namespace {

ConstMatrixView shape(std::int64_t rows, std::int64_t cols, DType dtype = DType::kF32) {
  return {nullptr, rows, cols, cols, dtype};
}

TEST(OperationWork, StreamsEveryMatrixOnce) {
  const SpanWork work = streaming_work({shape(10, 4), shape(10, 4, DType::kBf16)});
  EXPECT_EQ(work.bytes, 160 + 80);
  EXPECT_EQ(work.no_reuse_bytes, work.bytes);
  EXPECT_EQ(work.flops, 0);
}

TEST(OperationWork, OfSumsThroughAnActivation) {
  ConstMatrixView y = shape(10, 4);
  const MatrixView dx{nullptr, 10, 4, 4, DType::kF32};
  EXPECT_EQ(gradient_work(shape(10, 4), {}).bytes, 160);
  EXPECT_EQ(gradient_work(shape(10, 4), {y, dx}).bytes, 3 * 160);
  const SpanWork beside = gradient_work(shape(10, 4), {y, dx}, {shape(10, 4)});
  EXPECT_EQ(beside.bytes, 4 * 160);
  EXPECT_EQ(beside.no_reuse_bytes, beside.bytes);
}

TEST(OperationWork, OfProducts) {
  // [10, 4] x [4, 6], and [10, 4]^T x [10, 6] added to [4, 6].
  const SpanWork forward = gemm_work(Transpose::kNo, shape(10, 4), shape(4, 6), 0, shape(10, 6));
  EXPECT_EQ(forward.flops, 2 * 10 * 4 * 6);
  EXPECT_EQ(forward.bytes, 4 * (40 + 24 + 60));
  const SpanWork gradient = gemm_work(Transpose::kYes, shape(10, 4), shape(10, 6), 1, shape(4, 6));
  EXPECT_EQ(gradient.flops, 2 * 10 * 4 * 6);
  EXPECT_EQ(gradient.bytes, 4 * (40 + 60 + 2 * 24));
}

TEST(OperationWork, OfSpmmWithAndWithoutReuse) {
  const std::array<std::int64_t, 4> row_ptr = {0, 3, 5, 6};
  const std::array<std::int32_t, 6> col_idx = {0, 1, 2, 0, 1, 3};
  const std::array<float, 4> factors = {1, 1, 1, 1};
  SparseOperator op;
  op.rows = 3;
  op.cols = 4;
  op.row_ptr = row_ptr;
  op.col_idx = col_idx;
  // Rows 0 and 1 have 5 edges: 4 columns may be needed, of 8 floats each.
  const SpanWork plain = spmm_work(op, {0, 2}, shape(4, 8), 0, shape(3, 8), true);
  EXPECT_EQ(plain.flops, 2 * 5 * 8);
  EXPECT_EQ(plain.no_reuse_bytes, 5 * 4 + 2 * (8 + 32) + 5 * 32);
  EXPECT_EQ(plain.bytes, 5 * 4 + 2 * (8 + 32) + 4 * 32);
  // Where the host can't read row_ptr, two thirds of the edges.
  EXPECT_EQ(spmm_work(op, {0, 2}, shape(4, 8), 0, shape(3, 8), false).flops, 2 * 4 * 8);
  op.row_scale = op.self_weight = std::span(factors).first(3);
  op.col_scale = factors;
  const SpanWork scaled = spmm_work(op, {2, 3}, shape(4, 8), 1, shape(3, 8), true);
  EXPECT_EQ(scaled.no_reuse_bytes, 4 + (8 + 4 + 4 + 2 * 32) + 2 * (32 + 4));
  EXPECT_EQ(scaled.bytes, scaled.no_reuse_bytes);
  EXPECT_EQ(spmm_work(op, {1, 1}, shape(4, 8), 0, shape(3, 8), true).bytes, 0);
}

TEST(OperationWork, OfAttentionAlongTheSameEdges) {
  const std::array<std::int64_t, 4> row_ptr = {0, 3, 5, 6};
  const std::array<std::int32_t, 6> col_idx = {0, 1, 2, 0, 1, 3};
  SparseOperator op;
  op.rows = 3;
  op.cols = 4;
  op.row_ptr = row_ptr;
  op.col_idx = col_idx;
  // Five edges with 16 bytes each; two of the three rows of two matrices.
  const SpanWork work =
      edge_pass_work({op, {0, 2}, shape(4, 8), 3, true}, 16, {shape(3, 8), shape(3, 8)});
  EXPECT_EQ(work.flops, 3 * 2 * 5 * 8);
  EXPECT_EQ(work.no_reuse_bytes, 5 * (4 + 16 + 32) + 2 * (8 + 2 * 32));
  EXPECT_EQ(work.bytes, 5 * (4 + 16) + 4 * 32 + 2 * (8 + 2 * 32));
  EXPECT_EQ(edge_pass_work({op, {1, 1}, shape(4, 8), 3, true}, 16, {shape(3, 8)}).bytes, 0);
  // Where only lengths are known, as many edges as somebody says.
  op.counted_edges = 4;
  EXPECT_EQ(edge_pass_work({op, {0, 2}, shape(4, 8), 3, false}, 16, {}).flops, 3 * 2 * 4 * 8);
}

// Two of four sources, with three edges: their rows are read once, and as many are written.
TEST(OperationWork, OfGradientsOfSources) {
  const std::array<std::int64_t, 4> row_ptr = {0, 3, 5, 6};
  const std::array<std::int64_t, 5> by_source = {0, 2, 4, 5, 6};
  const std::array<std::int32_t, 6> targets = {0, 1, 0, 1, 0, 2};
  SparseOperator op;
  op.rows = 3;
  op.cols = 4;
  op.row_ptr = row_ptr;
  SourceEdges edges;
  edges.row_ptr = by_source;
  edges.targets = targets;
  const RowRange sources{1, 3};
  const ConstMatrixView of_sources = shape(4, 8);
  const ConstMatrixView of_rows = shape(3, 8);
  const MatrixView written{nullptr, 2, 8, 8, DType::kF32};
  const double rows = 2 * (8 + 2 * 32);
  const kernels::PoolBackwardSources pool{op,      edges,   sources, of_sources,
                                          of_rows, of_rows, {},      written};
  EXPECT_EQ(pool.work(true).no_reuse_bytes, 3 * (4 + 32 + 32) + rows);
  EdgeTerms terms;
  terms.weight = shape(5, 8);
  const kernels::AggregateEdgesBackwardSources aggregate{op,    edges,   sources, of_sources,
                                                         terms, of_rows, written};
  EXPECT_EQ(aggregate.work(true).no_reuse_bytes, 3 * (4 + 32 + 8 + 5 * 4) + rows);
  AttentionSpec attention;
  attention.score = AttentionScore::kGatv2;
  attention.heads = 2;
  const kernels::AttendBackwardSources attend{op,      edges,       sources,   of_sources, of_rows,
                                              of_rows, shape(6, 4), attention, written,    {}};
  EXPECT_EQ(attend.work(true).no_reuse_bytes, 3 * (4 + 32 + 8 + 2 * 2 * 4 + 32) + rows);
}

// Operations are counted on views without data, whose parts have none either.
TEST(OperationWork, PartsOfViewsWithoutData) {
  const ConstMatrixView rows = shape(4, 8).rows_in({1, 3});
  EXPECT_EQ(rows.data, nullptr);
  EXPECT_EQ(rows.rows, 2);
  const ConstMatrixView columns = shape(4, 8).columns_in(2, 3);
  EXPECT_EQ(columns.data, nullptr);
  EXPECT_EQ(columns.cols, 3);
  EXPECT_EQ(columns.stride, 8);
  std::array<float, 32> data{};
  const MatrixView filled{data.data(), 4, 8, 8, DType::kF32};
  EXPECT_EQ(filled.rows_in({1, 3}).columns_in(2, 3).data, &data[10]);
}

TEST(Ceilings, AreMeasuredRates) {
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto queue = backend->make_queue();
  const Ceilings ceilings = measure_ceilings(*backend, *queue, 1, DType::kF32);
  // No machine is slower than this, or faster.
  EXPECT_GT(ceilings.bytes_per_s, 1e7);
  EXPECT_LT(ceilings.bytes_per_s, 1e14);
  EXPECT_GT(ceilings.flop_per_s, 1e7);
  EXPECT_LT(ceilings.flop_per_s, 1e16);
}

}  // namespace
}  // namespace atl
