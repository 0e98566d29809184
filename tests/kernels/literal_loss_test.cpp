// Losses and metrics with numbers worked out by hand.
#include <cmath>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class LiteralLoss : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralLoss, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

const float kLog3 = std::log(3.0F);

TEST_P(LiteralLoss, SoftmaxCrossEntropy) {
  Harness h(GetParam());
  // Probabilities {1/4, 3/4} in both rows that count; the middle row has no label. The last row's
  // logits would overflow an exponential that does not subtract the maximum.
  const ConstMatrixView logits = h.input<float>(3, 2, {0, kLog3, 5, 5, 1000, 1000 + kLog3});
  const MatrixView dlogits = h.output(3, 2);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(),
                  kernels::SoftmaxCrossEntropy{logits, h.input_span<std::int32_t>({1, -1, 0}),
                                               h.input_span<LocalId>({LocalId{0}, LocalId{2}}), 2,
                                               dlogits, loss});
  expect_close(h.download(dlogits), {0.5, -0.5, 0, 0, -1.5, 1.5}, 1e-4, "dlogits");
  // -log(3/4) - log(1/4)
  expect_close(h.download_span(loss), {1.6739764335716716}, 1e-4, "loss");
}

// The numbers are those of torch.nn.CrossEntropyLoss(weight=[1, 3], label_smoothing=0.2,
// reduction="sum") worked out by hand: a = 0.8 w_y [c = y] + 0.1 w_c.
TEST_P(LiteralLoss, WeightedAndSmoothedCrossEntropy) {
  Harness h(GetParam());
  // Probabilities {1/4, 3/4}, as above. Labels 1 and 0: a = {0.1, 2.7} and {0.9, 0.3}.
  const ConstMatrixView logits = h.input<float>(3, 2, {0, kLog3, 5, 5, 1000, 1000 + kLog3});
  const MatrixView dlogits = h.output(3, 2);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(), kernels::SoftmaxCrossEntropy{
                                 logits,
                                 h.input_span<std::int32_t>({1, -1, 0}),
                                 h.input_span<LocalId>({LocalId{0}, LocalId{2}}),
                                 2,
                                 dlogits,
                                 loss,
                                 {.class_weights = h.input_span<float>({1, 3}), .smoothing = 0.2}});
  expect_close(h.download(dlogits), {1.2, -1.2, 0, 0, -1.2, 1.2}, 1e-4, "dlogits");
  // 0.1 log 4 + 2.7 log(4/3) + 0.9 log 4 + 0.3 log(4/3)
  expect_close(h.download_span(loss), {1.3862943611198906 + 3 * 0.28768207245178085}, 1e-4, "loss");
}

// A label of weight 0 has neither a loss nor a gradient.
TEST_P(LiteralLoss, WeightsCountOnceAndWithTheirLabel) {
  Harness h(GetParam());
  const ConstMatrixView logits = h.input<float>(2, 2, {0, kLog3, 0, kLog3});
  const MatrixView dlogits = h.output(2, 2);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(),
                  kernels::SoftmaxCrossEntropy{logits,
                                               h.input_span<std::int32_t>({0, 1}),
                                               h.input_span<LocalId>({LocalId{0}, LocalId{1}}),
                                               1,
                                               dlogits,
                                               loss,
                                               {.class_weights = h.input_span<float>({2, 0})}});
  expect_close(h.download(dlogits), {-1.5, 1.5, 0, 0}, 1e-6, "dlogits");
  expect_close(h.download_span(loss), {2 * 1.3862943611198906}, 1e-6, "loss");
}

