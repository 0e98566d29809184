// Dense operations, normalisation and the optimizer with numbers worked out by hand.
#include <cmath>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class LiteralDense : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralDense, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST_P(LiteralDense, GemmInAllTranspositions) {
  Harness h(GetParam());
  const ConstMatrixView a = h.input<float>(2, 3, {1, 2, 3, 4, 5, 6});
  const ConstMatrixView a_t = h.input<float>(3, 2, {1, 4, 2, 5, 3, 6});
  const ConstMatrixView b = h.input<float>(3, 2, {1, 0, 0, 1, 2, -1});
  const ConstMatrixView b_t = h.input<float>(2, 3, {1, 0, 2, 0, 1, -1});
  const std::vector<double> product{7, -1, 16, -1};
  const MatrixView c = h.output(2, 2);
  h.backend().gemm(h.queue(), Transpose::kNo, a, Transpose::kNo, b, 0, c);
  EXPECT_EQ(h.download(c), product);
  h.backend().gemm(h.queue(), Transpose::kNo, a, Transpose::kYes, b_t, 0, c);
  EXPECT_EQ(h.download(c), product);
  h.backend().gemm(h.queue(), Transpose::kYes, a_t, Transpose::kNo, b, 0, c);
  EXPECT_EQ(h.download(c), product);
  h.backend().gemm(h.queue(), Transpose::kYes, a_t, Transpose::kYes, b_t, 0, c);
  EXPECT_EQ(h.download(c), product);
  h.backend().gemm(h.queue(), Transpose::kNo, a, Transpose::kNo, b, 1, c);
  EXPECT_EQ(h.download(c), (std::vector<double>{14, -2, 32, -2}));
}

TEST_P(LiteralDense, GemmOverNothingIsZeroOrUnchanged) {
  Harness h(GetParam());
  const ConstMatrixView a = h.input<float>(2, 0, {});
  const ConstMatrixView b = h.input<float>(0, 2, {});
  const MatrixView c = h.output(2, 2);
  h.backend().gemm(h.queue(), Transpose::kNo, a, Transpose::kNo, b, 0, c);
  EXPECT_EQ(h.download(c), (std::vector<double>{0, 0, 0, 0}));
  const MatrixView d = h.matrix<float>(2, 2, Use::kInOut, {1, 2, 3, 4});
  h.backend().gemm(h.queue(), Transpose::kYes, b, Transpose::kYes, a, 1, d);
  EXPECT_EQ(h.download(d), (std::vector<double>{1, 2, 3, 4}));
}

TEST_P(LiteralDense, AddAndColumnSums) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, -8});
  const MatrixView y = h.matrix<float>(2, 2, Use::kInOut, {10, 20, 30, 40});
  h.backend().add(h.queue(), 0.5, x, y);
  EXPECT_EQ(h.download(y), (std::vector<double>{10.5, 21, 31.5, 36}));
  const MatrixView sums = h.matrix<float>(1, 2, Use::kInOut, {100, 200});
  h.backend().column_sums(h.queue(), x, true, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{104, 194}));
  h.backend().column_sums(h.queue(), x, false, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{4, -6}));
}

TEST_P(LiteralDense, SumsOverNoRowsAreZero) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(0, 2, {});
  const MatrixView sums = h.output(1, 2);
  h.backend().column_sums(h.queue(), x, false, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{0, 0}));
  const auto mean = h.output_span<double>(2);
  const auto m2 = h.output_span<double>(2);
  h.backend().column_moments(h.queue(), x, mean, m2);
  EXPECT_EQ(h.download_span(mean), (std::vector<double>{0, 0}));
  EXPECT_EQ(h.download_span(m2), (std::vector<double>{0, 0}));
  h.backend().batch_norm_sums(h.queue(), x, x, mean, m2, h.output_span<double>(2),
                              h.output_span<double>(2));
}

TEST_P(LiteralDense, EpilogueAndItsGradient) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {5, 1, 1, 3});
  Epilogue epilogue;
  epilogue.mean = h.input_span<double>({3, 2});
  epilogue.inv_std = h.input_span<double>({0.5, 2});
  epilogue.gamma = h.input<float>(1, 2, {4, 1});
  epilogue.beta = h.input<float>(1, 2, {-1, 0.5});
  const MatrixView y = h.output(2, 2);
  // (5-3)*.5*4-1 = 3, (1-2)*2*1+.5 = -1.5, (1-3)*.5*4-1 = -5, (3-2)*2+.5 = 2.5
  h.backend().apply_epilogue(h.queue(), x, epilogue, y);
  EXPECT_EQ(h.download(y), (std::vector<double>{3, -1.5, -5, 2.5}));
  epilogue.relu = true;
  h.backend().apply_epilogue(h.queue(), x, epilogue, y);
  EXPECT_EQ(h.download(y), (std::vector<double>{3, 0, 0, 2.5}));
  const ConstMatrixView dy = h.input<float>(2, 2, {10, 20, 30, 40});
  const MatrixView dx = h.output(2, 2);
  h.backend().relu_dropout_backward(h.queue(), y, dy, 2, dx);
  EXPECT_EQ(h.download(dx), (std::vector<double>{20, 0, 0, 80}));
}

