// Operations that need more scratch memory than a queue has and run in several steps, which would
// take matrices of many megabytes: on the emulated device with less scratch memory.
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/prepared_spmm.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/cuda/spmm.hpp"
#include "tests/kernels/attention_graph.hpp"
#include "tests/kernels/cuda_small_queue.hpp"
#include "tests/kernels/harness.hpp"

namespace atl::cuda {

namespace {

constexpr std::int64_t kColumns = 5;

std::vector<double> run(Harness& h, const std::vector<std::int64_t>& row_ptr,
                        const std::vector<std::int32_t>& col_idx, std::size_t workspace_bytes) {
  SparseOperator op;
  op.rows = static_cast<std::int64_t>(row_ptr.size()) - 1;
  op.cols = op.rows;
  op.row_ptr = h.input_span(row_ptr);
  op.col_idx = h.input_span(col_idx);
  const std::vector<RowRange> ranges{{0, op.rows}};
  const PreparedSpmm prepared(h.backend(), h.queue(), row_ptr, ranges);
  const ConstMatrixView x = h.input(op.rows, kColumns, random_floats(op.rows * kColumns, 1));
  const MatrixView y =
      h.matrix(op.rows, kColumns, Use::kInOut, random_floats(op.rows * kColumns, 3));
  Launch where = static_cast<CudaQueue&>(h.queue()).launch();
  // Results of an earlier run left there would do as well: NaN instead.
  const std::vector<std::byte> poison(1U << 16U, std::byte{0xFF});
  h.backend().copy(h.queue(), where.workspace.data(), poison.data(), 1 << 16,
                   CopyKind::kHostToDevice);
  where.workspace = where.workspace.first(workspace_bytes);
  spmm(where, prepared.find(ranges[0])->work(), op, x, 1, y, {});
  return h.download(y);
}

TEST(CudaSpmm, BatchesOfSplitRowsGiveTheSameBits) {
  // 2, 3, 4, 5 and 3 pieces, and rows of other kinds.
  const std::vector<std::int64_t> edges{4096, 3, 6144, 300, 8192, 40, 8193, 4097};
  std::vector<std::int64_t> row_ptr{0};
  for (const std::int64_t count : edges) row_ptr.push_back(row_ptr.back() + count);
  const auto col_idx = random_integers(row_ptr.back(), static_cast<std::int32_t>(edges.size()), 2);
  Harness h("cuda", {.device = 0});
  const auto whole = run(h, row_ptr, col_idx, kWorkspaceBytes);
  // A partial sum takes 8 floats: room for 5 pieces, then 9, then all but one.
  for (const std::size_t pieces : {5, 9, 16}) {
    EXPECT_EQ(run(h, row_ptr, col_idx, pieces * 8 * sizeof(float)), whole) << pieces;
  }
}

// y, dt, coefficients, dz and dvector of gatv2, with room for results of so many pieces in each
// direction.
std::vector<std::vector<double>> run_attention(Harness& h, const std::vector<std::int64_t>& row_ptr,
                                               const std::vector<std::int32_t>& col_idx,
                                               std::int64_t pieces) {
  constexpr std::int64_t kWide = 8;
  constexpr std::int64_t kHeads = 2;
  // A piece's results: sums, those of leaky, three numbers per head; in whole units of 8.
  constexpr std::int64_t kResultBytes = 24 * sizeof(float);
  const std::int64_t nnz = row_ptr.back();
  const HostSourceEdges by_source(row_ptr, col_idx, std::ssize(row_ptr) - 1);
  SparseOperator op;
  op.rows = std::ssize(row_ptr) - 1;
  op.cols = op.rows;
  op.row_ptr = h.input_span(row_ptr);
  op.col_idx = h.input_span(col_idx);
  SourceEdges edges = upload(h, by_source);
  const std::vector<RowRange> ranges{{0, op.rows}};
  const PreparedSpmm rows(h.backend(), h.queue(), row_ptr, ranges);
  const PreparedSpmm sources(h.backend(), h.queue(), by_source.row_ptr, ranges);
  op.prepared = &rows;
  edges.prepared = &sources;
  const auto input = [&](std::uint64_t seed) {
    return h.input(op.rows, kWide, random_floats(op.rows * kWide, seed));
  };
  const ConstMatrixView z = input(1);
  const ConstMatrixView t = input(2);
  const ConstMatrixView dy = input(3);
  AttentionSpec spec;
  spec.score = AttentionScore::kGatv2;
  spec.heads = kHeads;
  spec.vector = h.input<float>(1, kWide, random_floats(kWide, 4));
  const MatrixView y = h.output(op.rows, kWide);
  const MatrixView dt = h.output(op.rows, kWide);
  const MatrixView coefficients = h.output<float>(nnz, 2 * kHeads);
  const MatrixView dz = h.output(op.rows, kWide);
  const MatrixView dvector = h.matrix<float>(1, kWide, Use::kInOut, random_floats(kWide, 5));
  const auto run = [&](std::int64_t before, const auto& operation) {
    SmallQueue small(std::min(before + pieces * kResultBytes, kWorkspaceBytes));
    small.run(h.backend(), operation);
  };
  run(0, kernels::Attend{op, ranges[0], z, t, spec, y, {}});
  // Behind partial sums of dvector.
  run(kPartialsBytes,
      kernels::AttendBackwardTargets{op, ranges[0], z, t, dy, spec, dt, coefficients, dvector});
  run(0,
      kernels::AttendBackwardSources{op, edges, ranges[0], z, t, dy, coefficients, spec, dz, {}});
  return {h.download(y), h.download(dt), h.download(coefficients), h.download(dz),
          h.download(dvector)};
}

TEST(CudaAttention, BatchesOfSplitRowsGiveTheSameBits) {
  // 4, 6, 2 and 3 pieces, and rows of other kinds; half of the edges leave one source.
  const std::vector<std::int64_t> edges{2048, 3, 3000, 300, 1024, 40, 1025, 7};
  std::vector<std::int64_t> row_ptr{0};
  for (const std::int64_t count : edges) row_ptr.push_back(row_ptr.back() + count);
  auto col_idx = random_integers(row_ptr.back(), 16, 2);
  for (std::int32_t& column : col_idx) column = column < 8 ? column : 5;
  Harness h("cuda", {.device = 0});
  const auto whole = run_attention(h, row_ptr, col_idx, 1000);
  // As many as the greatest row has, out-edges included, then more.
  for (const std::int64_t pieces : {9, 12}) {
    const auto found = run_attention(h, row_ptr, col_idx, pieces);
    for (const std::size_t k : {0, 1, 2, 3}) EXPECT_EQ(found[k], whole[k]) << pieces << ", " << k;
    expect_close(found[4], whole[4], 1e-6, "dvector");
  }
}

// c = epilogue(op(a) op(b) + c), in bf16.
std::vector<double> run_gemm(Harness& h, Transpose transpose_a, std::size_t scratch_bytes) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kInner = 6;
  const bool transposed = transpose_a == Transpose::kYes;
  const ConstMatrixView a = h.input(transposed ? kInner : kRows, transposed ? kRows : kInner,
                                    random_floats(kRows * kInner, 1));
  const ConstMatrixView b = h.input(kInner, kColumns, random_floats(kInner * kColumns, 2));
  const MatrixView c = h.matrix(kRows, kColumns, Use::kInOut, random_floats(kRows * kColumns, 3));
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < kRows; ++i) ids.push_back(GlobalId{100 * i});
  Epilogue epilogue;
  epilogue.beta = h.matrix<float>(1, kColumns, Use::kInput, random_floats(kColumns, 4));
  epilogue.dropout = {
      {9, RandomStream::kDropout, 1, 2}, dropout_threshold(0.25), h.input_span(ids)};
  auto& queue = static_cast<CudaQueue&>(h.queue());
  gemm_in_parts(queue, queue.product_rows().first(scratch_bytes), transpose_a, a, Transpose::kNo, b,
                1, c, epilogue);
  return h.download(c);
}

