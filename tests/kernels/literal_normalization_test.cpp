// Batch and layer normalisation with numbers worked out by hand.
#include <cmath>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class LiteralNormalization : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralNormalization, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST_P(LiteralNormalization, BatchNormMoments) {
  Harness h(GetParam());
  // Column 1 sits far from zero: the squares around 1e6 + 1 are lost by sums in f32.
  const ConstMatrixView x = h.input<float>(3, 2, {1, 1e6F, 2, 1e6F + 1, 6, 1e6F + 2});
  const auto sums = h.output_span<double>(4);
  h.backend().run(h.queue(),
                  kernels::BatchNormMoments{x, h.input_span<double>({2, 1e6 + 1}), sums});
  EXPECT_EQ(h.download_span(sums), (std::vector<double>{3, 0, 17, 2}));
}

TEST_P(LiteralNormalization, SumsOverNoRowsAreZero) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(0, 2, {});
  const auto columns = h.input_span<double>({1, 2});
  const auto sums = h.output_span<double>(4);
  h.backend().run(h.queue(), kernels::BatchNormMoments{x, columns, sums});
  EXPECT_EQ(h.download_span(sums), (std::vector<double>{0, 0, 0, 0}));
  const auto gradient_sums = h.output_span<double>(4);
  const MatrixView dgamma = h.matrix<float>(1, 2, Use::kInOut, {1, 2});
  const MatrixView dbeta = h.matrix<float>(1, 2, Use::kInOut, {3, 4});
  h.backend().run(h.queue(), kernels::BatchNormGradientSums{x, x, columns, columns, gradient_sums,
                                                            dgamma, dbeta});
  EXPECT_EQ(h.download_span(gradient_sums), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(h.download(dgamma), (std::vector<double>{1, 2}));
  EXPECT_EQ(h.download(dbeta), (std::vector<double>{3, 4}));
}

TEST_P(LiteralNormalization, BatchNormStatistics) {
  Harness h(GetParam());
  // Three rows. Column 0: they lie 2 above the running mean 1, with squares 18: mean 3, variance
  // 18/3 - 4 = 2, unbiased 2 * 3/2 = 3. Column 1: all are 0, as the running mean. Column 2:
  // rounding left the squares too small for the sum, so the variance counts as none; it is
  // constant.
  const auto sums = h.input_span<double>({6, 0, 3, 18, 0, 2.5});
  const auto running_mean = h.inout_span<double>({1, 0, 10});
  const auto running_variance = h.inout_span<double>({1, 1, 1});
  const auto mean = h.output_span<double>(3);
  const auto inv_std = h.output_span<double>(3);
  h.backend().run(h.queue(), kernels::BatchNormStatistics{sums, 3, 0.5, 0.25, running_mean,
                                                          running_variance, mean, inv_std});
  EXPECT_EQ(h.download_span(mean), (std::vector<double>{3, 0, 11}));
  // 1 / sqrt(2 + .25) and 1 / sqrt(.25)
  expect_close(h.download_span(inv_std), {1 / 1.5, 2, 0}, 1e-15, "inv_std");
  EXPECT_EQ(h.download_span(running_mean), (std::vector<double>{2, 0, 10.5}));
  EXPECT_EQ(h.download_span(running_variance), (std::vector<double>{2, 0.5, 0.5}));
}

TEST_P(LiteralNormalization, BatchNormStatisticsOfColumnsThatAreConstantButForRounding) {
  Harness h(GetParam());
  // Two rows, 1024 +- d: the running mean is their mean. A deviation of 2^-20 of it is no rounding.
  const double narrow = 0x1p-10;
  const double rounding = 0x1p-11;
  const auto sums = h.input_span<double>({0, 0, 2 * narrow * narrow, 2 * rounding * rounding});
  const auto running_mean = h.inout_span<double>({1024, -1024});
  const auto running_variance = h.inout_span<double>({1, 1});
  const auto mean = h.output_span<double>(2);
  const auto inv_std = h.output_span<double>(2);
  h.backend().run(h.queue(), kernels::BatchNormStatistics{sums, 2, 0.5, 1e-5, running_mean,
                                                          running_variance, mean, inv_std});
  EXPECT_EQ(h.download_span(mean), (std::vector<double>{1024, -1024}));
  expect_close(h.download_span(inv_std), {1 / std::sqrt(0x1p-20 + 1e-5), 0}, 1e-15, "inv_std");
}

