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
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, b, 0, c});
  EXPECT_EQ(h.download(c), product);
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kYes, b_t, 0, c});
  EXPECT_EQ(h.download(c), product);
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kYes, a_t, Transpose::kNo, b, 0, c});
  EXPECT_EQ(h.download(c), product);
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kYes, a_t, Transpose::kYes, b_t, 0, c});
  EXPECT_EQ(h.download(c), product);
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, b, 1, c});
  EXPECT_EQ(h.download(c), (std::vector<double>{14, -2, 32, -2}));
}

TEST_P(LiteralDense, GemmOverNothingIsZeroOrUnchanged) {
  Harness h(GetParam());
  const ConstMatrixView a = h.input<float>(2, 0, {});
  const ConstMatrixView b = h.input<float>(0, 2, {});
  const MatrixView c = h.output(2, 2);
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, b, 0, c});
  EXPECT_EQ(h.download(c), (std::vector<double>{0, 0, 0, 0}));
  const MatrixView d = h.matrix<float>(2, 2, Use::kInOut, {1, 2, 3, 4});
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kYes, b, Transpose::kYes, a, 1, d});
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
  epilogue.function = ActivationFunction::kRelu;
  for (const bool transposed : {false, true}) {
    const Transpose transpose = transposed ? Transpose::kYes : Transpose::kNo;
    // a b = {1, -2, 3, -4}
    const MatrixView c = h.output(2, 2);
    h.backend().run(h.queue(), kernels::Gemm{transpose, transposed ? a_t : a, Transpose::kNo, b, 0,
                                             c, epilogue});
    EXPECT_EQ(h.download(c), (std::vector<double>{11, 1, 13, 0}));
    const MatrixView d = h.matrix<float>(2, 2, Use::kInOut, {-20, 1, 5, 2});
    h.backend().run(h.queue(), kernels::Gemm{transpose, transposed ? a_t : a, Transpose::kNo, b, 1,
                                             d, epilogue});
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
  h.backend().run(h.queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, b, 0, c, epilogue});
  EXPECT_EQ(h.download(c), (std::vector<double>{5, 5}));
}

TEST_P(LiteralDense, ConvertToTheSameTypeCopies) {
  Harness h(GetParam());
  const MatrixView y = h.output<float>(2, 2);
  h.backend().run(h.queue(), kernels::Convert{h.input<float>(2, 2, {1, -2, 0x1p-140F, 3}), y});
  EXPECT_EQ(h.download(y), (std::vector<double>{1, -2, 0x1p-140, 3}));
}

TEST_P(LiteralDense, ColumnSums) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, -8});
  const MatrixView sums = h.matrix<float>(1, 2, Use::kInOut, {100, 200});
  h.backend().run(h.queue(), kernels::ColumnSums{x, true, sums});
  EXPECT_EQ(h.download(sums), (std::vector<double>{104, 194}));
  h.backend().run(h.queue(), kernels::ColumnSums{x, false, sums});
  EXPECT_EQ(h.download(sums), (std::vector<double>{4, -6}));
}

TEST_P(LiteralDense, SumsOverNoRowsAreZero) {
  Harness h(GetParam());
  const MatrixView sums = h.output(1, 2);
  h.backend().run(h.queue(), kernels::ColumnSums{h.input<float>(0, 2, {}), false, sums});
  EXPECT_EQ(h.download(sums), (std::vector<double>{0, 0}));
}