TEST(CudaGemm, PartsGiveTheSameBits) {
  Harness h("cuda", {.device = 0}, DType::kBf16);
  for (const Transpose transpose_a : {Transpose::kNo, Transpose::kYes}) {
    const auto whole =
        run_gemm(h, transpose_a, static_cast<CudaQueue&>(h.queue()).product_rows().size());
    for (const std::size_t rows : {1, 3, 6}) {
      EXPECT_EQ(run_gemm(h, transpose_a, rows * padded_columns(kColumns) * sizeof(float)), whole)
          << rows;
    }
  }
}

// The sizes of ogbn-products, with the figures of docs/gpu.md.
TEST(CudaGemm, PartsOfPublishedSizes) {
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(kProductBytes, 256)), 38);
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(kProductBytes, 47)), 8);
}

// A part is a product, the epilogue, and a conversion of what is added to.
TEST(CudaGemm, PartsAreCountedInLaunches) {
  Harness h("cuda", {.device = 0}, DType::kBf16);
  const auto launches = [&](std::size_t rows) {
    const std::size_t before = cuda_emulation::executed_kernels();
    run_gemm(h, Transpose::kNo, rows * padded_columns(kColumns) * sizeof(float));
    return cuda_emulation::executed_kernels() - before;
  };
  // Seven rows; cuBLAS's products are no kernels here.
  EXPECT_EQ(launches(7), 2U);
  EXPECT_EQ(launches(3), 6U);
}

}  // namespace

}  // namespace atl::cuda
