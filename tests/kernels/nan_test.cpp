// Operations on numbers that are none: a diverged run must be seen in its loss, and metrics must
// not count it as right.
#include <cmath>
#include <limits>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class NaNTest : public ::testing::TestWithParam<BackendAndType> {
 protected:
  void SetUp() override {
    const auto& [backend, dtype] = GetParam();
    require_backend(backend);
    if (IsSkipped() || HasFatalFailure()) return;
    h = std::make_unique<Harness>(backend, 2, dtype);
    if (dtype == DType::kBf16) precision = 0x1p-9;  // numbers below 1
  }
  std::unique_ptr<Harness> h;
  double precision = 1e-6;
};

TEST_P(NaNTest, IsNeverTheRightClass) {
  const ConstMatrixView logits = h->input(6, 3,
                                          {kNaN, 1, 5,          // first is NaN: never right
                                           kNaN, kNaN, 5,       //
                                           1, kNaN, 5,          // later ones are passed over
                                           5, kNaN, 1,          //
                                           -kInf, -kInf, kNaN,  // the first maximum
                                           -kInf, kNaN, 2});
  const auto labels = h->input_span<std::int32_t>({2, 0, 2, 0, 0, 0});
  const auto split = h->input_span<std::uint8_t>({0, 0, 1, 1, 2, 2});
  const auto counts = h->output_span<std::int64_t>(6);
  h->backend().run(h->queue(), kernels::CountCorrect{logits, labels, split, counts});
  EXPECT_EQ(h->download_span(counts), (std::vector<double>{0, 2, 2, 2, 1, 2}));
}

TEST_P(NaNTest, PredictsNoLabel) {
  const ConstMatrixView logits = h->input(1, 4, {kNaN, kNaN, kInf, -kInf});
  const auto targets = h->input_span<std::uint8_t>({1, 0, 0, 1});
  const auto counts = h->output_span<std::int64_t>(9);
  h->backend().run(h->queue(), kernels::CountMultiLabel{logits, targets,
                                                        h->input_span<std::uint8_t>({0}), counts});
  EXPECT_EQ(h->download_span(counts), (std::vector<double>{0, 1, 2, 0, 0, 0, 0, 0, 0}));
}

TEST_P(NaNTest, IsSeenInTheLossAndInItsRowAlone) {
  const ConstMatrixView logits = h->input(2, 3, {1, kNaN, 2, 1, 1, 1});
  const MatrixView dlogits = h->output(2, 3);
  const auto loss = h->output_span<double>(1);
  const auto rows = h->input_span<LocalId>({LocalId{0}, LocalId{1}});
  h->backend().run(
      h->queue(), kernels::SoftmaxCrossEntropy{logits, h->input_span<std::int32_t>({0, 0}), rows, 1,
                                               dlogits, loss});
  EXPECT_TRUE(std::isnan(h->download_span(loss)[0]));
  const auto gradient = h->download(dlogits);
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(std::isnan(gradient[static_cast<std::size_t>(k)]));
  EXPECT_NEAR(gradient[3], 1.0 / 3 - 1, precision);
}

TEST_P(NaNTest, IsSeenInTheMultiLabelLoss) {
  const ConstMatrixView logits = h->input(1, 2, {kNaN, 0});
  const MatrixView dlogits = h->output(1, 2);
  const auto loss = h->output_span<double>(1);
  h->backend().run(h->queue(), kernels::SigmoidCrossEntropy{
                                   logits, h->input_span<std::uint8_t>({1, 1}),
                                   h->input_span<LocalId>({LocalId{0}}), 1, dlogits, loss});
  EXPECT_TRUE(std::isnan(h->download_span(loss)[0]));
  EXPECT_TRUE(std::isnan(h->download(dlogits)[0]));
  EXPECT_NEAR(h->download(dlogits)[1], -0.5, precision);
}

// A NaN that came out of the forward pass lets the gradient through.
TEST_P(NaNTest, PassesTheGradientOfRelu) {
  const MatrixView dx = h->output(1, 3);
  h->backend().run(h->queue(),
                   kernels::ActivationBackward{h->input(1, 3, {1, 1, kNaN}),
                                               through_relu(h->input(1, 3, {kNaN, 0, 1}), 2, dx)});
  const auto found = h->download(dx);
  EXPECT_EQ(found[0], 2);
  EXPECT_EQ(found[1], 0);
  EXPECT_TRUE(std::isnan(found[2]));
}

TEST_P(NaNTest, StaysInItsColumn) {
  const MatrixView out = h->output<float>(1, 3);
  h->backend().run(h->queue(),
                   kernels::ColumnSums{h->input(3, 3, {1, 2, 3, 4, kNaN, 6, 7, 8, 9}), false, out});
  const auto found = h->download(out);
  EXPECT_EQ(found[0], 12);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], 18);
}

INSTANTIATE_TEST_SUITE_P(Backends, NaNTest,
                         ::testing::Combine(::testing::ValuesIn(backend_names()),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         typed_test_name);

}  // namespace

}  // namespace atl
