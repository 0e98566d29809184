// Dense operations, epilogues and the optimizer with numbers worked out by hand.
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

// The sum starts from beta c, and what follows is applied to the whole of it.
TEST_P(LiteralDense, GemmWithEpilogue) {
  Harness h(GetParam());
  const ConstMatrixView a = h.input<float>(2, 2, {1, 2, 3, 4});
  const ConstMatrixView a_t = h.input<float>(2, 2, {1, 3, 2, 4});
  const ConstMatrixView b = h.input<float>(2, 2, {1, 0, 0, -1});
  Epilogue epilogue;
  epilogue.beta = h.input<float>(1, 2, {10, 3});
  epilogue.relu = true;
  for (const bool transposed : {false, true}) {
    const Transpose transpose = transposed ? Transpose::kYes : Transpose::kNo;
    // a b = {1, -2, 3, -4}
    const MatrixView c = h.output(2, 2);
    h.backend().gemm(h.queue(), transpose, transposed ? a_t : a, Transpose::kNo, b, 0, c, epilogue);
    EXPECT_EQ(h.download(c), (std::vector<double>{11, 1, 13, 0}));
    const MatrixView d = h.matrix<float>(2, 2, Use::kInOut, {-20, 1, 5, 2});
    h.backend().gemm(h.queue(), transpose, transposed ? a_t : a, Transpose::kNo, b, 1, d, epilogue);
    EXPECT_EQ(h.download(d), (std::vector<double>{0, 2, 18, 1}));
  }
}

TEST_P(LiteralDense, GemmOverNothingStillHasItsEpilogue) {
  Harness h(GetParam());
  const ConstMatrixView a = h.input<float>(2, 0, {});
  const ConstMatrixView b = h.input<float>(0, 1, {});
  Epilogue epilogue;
  epilogue.beta = h.input<float>(1, 1, {5});
  const MatrixView c = h.output(2, 1);
  h.backend().gemm(h.queue(), Transpose::kNo, a, Transpose::kNo, b, 0, c, epilogue);
  EXPECT_EQ(h.download(c), (std::vector<double>{5, 5}));
}

TEST_P(LiteralDense, ConvertToTheSameTypeCopies) {
  Harness h(GetParam());
  const MatrixView y = h.output<float>(2, 2);
  h.backend().convert(h.queue(), h.input<float>(2, 2, {1, -2, 0x1p-140F, 3}), y);
  EXPECT_EQ(h.download(y), (std::vector<double>{1, -2, 0x1p-140, 3}));
}

TEST_P(LiteralDense, ColumnSums) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, -8});
  const MatrixView sums = h.matrix<float>(1, 2, Use::kInOut, {100, 200});
  h.backend().column_sums(h.queue(), x, true, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{104, 194}));
  h.backend().column_sums(h.queue(), x, false, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{4, -6}));
}

TEST_P(LiteralDense, SumsOverNoRowsAreZero) {
  Harness h(GetParam());
  const MatrixView sums = h.output(1, 2);
  h.backend().column_sums(h.queue(), h.input<float>(0, 2, {}), false, sums);
  EXPECT_EQ(h.download(sums), (std::vector<double>{0, 0}));
}

// Sums over ranks must not depend on which rank adds them, so their order is part of the contract:
// 2^60 + 1 - 2^60 is 0 in double, 2^60 - 2^60 + 1 is 1. The third column's sum needs more than f32
// before the last part is added.
TEST_P(LiteralDense, PartsAreAddedInTheirOrderInDouble) {
  Harness h(GetParam());
  const std::vector<float> parts{0x1p60F, 0x1p60F, 0x1p24F, 1, -0x1p60F, 1, -0x1p60F, 1, 1};
  const MatrixView sum = h.output<float>(1, 3);
  h.backend().sum_parts(h.queue(), h.input<float>(3, 3, parts), sum);
  EXPECT_EQ(h.download(sum), (std::vector<double>{0, 1, 0x1p24 + 2}));
  const MatrixView sum_f64 = h.output<double>(1, 3);
  h.backend().sum_parts(h.queue(), h.input<double>(3, 3, {parts.begin(), parts.end()}), sum_f64);
  EXPECT_EQ(h.download(sum_f64), (std::vector<double>{0, 1, 0x1p24 + 2}));
  h.backend().sum_parts(h.queue(), h.input<float>(1, 3, {7, 8, 9}), sum);
  EXPECT_EQ(h.download(sum), (std::vector<double>{7, 8, 9}));
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
  h.backend().relu_dropout_backward(h.queue(), dy, {y, 2, dx});
  EXPECT_EQ(h.download(dx), (std::vector<double>{20, 0, 0, 80}));
  // The same with its sums, in place, added to 1 and 2.
  const MatrixView in_place = h.matrix<float>(2, 2, Use::kInOut, {10, 20, 30, 40});
  const MatrixView sums = h.matrix<float>(1, 2, Use::kInOut, {1, 2});
  h.backend().column_sums(h.queue(), in_place, true, sums, {y, 2, in_place});
  EXPECT_EQ(h.download(in_place), (std::vector<double>{20, 0, 0, 80}));
  EXPECT_EQ(h.download(sums), (std::vector<double>{21, 82}));
}

TEST_P(LiteralDense, CombinesTwoMatrices) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, -4});
  const MatrixView z = h.matrix<float>(2, 2, Use::kInOut, {10, 20, 30, 40});
  const MatrixView y = h.output(2, 2);
  h.backend().combine(h.queue(), 2, x, 0.5F, z, y);
  EXPECT_EQ(h.download(y), (std::vector<double>{7, 14, 21, 12}));
  h.backend().combine(h.queue(), 1, x, -1, z, z);
  EXPECT_EQ(h.download(z), (std::vector<double>{-9, -18, -27, -44}));
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

// One spec serves every epoch: the number comes from memory when the operation runs.
TEST_P(LiteralDense, EpochOfDropoutComesFromTheState) {
  Harness h(GetParam());
  constexpr std::int64_t kCols = 64;
  const MatrixView y = h.output(1, kCols);
  for (const std::uint32_t epoch : {7U, 8U}) {
    Epilogue epilogue;
    epilogue.dropout = {{42, RandomStream::kDropout, 1, 1000},
                        dropout_threshold(0.5),
                        h.input_span<GlobalId>({GlobalId{5}}),
                        h.epoch_state({.epoch = epoch})};
    h.backend().apply_epilogue(h.queue(), h.input(1, kCols, std::vector<float>(kCols, 1)), epilogue,
                               y);
    const auto found = h.download(y);
    for (std::uint32_t j = 0; j < kCols; ++j) {
      const RandomKey key{42, RandomStream::kDropout, 1, epoch};
      ASSERT_EQ(found[j], dropout_keeps(key, 5, j, 32768) ? 2.0 : 0.0) << epoch << ", " << j;
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
  spec.segments = segments;
  spec.state = h.epoch_state(
      {.learning_rate = 0.25, .first_correction = 1 - 0.9, .second_correction = 1 - 0.999});
  h.backend().adam_step(h.queue(), spec, p, g, m, v);
  expect_close(h.download(p), {0.75, 1.25, 1.75}, 1e-6, "parameters");
  expect_close(h.download(m), {0.4, -0.05, 0.1}, 1e-6, "m");
  expect_close(h.download(v), {0.016, 0.00025, 0.001}, 1e-8, "v");
}

}  // namespace

}  // namespace atl