TEST_P(LiteralNormalization, BatchNormStatisticsOfOneRowAndOfNaN) {
  Harness h(GetParam());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto running_mean = h.inout_span<double>({0, 0});
  const auto running_variance = h.inout_span<double>({1, 1});
  const auto mean = h.output_span<double>(2);
  const auto inv_std = h.output_span<double>(2);
  // One row has no unbiased variance; the biased one, 0, takes its place. The row is constant.
  h.backend().run(h.queue(),
                  kernels::BatchNormStatistics{h.input_span<double>({5, nan, 25, nan}), 1, 0.5, 1,
                                               running_mean, running_variance, mean, inv_std});
  EXPECT_EQ(h.download_span(mean)[0], 5);
  EXPECT_EQ(h.download_span(inv_std)[0], 0);
  EXPECT_EQ(h.download_span(running_variance)[0], 0.5);
  for (const auto& values : {mean, inv_std, running_mean, running_variance}) {
    EXPECT_TRUE(std::isnan(h.download_span(values)[1]));
  }
}

TEST_P(LiteralNormalization, InverseStd) {
  Harness h(GetParam());
  const auto out = h.output_span<double>(2);
  h.backend().run(h.queue(), kernels::InverseStd{h.input_span<double>({0, 3.75}), 0.25, out});
  EXPECT_EQ(h.download_span(out), (std::vector<double>{2, 0.5}));
}

TEST_P(LiteralNormalization, BatchNormGradientSums) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 1, {1, 5});
  const ConstMatrixView dy = h.input<float>(2, 1, {2, 3});
  const auto sums = h.output_span<double>(2);
  const MatrixView dgamma = h.matrix<float>(1, 1, Use::kInOut, {100});
  const MatrixView dbeta = h.matrix<float>(1, 1, Use::kInOut, {200});
  // xhat = (x - 2) * .5 = {-.5, 1.5}
  h.backend().run(h.queue(),
                  kernels::BatchNormGradientSums{dy, x, h.input_span<double>({2}),
                                                 h.input_span<double>({0.5}), sums, dgamma, dbeta});
  EXPECT_EQ(h.download_span(sums), (std::vector<double>{5, 3.5}));
  EXPECT_EQ(h.download(dgamma), (std::vector<double>{103.5}));
  EXPECT_EQ(h.download(dbeta), (std::vector<double>{205}));
}

TEST_P(LiteralNormalization, BatchNormBackward) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 1, {1, 5});
  const ConstMatrixView dy = h.input<float>(2, 1, {2, 3});
  const MatrixView dx = h.output(2, 1);
  // Four rows on all ranks; their means of dy and dy * xhat are 1 and 2. xhat = {-.5, 1.5}:
  // 4 * .5 * (2 - 1 + .5 * 2) = 4 and 4 * .5 * (3 - 1 - 1.5 * 2) = -2
  h.backend().run(h.queue(), kernels::BatchNormBackward{
                                 dy, x, h.input_span<double>({2}), h.input_span<double>({0.5}),
                                 h.input<float>(1, 1, {4}), h.input_span<double>({4, 8}), 4, dx});
  EXPECT_EQ(h.download(dx), (std::vector<double>{4, -2}));
}

TEST_P(LiteralNormalization, LayerNorm) {
  Harness h(GetParam());
  // Mean 2, variance 1, epsilon 3: xhat = {-1, 1} / 2.
  const ConstMatrixView x = h.input<float>(1, 2, {1, 3});
  const MatrixView y = h.output(1, 2);
  h.backend().run(h.queue(), kernels::LayerNorm{x, h.input<float>(1, 2, {2, 4}),
                                                h.input<float>(1, 2, {10, 20}), 3, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{9, 22}));
}

}  // namespace

}  // namespace atl