// Sums over ranks must not depend on which rank adds them, so their order is part of the contract:
// 2^60 + 1 - 2^60 is 0 in double, 2^60 - 2^60 + 1 is 1. The third column's sum needs more than f32
// before the last part is added.
TEST_P(LiteralDense, PartsAreAddedInTheirOrderInDouble) {
  Harness h(GetParam());
  const std::vector<float> parts{0x1p60F, 0x1p60F, 0x1p24F, 1, -0x1p60F, 1, -0x1p60F, 1, 1};
  const MatrixView sum = h.output<float>(1, 3);
  h.backend().run(h.queue(), kernels::SumParts{h.input<float>(3, 3, parts), sum});
  EXPECT_EQ(h.download(sum), (std::vector<double>{0, 1, 0x1p24 + 2}));
  const MatrixView sum_f64 = h.output<double>(1, 3);
  h.backend().run(h.queue(),
                  kernels::SumParts{h.input<double>(3, 3, {parts.begin(), parts.end()}), sum_f64});
  EXPECT_EQ(h.download(sum_f64), (std::vector<double>{0, 1, 0x1p24 + 2}));
  h.backend().run(h.queue(), kernels::SumParts{h.input<float>(1, 3, {7, 8, 9}), sum});
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
  h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{3, -1.5, -5, 2.5}));
  epilogue.function = ActivationFunction::kRelu;
  h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{3, 0, 0, 2.5}));
  const ConstMatrixView dy = h.input<float>(2, 2, {10, 20, 30, 40});
  const MatrixView dx = h.output(2, 2);
  h.backend().run(h.queue(), kernels::ActivationBackward{dy, through_relu(y, 2, dx)});
  EXPECT_EQ(h.download(dx), (std::vector<double>{20, 0, 0, 80}));
  // The same with its sums, in place, added to 1 and 2.
  const MatrixView in_place = h.matrix<float>(2, 2, Use::kInOut, {10, 20, 30, 40});
  const MatrixView sums = h.matrix<float>(1, 2, Use::kInOut, {1, 2});
  h.backend().run(h.queue(),
                  kernels::ColumnSums{in_place, true, sums, through_relu(y, 2, in_place)});
  EXPECT_EQ(h.download(in_place), (std::vector<double>{20, 0, 0, 80}));
  EXPECT_EQ(h.download(sums), (std::vector<double>{21, 82}));
}

TEST_P(LiteralDense, CombinesTwoMatrices) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, -4});
  const MatrixView z = h.matrix<float>(2, 2, Use::kInOut, {10, 20, 30, 40});
  const MatrixView y = h.output(2, 2);
  h.backend().run(h.queue(), kernels::Combine{2, x, 0.5F, z, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{7, 14, 21, 12}));
  h.backend().run(h.queue(), kernels::Combine{1, x, -1, z, z});
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
  h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
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
    h.backend().run(h.queue(), kernels::ApplyEpilogue{
                                   h.input(1, kCols, std::vector<float>(kCols, 1)), epilogue, y});
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
  epilogue.function = ActivationFunction::kRelu;
  const MatrixView y = h.output(1, 3);
  h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  const auto found = h.download(y);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], 0);
  EXPECT_EQ(found[2], 1);
}

// As torch.nn.functional gives them; dropout keeps all of what it may keep here.
TEST_P(LiteralDense, ActivationFunctionsAndTheirSlopes) {
  struct Case {
    ActivationFunction function;
    std::vector<double> y;
    std::vector<double> slope;
  };
  const double e = std::exp(-1);
  const Case cases[] = {
      {ActivationFunction::kRelu, {0, 0, 0, 0.5, 2}, {0, 0, 0, 1, 1}},
      {ActivationFunction::kLeakyRelu, {-0.02, -0.01, 0, 0.5, 2}, {0.01, 0.01, 0.01, 1, 1}},
      {ActivationFunction::kElu, {e * e - 1, e - 1, 0, 0.5, 2}, {e * e, e, 1, 1, 1}},
      {ActivationFunction::kGelu,
       {-0.0455002639, -0.1586552539, 0, 0.3457312306, 1.9544997361},
       {-0.0852318011, -0.0833154706, 0.5, 0.8674951247, 1.0852318011}}};
  for (const Case& expected : cases) {
    Harness h(GetParam());
    const ConstMatrixView x = h.input<float>(1, 5, {-2, -1, 0, 0.5, 2});
    const MatrixView y = h.output(1, 5);
    const MatrixView dx = h.output(1, 5);
    Epilogue epilogue;
    epilogue.function = expected.function;
    h.backend().run(h.queue(), kernels::ApplyEpilogue{x, epilogue, y});
    const ConstMatrixView from = expected.function == ActivationFunction::kGelu ? x : y;
    h.backend().run(h.queue(), kernels::ActivationBackward{h.input<float>(1, 5, {1, 1, 1, 1, 1}),
                                                           {from, dx, expected.function}});
    expect_close(h.download(y), expected.y, 2e-7, to_string(expected.function));
    expect_close(h.download(dx), expected.slope, 3e-7, to_string(expected.function));
  }
}

