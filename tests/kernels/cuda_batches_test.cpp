// Operations that need more scratch memory than a queue has and run in several steps, which would
// take matrices of many megabytes: on the emulated device with less scratch memory.
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/prepared_spmm.hpp"
#include "kernels/cuda/queue.hpp"
#include "kernels/cuda/spmm.hpp"
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
  // What an earlier run left there would do as well: NaN instead.
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

// A100 and H100, a device with more cache than is of use, and one that tells none.
TEST(CudaGemm, PartsFitTheCache) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  EXPECT_EQ(product_bytes(40 * kMiB), 8 * kMiB);
  EXPECT_EQ(product_bytes(50 * kMiB), 10 * kMiB);
  EXPECT_EQ(product_bytes(500 * kMiB), 32 * kMiB);
  EXPECT_EQ(product_bytes(0), 4 * kMiB);
  // Parts of 256 columns on an H100, of ogbn-products: the figures of docs/gpu.md.
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(32 * kMiB, 256)), 75);
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(10 * kMiB, 256)), 240);
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(32 * kMiB, 47)), 15);
  EXPECT_EQ(ceil_divide(2'449'029, rows_of_part(10 * kMiB, 47)), 45);
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