// Errors of the values 1 to 6 in three rows, of which the first and the last count.
void expect_errors(const std::string& backend, ErrorMeasure measure,
                   const std::vector<float>& targets, const std::vector<double>& gradient,
                   double loss) {
  Harness h(backend);
  const ConstMatrixView values = h.input<float>(3, 2, {1, 2, 3, 4, 5, 6});
  const MatrixView dvalues = h.output(3, 2);
  const auto loss_sum = h.output_span<double>(1);
  h.backend().run(h.queue(), kernels::ErrorLoss{measure, values, h.input_span(targets),
                                                h.input_span<LocalId>({LocalId{0}, LocalId{2}}),
                                                0.5, dvalues, loss_sum});
  EXPECT_EQ(h.download(dvalues), gradient);
  EXPECT_EQ(h.download_span(loss_sum), std::vector<double>{loss});
}

TEST_P(LiteralLoss, SquaredError) {
  expect_errors(GetParam(), ErrorMeasure::kSquared, {3, kNaN, 0, 0, 4.5, 9}, {-2, 0, 0, 0, 0.5, -3},
                4 + 0.25 + 9);
}

TEST_P(LiteralLoss, AbsoluteError) {
  expect_errors(GetParam(), ErrorMeasure::kAbsolute, {3, kNaN, 0, 0, 4.5, 6},
                {-0.5, 0, 0, 0, 0.5, 0}, 2.5);
}

TEST_P(LiteralLoss, SigmoidCrossEntropy) {
  Harness h(GetParam());
  const ConstMatrixView logits = h.input<float>(3, 2, {0, kLog3, -kLog3, 8, 200, -200});
  const MatrixView dlogits = h.output(3, 2);
  const auto loss = h.output_span<double>(1);
  const auto targets = h.input_span<std::uint8_t>({1, 0, 0, 255, 1, 1});
  h.backend().run(h.queue(),
                  kernels::SigmoidCrossEntropy{
                      logits, targets, h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{2}}),
                      1, dlogits, loss});
  expect_close(h.download(dlogits), {-0.5, 0.75, 0.25, 0, 0, -1}, 1e-6, "dlogits");
  // log 2 + log 4 + log(4/3) + nothing + 0 + 200
  expect_close(h.download_span(loss),
               {0.6931471805599453 + 1.3862943611198906 + 0.28768207245178085 + 200}, 1e-7, "loss");
}

// Focal losses worked out by hand, with p the probability of what is wanted: (1 - p)^2 -log p, and
// the gradient of cross-entropy times (1 - p)^2 (1 + 2 p -log p / (1 - p)).
TEST_P(LiteralLoss, FocalCrossEntropy) {
  Harness h(GetParam());
  // Label 1 has p = 3/4, label 0 of weight 2 has p = 1/4; the last row is sure of its label.
  const ConstMatrixView logits = h.input<float>(3, 2, {0, kLog3, 0, kLog3, 300, 0});
  const MatrixView dlogits = h.output(3, 2);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(), kernels::SoftmaxCrossEntropy{
                                 logits,
                                 h.input_span<std::int32_t>({1, 0, 0}),
                                 h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{2}}),
                                 1,
                                 dlogits,
                                 loss,
                                 {.class_weights = h.input_span<float>({2, 1}), .focus = 2}});
  const double log_4_3 = 0.28768207245178085;
  const double log_4 = 1.3862943611198906;
  const double sure = 1.0 / 16 * (1 + 6 * log_4_3);
  const double unsure = 2 * 9.0 / 16 * (1 + 2.0 / 3 * log_4);
  expect_close(h.download(dlogits),
               {0.25 * sure, -0.25 * sure, -0.75 * unsure, 0.75 * unsure, 0, 0}, 1e-6, "dlogits");
  expect_close(h.download_span(loss), {log_4_3 / 16 + 2 * 9.0 / 16 * log_4}, 1e-6, "loss");
}

