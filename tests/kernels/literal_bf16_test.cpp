// bf16 storage with numbers worked out by hand: neighbours of 1 lie 2^-7 apart, those of 256 lie 2.
#include <cmath>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class LiteralBf16 : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    h = std::make_unique<Harness>(GetParam(), 2, DType::kBf16);
  }
  std::unique_ptr<Harness> h;
};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralBf16, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<float> kExact{1, 1 + 0x1p-8F, 1 + 3 * 0x1p-8F, 1 + 0x1.1p-8F, 1 + 0x0.Fp-8F,
                                -1 - 0x1p-8F, 0, 0x1.FEp127F, 0x1.FFp127F, -kInfinity,
                                // The smallest denormal number of bf16, half and a quarter more.
                                0x1p-133F, 0x1.8p-133F, 0x1.4p-133F};
const std::vector<double> kRounded{1,        1,        1 + 0x1p-6, 1 + 0x1p-7, 1,
                                   -1,       0,        0x1.FEp127, kInfinity,  -kInfinity,
                                   0x1p-133, 0x1p-132, 0x1p-133};

TEST(Bf16, RoundsToNearestEven) {
  for (std::size_t k = 0; k < kExact.size(); ++k) {
    EXPECT_EQ(static_cast<double>(to_float(to_bf16(kExact[k]))), kRounded[k]) << kExact[k];
  }
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload sits in the half that is cut off must not become infinity.
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST_P(LiteralBf16, ConvertRoundsTiesToEven) {
  const auto count = static_cast<std::int64_t>(kExact.size());
  const MatrixView narrow = h->output(1, count);
  h->backend().run(h->queue(), kernels::Convert{h->input<float>(1, count, kExact), narrow});
  EXPECT_EQ(h->download(narrow), kRounded);
  const MatrixView wide = h->output<float>(1, count);
  h->backend().run(h->queue(), kernels::Convert{narrow, wide});
  EXPECT_EQ(h->download(wide), kRounded);
}

TEST_P(LiteralBf16, ConvertRoundsEveryNumberAlike) {
  const std::vector<float> values = numbers_to_round();
  const auto count = static_cast<std::int64_t>(values.size());
  const MatrixView narrow = h->output(1, count);
  const MatrixView wide = h->output<float>(1, count);
  h->backend().run(h->queue(), kernels::Convert{h->input<float>(1, count, values), narrow});
  h->backend().run(h->queue(), kernels::Convert{narrow, wide});
  const auto rounded = h->download(narrow);
  const auto widened = h->download(wide);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto expected = static_cast<double>(to_float(to_bf16(values[k])));
    for (const double found : {rounded[k], widened[k]}) {
      ASSERT_EQ(std::isnan(found), std::isnan(expected)) << values[k];
      if (std::isnan(expected)) continue;
      ASSERT_EQ(found, expected) << values[k];
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << values[k];
    }
  }
}

TEST_P(LiteralBf16, ConvertKeepsNaN) {
  const MatrixView y = h->output(1, 2);
  h->backend().run(
      h->queue(),
      kernels::Convert{h->input<float>(1, 2, {std::numeric_limits<float>::quiet_NaN(), 2}), y});
  const auto found = h->download(y);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], 2);
}

// 256 + 1 is 256 again wherever a partial sum is kept in bf16; 256 + 1 + 1 is a bf16 number.
TEST_P(LiteralBf16, SumsAreWiderThanTheStorage) {
  const ConstMatrixView x = h->input(3, 1, {256, 1, 1});
  const ConstMatrixView ones = h->input(3, 1, {1, 1, 1});
  const MatrixView c = h->output(1, 1);
  h->backend().run(h->queue(), kernels::Gemm{Transpose::kYes, x, Transpose::kNo, ones, 0, c});
  EXPECT_EQ(h->download(c), (std::vector<double>{258}));

  SparseOperator op;
  op.rows = 1;
  op.cols = 3;
  op.row_ptr = h->input_span<std::int64_t>({0, 3});
  op.col_idx = h->input_span<std::int32_t>({0, 1, 2});
  const MatrixView y = h->output(1, 1);
  h->backend().run(h->queue(), kernels::Spmm{op, {0, 1}, x, 0, y});
  EXPECT_EQ(h->download(y), (std::vector<double>{258}));
}