// Which elements fall is the definition of base/philox.hpp, wherever a backend draws its bits.
TEST_P(LiteralDense, DropoutDropsTheElementsThatPhiloxNames) {
  Harness h(GetParam());
  constexpr std::int64_t kCols = 300;
  const std::vector<GlobalId> ids{GlobalId{0}, GlobalId{41}, GlobalId{0x123456789ABC}};
  Epilogue epilogue;
  epilogue.dropout = {{0xFEDCBA9876543210, RandomStream::kInputDropout, 255, 4000000000U},
                      dropout_threshold(0.75),
                      h.input_span(ids)};
  EXPECT_EQ(epilogue.dropout.rate.threshold, 16384U);
  const ConstMatrixView x = h.input(3, kCols, std::vector<float>(3 * kCols, 1));
  const MatrixView y = h.output(3, kCols);
  h.backend().apply_epilogue(h.queue(), x, epilogue, y);
  const auto found = h.download(y);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      const bool keeps =
          dropout_keeps(epilogue.dropout.key, static_cast<std::uint64_t>(to_index(ids[i])),
                        static_cast<std::uint32_t>(j), 16384);
      ASSERT_EQ(found[i * kCols + j], keeps ? 4.0 : 0.0) << "row " << i << ", column " << j;
    }
  }
}

TEST_P(LiteralDense, NaNSurvivesTheEpilogue) {
  Harness h(GetParam());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ConstMatrixView x = h.input<float>(1, 3, {nan, -1, 1});
  Epilogue epilogue;
  epilogue.relu = true;
  const MatrixView y = h.output(1, 3);
  h.backend().apply_epilogue(h.queue(), x, epilogue, y);
  const auto found = h.download(y);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], 0);
  EXPECT_EQ(found[2], 1);
}

TEST_P(LiteralDense, ColumnMoments) {
  Harness h(GetParam());
  // Column 1 sits far from zero: m2 of 1e6 + {0, 1, 2} is 2, lost by a sum of squares in f32.
  const ConstMatrixView x = h.input<float>(3, 2, {1, 1e6F, 2, 1e6F + 1, 6, 1e6F + 2});
  const auto mean = h.output_span<double>(2);
  const auto m2 = h.output_span<double>(2);
  h.backend().column_moments(h.queue(), x, mean, m2);
  EXPECT_EQ(h.download_span(mean), (std::vector<double>{3, 1e6 + 1}));
  EXPECT_EQ(h.download_span(m2), (std::vector<double>{14, 2}));
}

TEST_P(LiteralDense, BatchNormSums) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 1, {1, 5});
  const ConstMatrixView dy = h.input<float>(2, 1, {2, 3});
  const auto sum_dy = h.output_span<double>(1);
  const auto sum_dy_xhat = h.output_span<double>(1);
  // xhat = (x - 2) * .5 = {-.5, 1.5}
  h.backend().batch_norm_sums(h.queue(), dy, x, h.input_span<double>({2}),
                              h.input_span<double>({0.5}), sum_dy, sum_dy_xhat);
  EXPECT_EQ(h.download_span(sum_dy), (std::vector<double>{5}));
  EXPECT_EQ(h.download_span(sum_dy_xhat), (std::vector<double>{3.5}));
}

TEST_P(LiteralDense, BatchNormBackward) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 1, {1, 5});
  const ConstMatrixView dy = h.input<float>(2, 1, {2, 3});
  const MatrixView dx = h.output(2, 1);
  // gamma * inv_std * (dy - mean_dy - xhat * mean_dy_xhat), xhat = {-.5, 1.5}:
  // 4 * .5 * (2 - 1 + .5 * 2) = 4 and 4 * .5 * (3 - 1 - 1.5 * 2) = -2
  h.backend().batch_norm_backward(h.queue(), dy, x, h.input_span<double>({2}),
                                  h.input_span<double>({0.5}), h.input<float>(1, 1, {4}),
                                  h.input_span<double>({1}), h.input_span<double>({2}), dx);
  EXPECT_EQ(h.download(dx), (std::vector<double>{4, -2}));
}

TEST_P(LiteralDense, LayerNorm) {
  Harness h(GetParam());
  // Mean 2, variance 1, epsilon 3: xhat = {-1, 1} / 2.
  const ConstMatrixView x = h.input<float>(1, 2, {1, 3});
  const MatrixView y = h.output(1, 2);
  h.backend().layer_norm(h.queue(), x, h.input<float>(1, 2, {2, 4}), h.input<float>(1, 2, {10, 20}),
                         3, y);
  EXPECT_EQ(h.download(y), (std::vector<double>{9, 22}));
}

TEST_P(LiteralDense, AdamFirstStep) {
  Harness h(GetParam());
  // After one step the corrected moments are g and g^2, so a parameter moves by the learning rate
  // against the sign of its gradient; the third one's gradient is decay * parameter = 1.
  const MatrixView p = h.matrix<float>(1, 3, Use::kInOut, {1, 1, 2});
  const ConstMatrixView g = h.input<float>(1, 3, {4, -0.5, 0});
  const MatrixView m = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const MatrixView v = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const std::vector<DecaySegment> segments{{0, 2, 0}, {2, 3, 0.5}};
  AdamSpec spec;
  spec.learning_rate = 0.25;
  spec.segments = segments;
  h.backend().adam_step(h.queue(), spec, p, g, m, v);
  expect_close(h.download(p), {0.75, 1.25, 1.75}, 1e-6, "parameters");
  expect_close(h.download(m), {0.4, -0.05, 0.1}, 1e-6, "m");
  expect_close(h.download(v), {0.016, 0.00025, 0.001}, 1e-8, "v");
}

}  // namespace

}  // namespace atl