TEST_P(LiteralLoss, WeightedFocalSigmoid) {
  Harness h(GetParam());
  // Column 0 wants 1 with p = 3/4 and 0 with p = 1/4; column 1 misses a target, and has 0 with
  // p = 1/2. Weights of 0 and 1: {2, 5} and {3, 7}.
  const ConstMatrixView logits = h.input<float>(2, 2, {kLog3, 4, kLog3, 0});
  const auto targets = h.input_span<std::uint8_t>({1, 255, 0, 0});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}});
  const auto weights = h.input_span<float>({2, 5, 3, 7});
  const MatrixView dlogits = h.output(2, 2);
  const auto loss = h.output_span<double>(1);
  const double log_4_3 = 0.28768207245178085;
  const double log_4 = 1.3862943611198906;
  const double log_2 = 0.6931471805599453;
  h.backend().run(h.queue(), kernels::SigmoidCrossEntropy{
                                 logits, targets, rows, 1, dlogits, loss, {.weights = weights}});
  expect_close(h.download(dlogits), {5 * -0.25, 0, 2 * 0.75, 3 * 0.5}, 1e-6, "weighted dlogits");
  expect_close(h.download_span(loss), {5 * log_4_3 + 2 * log_4 + 3 * log_2}, 1e-6, "weighted loss");
  h.backend().run(h.queue(),
                  kernels::SigmoidCrossEntropy{
                      logits, targets, rows, 1, dlogits, loss, {.weights = weights, .focus = 2}});
  expect_close(h.download(dlogits),
               {5 * -0.25 / 16 * (1 + 6 * log_4_3), 0, 2 * 0.75 * 9 / 16 * (1 + 2.0 / 3 * log_4),
                3 * 0.5 / 4 * (1 + 2 * log_2)},
               1e-6, "focal dlogits");
  expect_close(h.download_span(loss), {5 * log_4_3 / 16 + 2 * 9.0 / 16 * log_4 + 3 * log_2 / 4},
               1e-6, "focal loss");
}

TEST_P(LiteralLoss, NoRowsGiveNoLossAndNoGradient) {
  Harness h(GetParam());
  const ConstMatrixView logits = h.input<float>(2, 1, {1, 2});
  const MatrixView dlogits = h.output(2, 1);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(), kernels::SoftmaxCrossEntropy{
                                 logits, h.input_span<std::int32_t>({0, 0}), {}, 1, dlogits, loss});
  EXPECT_EQ(h.download(dlogits), (std::vector<double>{0, 0}));
  EXPECT_EQ(h.download_span(loss), (std::vector<double>{0}));
}

TEST_P(LiteralLoss, CountCorrect) {
  Harness h(GetParam());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ConstMatrixView logits = h.input<float>(7, 2,
                                                {1, 2,      // train, right
                                                 3, 3,      // train, tie: class 0, wrong
                                                 3, 3,      // valid, tie: right
                                                 1, 2,      // valid without label
                                                 nan, nan,  // test: never right
                                                 2, 1,      // test, right
                                                 2, 1});    // in no split
  const auto labels = h.input_span<std::int32_t>({1, 1, 0, -1, 0, 0, 0});
  const auto split = h.input_span<std::uint8_t>({0, 0, 1, 1, 2, 2, 255});
  const auto counts = h.output_span<std::int64_t>(6);
  h.backend().run(h.queue(), kernels::CountCorrect{logits, labels, split, counts});
  EXPECT_EQ(h.download_span(counts), (std::vector<double>{1, 2, 1, 1, 1, 2}));
}

TEST_P(LiteralLoss, CountMultiLabel) {
  Harness h(GetParam());
  const ConstMatrixView logits = h.input<float>(3, 3, {1, 1, -1, 0, -1, 2, 5, 5, 5});
  const auto targets = h.input_span<std::uint8_t>({1, 0, 1, 1, 0, 255, 1, 1, 1});
  const auto split = h.input_span<std::uint8_t>({0, 2, 255});
  const auto counts = h.output_span<std::int64_t>(9);
  h.backend().run(h.queue(), kernels::CountMultiLabel{logits, targets, split, counts});
  // Train: one of each. Test: logit 0 predicts 0, a false negative; a true negative counts nowhere.
  EXPECT_EQ(h.download_span(counts), (std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 1}));
}

}  // namespace

}  // namespace atl
