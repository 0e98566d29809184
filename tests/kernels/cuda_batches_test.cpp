// SpMM whose split rows need more partial sums than the workspace holds at once, which would take
// millions of edges: on the emulated device with a smaller workspace.
#include <gtest/gtest.h>

#include "kernels/cuda/queue.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/cuda/spmm_plan.hpp"
#include "tests/kernels/harness.hpp"

namespace atl::cuda {

namespace {

constexpr std::int64_t kWidth = 5;

std::vector<double> run(Harness& h, const std::vector<std::int64_t>& row_ptr,
                        const std::vector<std::int32_t>& col_idx, std::size_t workspace_bytes) {
  SparseOperator op;
  op.rows = static_cast<std::int64_t>(row_ptr.size()) - 1;
  op.cols = op.rows;
  op.row_ptr = h.input_span(row_ptr);
  op.col_idx = h.input_span(col_idx);
  const std::vector<RowRange> ranges{{0, op.rows}};
  const SpmmPlan plan(h.backend(), h.queue(), row_ptr, ranges);
  const ConstMatrixView x = h.input(op.rows, kWidth, random_floats(op.rows * kWidth, 1));
  const MatrixView y = h.output(op.rows, kWidth);
  Launch where = static_cast<CudaQueue&>(h.queue()).launch();
  where.workspace = where.workspace.first(workspace_bytes);
  spmm(where, plan.find(ranges[0])->work(), op, x, 0, y, {});
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

}  // namespace

}  // namespace atl::cuda