TEST_P(LiteralDense, NaNSurvivesEveryFunction) {
  for (const ActivationFunction function : kActivationFunctions) {
    Harness h(GetParam());
    const MatrixView y = h.output(1, 2);
    Epilogue epilogue;
    epilogue.function = function;
    h.backend().run(h.queue(),
                    kernels::ApplyEpilogue{h.input<float>(1, 2, {kNaN, 1}), epilogue, y});
    EXPECT_TRUE(std::isnan(h.download(y)[0])) << to_string(function);
    EXPECT_FALSE(std::isnan(h.download(y)[1])) << to_string(function);
  }
}

// An output of 0 may be one of elu(0) or one that fell.
TEST_P(LiteralDense, WhatFellIsDrawnAgainBackward) {
  constexpr std::int64_t kCols = 40;
  const RandomKey key{3, RandomStream::kDropout, 1, 2};
  for (const ActivationFunction function : kCurvedFunctions) {
    Harness h(GetParam());
    const DropoutSpec dropout{key, dropout_threshold(0.5), h.input_span<GlobalId>({GlobalId{7}})};
    const MatrixView dx = h.output(1, kCols);
    h.backend().run(h.queue(),
                    kernels::ActivationBackward{
                        h.input(1, kCols, std::vector<float>(kCols, 3)),
                        {h.input(1, kCols, std::vector<float>(kCols, 0)), dx, function, dropout}});
    const double slope = function == ActivationFunction::kElu         ? 1
                         : function == ActivationFunction::kLeakyRelu ? 0.01
                                                                      : 0.5;
    const auto found = h.download(dx);
    for (std::uint32_t j = 0; j < kCols; ++j) {
      const double expected = dropout_keeps(key, 7, j, 32768) ? 3 * 2 * slope : 0;
      ASSERT_NEAR(found[j], expected, 1e-6) << to_string(function) << ", column " << j;
    }
  }
}

TEST_P(LiteralDense, ScalesByANumberInMemory) {
  Harness h(GetParam());
  const MatrixView x = h.matrix<float>(2, 2, Use::kInOut, {1, -2, 3, 0});
  h.backend().run(h.queue(), kernels::Scale{x, h.input<float>(1, 1, {-1.5F}), x});
  EXPECT_EQ(h.download(x), (std::vector<double>{-1.5, 3, -4.5, 0}));
}

TEST_P(LiteralDense, DotProducts) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 2, {1, 2, 3, 4});
  const MatrixView sum = h.matrix<float>(1, 1, Use::kInOut, {100});
  h.backend().run(h.queue(), kernels::Dot{x, h.input<float>(2, 2, {5, -6, 7, 8}), true, sum});
  EXPECT_EQ(h.download(sum), (std::vector<double>{100 + 5 - 12 + 21 + 32}));
  h.backend().run(h.queue(), kernels::Dot{x, x, false, sum});
  EXPECT_EQ(h.download(sum), (std::vector<double>{30}));
  // The sum of a long row in double: 2^24 + 1000 is no number of f32.
  std::vector<float> row(1001, 1);
  row.front() = 0x1p12F;
  const MatrixView wide = h.output<double>(1, 1);
  const ConstMatrixView flat = h.input<float>(1, 1001, row);
  h.backend().run(h.queue(), kernels::Dot{flat, flat, false, wide});
  EXPECT_EQ(h.download(wide), (std::vector<double>{0x1p24 + 1000}));
  h.backend().run(h.queue(),
                  kernels::Dot{h.input<float>(0, 3, {}), h.input<float>(0, 3, {}), false, sum});
  EXPECT_EQ(h.download(sum), (std::vector<double>{0}));
}

TEST_P(LiteralDense, MaximumAndItsGradients) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(1, 5, {1, 2, 3, kNaN, 5});
  const ConstMatrixView z = h.input<float>(1, 5, {2, 2, -3, 4, kNaN});
  const ConstMatrixView dy = h.input<float>(1, 5, {10, 20, 30, 40, 50});
  const MatrixView y = h.output(1, 5);
  h.backend().run(h.queue(), kernels::Maximum{x, z, y});
  const auto found = h.download(y);
  EXPECT_EQ(std::vector<double>(found.begin(), found.begin() + 3), (std::vector<double>{2, 2, 3}));
  EXPECT_TRUE(std::isnan(found[3]) && std::isnan(found[4]));
  const MatrixView dx = h.output(1, 5);
  h.backend().run(h.queue(), kernels::MaximumBackward{dy, x, z, MaximumOf::kFirst, dx});
  EXPECT_EQ(h.download(dx), (std::vector<double>{0, 20, 30, 0, 0}));
  h.backend().run(h.queue(), kernels::MaximumBackward{dy, x, z, MaximumOf::kSecond, dx});
  EXPECT_EQ(h.download(dx), (std::vector<double>{10, 0, 0, 40, 50}));
}