// Sums of parameters' gradients are not rounded to bf16 at all.
TEST_P(LiteralBf16, GradientsOfParametersAreF32) {
  const ConstMatrixView x = h->input(2, 1, {256, 1});
  const ConstMatrixView ones = h->input(2, 1, {1, 1});
  const MatrixView c = h->output<float>(1, 1);
  h->backend().run(h->queue(), kernels::Gemm{Transpose::kYes, x, Transpose::kNo, ones, 0, c});
  EXPECT_EQ(h->download(c), (std::vector<double>{257}));
  const MatrixView sums = h->output<float>(1, 1);
  h->backend().run(h->queue(), kernels::ColumnSums{x, false, sums});
  EXPECT_EQ(h->download(sums), (std::vector<double>{257}));
  const MatrixView dgamma = h->matrix<float>(1, 1, Use::kInOut, {0});
  const MatrixView dbeta = h->matrix<float>(1, 1, Use::kInOut, {0.5});
  const auto gradient_sums = h->output_span<double>(2);
  h->backend().run(h->queue(), kernels::BatchNormGradientSums{x, ones, h->input_span<double>({0}),
                                                              h->input_span<double>({2}),
                                                              gradient_sums, dgamma, dbeta});
  EXPECT_EQ(h->download_span(gradient_sums), (std::vector<double>{257, 514}));
  EXPECT_EQ(h->download(dgamma), (std::vector<double>{514}));
  EXPECT_EQ(h->download(dbeta), (std::vector<double>{257.5}));
}

// The sum 257 plus a bias of 1 is 258. Rounded before the bias it would be 256, and after 257 again
// 256.
TEST_P(LiteralBf16, EpiloguesSeeTheUnroundedSum) {
  const ConstMatrixView x = h->input(2, 1, {256, 1});
  const ConstMatrixView ones = h->input(2, 1, {1, 1});
  Epilogue epilogue;
  epilogue.beta = h->input<float>(1, 1, {1});
  const MatrixView c = h->output(1, 1);
  h->backend().run(h->queue(),
                   kernels::Gemm{Transpose::kYes, x, Transpose::kNo, ones, 0, c, epilogue});
  EXPECT_EQ(h->download(c), (std::vector<double>{258}));
  // Beside a norm as well, which not every library can fuse.
  epilogue.mean = h->input_span<double>({0});
  epilogue.inv_std = h->input_span<double>({1});
  h->backend().run(h->queue(),
                   kernels::Gemm{Transpose::kYes, x, Transpose::kNo, ones, 0, c, epilogue});
  EXPECT_EQ(h->download(c), (std::vector<double>{258}));

  SparseOperator op;
  op.rows = 1;
  op.cols = 2;
  const std::vector<std::int64_t> row_ptr{0, 2};
  const std::vector<RowRange> ranges{{0, 1}};
  op.row_ptr = h->input_span(row_ptr);
  op.col_idx = h->input_span<std::int32_t>({0, 1});
  for (const bool prepared : {false, true}) {
    const auto made =
        prepared ? h->backend().prepare_spmm(h->queue(), op, row_ptr, ranges) : nullptr;
    op.prepared = made.get();
    const MatrixView y = h->output(1, 1);
    h->backend().run(h->queue(), kernels::Spmm{op, {0, 1}, x, 0, y, epilogue});
    EXPECT_EQ(h->download(y), (std::vector<double>{258}));
  }
}

// Sums of the oracle are double; one rounding from there is not two by way of f32, where
// 1 + 2^-8 + 2^-40 would end as a tie.
TEST(ReferenceBf16, RoundsDoublesOnce) {
  Harness h("reference", 2, DType::kBf16);
  const MatrixView y = h.output(1, 4);
  const double above = 1 + 0x1p-8 + 0x1p-40;
  const double below = 1 + 3 * 0x1p-8 - 0x1p-40;
  h.backend().run(h.queue(),
                  kernels::Convert{h.input<double>(1, 4, {above, below, -above, 0x1p-200}), y});
  EXPECT_EQ(h.download(y), (std::vector<double>{1 + 0x1p-7, 1 + 0x1p-7, -1 - 0x1p-7, 0}));
}

}  // namespace

}  // namespace atl
