// Broken contracts end the program with the operation's name; allowed oddities do not.
#include <array>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class ContractDeathTest : public ::testing::Test {
 protected:
  // Memory of the host is enough: these calls must stop before they compute.
  MatrixView view(std::int64_t rows, std::int64_t cols, std::int64_t offset = 0) {
    return {memory_.data() + offset, rows, cols, cols};
  }
  MatrixView other(std::int64_t rows, std::int64_t cols) { return view(rows, cols, 128); }

  std::array<float, 256> memory_{};
  Harness h{"reference"};
};

TEST_F(ContractDeathTest, Shapes) {
  EXPECT_DEATH(h.backend().add(h.queue(), 1, view(2, 3), other(3, 2)), "add y: 3 x 2 found");
  EXPECT_DEATH(h.backend().gemm(h.queue(), Transpose::kNo, view(2, 3), Transpose::kNo, view(2, 3),
                                0, other(2, 3)),
               "gemm b: 2 x 3 found, 3 x 3 expected");
  EXPECT_DEATH(h.backend().column_sums(h.queue(), view(2, 3), false, other(2, 3)),
               "column_sums out: 2 x 3 found, 1 x 3 expected");
}

TEST_F(ContractDeathTest, ElementTypes) {
  MatrixView bf16 = view(2, 2);
  bf16.dtype = DType::kBf16;
  EXPECT_DEATH(h.backend().fill_zero(h.queue(), bf16), "fill_zero y: dtype 1 on backend reference");
  MatrixView f64 = other(2, 2);
  f64.dtype = DType::kF64;
  EXPECT_DEATH(h.backend().add(h.queue(), 1, view(2, 2), f64), "dtype 2 found, 0 expected");
}

TEST_F(ContractDeathTest, StridesAndMissingData) {
  MatrixView narrow = view(2, 4);
  narrow.stride = 3;
  EXPECT_DEATH(h.backend().fill_zero(h.queue(), narrow), "stride 3, 4 columns");
  EXPECT_DEATH(h.backend().fill_zero(h.queue(), {nullptr, 2, 2, 2}), "2 x 2 without data");
}

TEST_F(ContractDeathTest, Overlap) {
  EXPECT_DEATH(h.backend().add(h.queue(), 1, view(4, 4), view(4, 4)), "add y and x overlap");
  EXPECT_DEATH(h.backend().add(h.queue(), 1, view(4, 4), view(4, 4, 15)), "overlap");
  EXPECT_DEATH(h.backend().apply_epilogue(h.queue(), view(4, 4), {}, view(4, 4, 4)), "overlap");
}

TEST_F(ContractDeathTest, RowsAndFactorsOfSpmm) {
  const std::vector<std::int64_t> row_ptr{0, 0, 0};
  const std::vector<float> three(3, 1);
  SparseOperator op;
  op.rows = 2;
  op.cols = 2;
  op.row_ptr = row_ptr;
  EXPECT_DEATH(h.backend().spmm(h.queue(), op, {1, 3}, view(2, 2), other(2, 2)),
               "spmm rows 1..3 of 2");
  op.row_scale = three;
  EXPECT_DEATH(h.backend().spmm(h.queue(), op, {0, 2}, view(2, 2), other(2, 2)),
               "row_scale: 3 entries found, 2 expected");
}

TEST_F(ContractDeathTest, SegmentsOfAdamCoverTheArray) {
  const std::vector<DecaySegment> hole{{0, 1, 0}, {2, 4, 0}};
  AdamSpec spec;
  spec.segments = hole;
  EXPECT_DEATH(h.backend().adam_step(h.queue(), spec, view(1, 4), view(1, 4, 4), view(1, 4, 8),
                                     view(1, 4, 12)),
               "segment 2..4 after 1");
}

// The two halves of a concatenation interleave in memory and yet share nothing.
TEST(Contract, ColumnSlicesOfOneMatrixMayBeInputAndOutput) {
  std::vector<float> memory{1, 2, 0, 0, 3, 4, 0, 0};
  Harness h("reference");
  const ConstMatrixView left{memory.data(), 2, 2, 4};
  const MatrixView right{memory.data() + 2, 2, 2, 4};
  h.backend().add(h.queue(), 2, left, right);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 2, 4, 3, 4, 6, 8}));
}

TEST_F(ContractDeathTest, ColumnSlicesThatShareAColumnMayNot) {
  const ConstMatrixView left{memory_.data(), 2, 2, 4};
  const MatrixView middle{memory_.data() + 1, 2, 2, 4};
  const MatrixView wrapped{memory_.data() + 3, 2, 2, 4};
  EXPECT_DEATH(h.backend().add(h.queue(), 2, left, middle), "overlap");
  EXPECT_DEATH(h.backend().add(h.queue(), 2, left, wrapped), "overlap");
}

}  // namespace

}  // namespace atl