TEST_P(LiteralDense, AdamFirstStep) {
  Harness h(GetParam());
  // After one step the corrected moments are g and g^2, so a parameter moves by the learning rate
  // against the sign of its gradient; the third one's gradient is decay * parameter = 1.
  const MatrixView p = h.matrix<float>(1, 3, Use::kInOut, {1, 1, 2});
  const ConstMatrixView g = h.input<float>(1, 3, {4, -0.5, 0});
  const MatrixView m = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const MatrixView v = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const std::vector<AdamSegment> segments{{0, 2, 0}, {2, 3, 0.5}};
  AdamSpec spec;
  spec.segments = segments;
  spec.state = h.epoch_state(
      {.learning_rate = 0.25, .first_correction = 1 - 0.9, .second_correction = 1 - 0.999});
  h.backend().run(h.queue(), kernels::AdamStep{spec, p, g, m, v});
  expect_close(h.download(p), {0.75, 1.25, 1.75}, 1e-6, "parameters");
  expect_close(h.download(m), {0.4, -0.05, 0.1}, 1e-6, "m");
  expect_close(h.download(v), {0.016, 0.00025, 0.001}, 1e-8, "v");
}

// The first step moves by the rate against the gradient's sign, whatever its size.
TEST_P(LiteralDense, AdamWithRatesOfSegmentsAndDecoupledDecay) {
  Harness h(GetParam());
  const MatrixView p = h.matrix<float>(1, 3, Use::kInOut, {1, 1, 2});
  const ConstMatrixView g = h.input<float>(1, 3, {4, -0.5, 3});
  const MatrixView m = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const MatrixView v = h.matrix<float>(1, 3, Use::kInOut, {0, 0, 0});
  const std::vector<AdamSegment> segments{{0, 1, 0}, {1, 2, 0, 0.5}, {2, 3, 0.5, 2}};
  AdamSpec spec;
  spec.decoupled = true;
  spec.segments = segments;
  spec.state = h.epoch_state(
      {.learning_rate = 0.25, .first_correction = 1 - 0.9, .second_correction = 1 - 0.999});
  h.backend().run(h.queue(), kernels::AdamStep{spec, p, g, m, v});
  // The third: rate 0.5, so 2 * (1 - 0.5 * 0.5) - 0.5.
  expect_close(h.download(p), {0.75, 1.125, 1}, 1e-6, "parameters");
  expect_close(h.download(m), {0.4, -0.05, 0.3}, 1e-6, "m");  // decay is not in the gradient
}

// A norm of 5 to one of 1; one of 0.5 stays.
TEST_P(LiteralDense, AdamClipsTheNormOfGradients) {
  for (const bool clips : {true, false}) {
    Harness h(GetParam());
    const float scale = clips ? 1.0F : 0.1F;
    const ConstMatrixView g = h.input<float>(1, 2, {3 * scale, -4 * scale});
    const MatrixView norm = h.output<double>(1, 1);
    h.backend().run(h.queue(), kernels::Dot{g, g, false, norm});
    const MatrixView p = h.matrix<float>(1, 2, Use::kInOut, {1, 1});
    const MatrixView m = h.matrix<float>(1, 2, Use::kInOut, {0, 0});
    const MatrixView v = h.matrix<float>(1, 2, Use::kInOut, {0, 0});
    const std::vector<AdamSegment> segments{{0, 2, 0}};
    AdamSpec spec;
    spec.segments = segments;
    spec.squared_norm = static_cast<const double*>(norm.data);
    spec.most_norm = 1;
    spec.state = h.epoch_state(
        {.learning_rate = 0.25, .first_correction = 1 - 0.9, .second_correction = 1 - 0.999});
    h.backend().run(h.queue(), kernels::AdamStep{spec, p, g, m, v});
    const double factor = clips ? 1 / (5 + 1e-6) : 0.1;
    expect_close(h.download(m), {0.1 * 3 * factor, -0.1 * 4 * factor}, 1e-7, "m");
    expect_close(h.download(v), {0.001 * 9 * factor * factor, 0.001 * 16 * factor * factor}, 1e-8,
                 "v");
  }
}

}  // namespace

}  // namespace atl
