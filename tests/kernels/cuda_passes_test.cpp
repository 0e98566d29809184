// Operations that go over a matrix in passes, because the workspace holds no more: layer norm of
// rows too wide for registers, here with a small workspace on the emulated device, and sums.
#include <gtest/gtest.h>

#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/elements.cuh"
#include "tests/kernels/cuda_small_queue.hpp"
#include "tests/kernels/harness.hpp"

namespace atl::cuda {

namespace {

constexpr std::int64_t kPassRows = 11;
constexpr std::int64_t kPassCols = 600;
constexpr std::size_t kBytesPerRow = 32;  // four doubles of statistics

// dx, dgamma and dbeta with statistics of `rows` rows at a time.
std::vector<std::vector<double>> run(std::size_t rows) {
  Harness h("cuda", {.device = 0});
  const ConstMatrixView x = h.input(kPassRows, kPassCols, random_floats(kPassRows * kPassCols, 1));
  const ConstMatrixView gamma = h.input(1, kPassCols, random_floats(kPassCols, 2));
  const MatrixView dx =
      h.matrix(kPassRows, kPassCols, Use::kInOut, random_floats(kPassRows * kPassCols, 3));
  const MatrixView dgamma = h.matrix(1, kPassCols, Use::kInOut, std::vector<float>(kPassCols, 0));
  const MatrixView dbeta = h.matrix(1, kPassCols, Use::kInOut, std::vector<float>(kPassCols, 0));
  SmallQueue small(kPartialsBytes + static_cast<std::int64_t>(rows * kBytesPerRow));
  small.run(h.backend(), kernels::LayerNormBackward{dx, x, gamma, 1e-5, dx, dgamma, dbeta});
  return {h.download(dx), h.download(dgamma), h.download(dbeta)};
}

TEST(CudaLayerNorm, PassesGiveTheSameGradients) {
  const auto whole = run(kPassRows);
  for (const std::size_t rows : {1, 4, 10}) {
    const auto found = run(rows);
    EXPECT_EQ(found[0], whole[0]) << rows;
    // Rounded to f32 after every pass instead of once.
    expect_close(found[1], whole[1], 1e-6, "dgamma");
    expect_close(found[2], whole[2], 1e-6, "dbeta");
  }
}

TEST(ColumnPasses, CoverAllColumns) {
  std::vector<std::int64_t> ends{0};
  for_column_passes(2 * kReductionCols + 5, [&](std::int64_t first, std::int64_t cols) {
    EXPECT_EQ(first, ends.back());
    ends.push_back(first + cols);
  });
  EXPECT_EQ(ends, (std::vector<std::int64_t>{0, kReductionCols, 2 * kReductionCols,
                                             2 * kReductionCols + 5}));
}

// The widths of arxiv, Reddit, products and Reddit's features: none is taken element by element.
TEST(CudaAccess, PaddedRowsAreReadInWholeVectors) {
  for (const std::int64_t cols : {40, 41, 47, 602}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const ConstMatrixView padded{nullptr, 3, cols, padded_columns(cols), dtype};
      EXPECT_TRUE(fits_padded(static_cast<int>(16 / bytes_of(dtype)), padded)) << cols;
      ConstMatrixView other = padded;
      other.stride += 1;
      EXPECT_FALSE(fits_padded(static_cast<int>(16 / bytes_of(dtype)), other)) << cols;
    }
  }
}

}  // namespace

}  // namespace atl::cuda
