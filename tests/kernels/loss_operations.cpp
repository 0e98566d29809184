#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

// Every third row has no part in the loss.
std::vector<LocalId> loss_rows(std::int64_t rows) {
  std::vector<LocalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i % 3 != 1) ids.push_back(LocalId{static_cast<std::int32_t>(i)});
  }
  return ids;
}

std::vector<float> random_logits(std::int64_t count) {
  auto logits = random_floats(count, 1);
  for (float& value : logits) value *= 8;
  return logits;
}

// 0, 1 and a few 255.
std::vector<std::uint8_t> random_targets(std::int64_t count) {
  std::vector<std::uint8_t> targets;
  for (const std::int32_t value : random_integers(count, 7, 2)) {
    targets.push_back(value == 6 ? 255 : static_cast<std::uint8_t>(value % 2));
  }
  return targets;
}

// 0, 1, 2 and 255.
std::vector<std::uint8_t> random_split(std::int64_t rows) {
  std::vector<std::uint8_t> split;
  for (const std::int32_t value : random_integers(rows, 4, 3)) {
    split.push_back(value == 3 ? 255 : static_cast<std::uint8_t>(value));
  }
  return split;
}

Outputs softmax_cross_entropy(Harness& h, std::int64_t rows, std::int64_t cols) {
  auto labels = random_integers(rows, static_cast<std::int32_t>(cols), 4);
  for (std::int64_t i = 1; i < rows; i += 3) labels[static_cast<std::size_t>(i)] = -1;
  const ConstMatrixView logits = h.input(rows, cols, random_logits(rows * cols));
  const MatrixView dlogits = h.output(rows, cols);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(),
                  kernels::SoftmaxCrossEntropy{logits, h.input_span(labels),
                                               h.input_span(loss_rows(rows)), 0.5, dlogits, loss});
  return {h.result(dlogits), h.result(loss)};
}

Outputs spread_cross_entropy(Harness& h, std::int64_t rows, std::int64_t cols, bool weighted,
                             double smoothing, double focus) {
  const auto labels = random_integers(rows, static_cast<std::int32_t>(cols), 4);
  const ConstMatrixView logits = h.input(rows, cols, random_logits(rows * cols));
  const MatrixView dlogits = h.output(rows, cols);
  const auto loss = h.output_span<double>(1);
  SoftmaxTarget target;
  target.smoothing = smoothing;
  target.focus = focus;
  if (weighted) {
    std::vector<float> weights = random_floats(cols, 6);
    for (float& weight : weights) weight = weight < -0.5F ? 0 : weight + 1;
    target.class_weights = h.input_span(weights);
  }
  h.backend().run(h.queue(), kernels::SoftmaxCrossEntropy{logits, h.input_span(labels),
                                                          h.input_span(loss_rows(rows)), 0.5,
                                                          dlogits, loss, target});
  return {h.result(dlogits), h.result(loss)};
}

Outputs error_loss(Harness& h, std::int64_t rows, std::int64_t cols, ErrorMeasure measure) {
  std::vector<float> targets = random_logits(rows * cols);
  for (std::size_t k = 0; k < targets.size(); k += 5) targets[k] = kNaN;
  const ConstMatrixView values = h.input(rows, cols, random_floats(rows * cols, 2));
  const MatrixView dvalues = h.output(rows, cols);
  const auto loss = h.output_span<double>(1);
  h.backend().run(h.queue(), kernels::ErrorLoss{measure, values, h.input_span(targets),
                                                h.input_span(loss_rows(rows)), 0.5, dvalues, loss});
  return {h.result(dvalues), h.result(loss)};
}

Outputs sigmoid_cross_entropy(Harness& h, std::int64_t rows, std::int64_t cols, bool weighted,
                              double focus) {
  const ConstMatrixView logits = h.input(rows, cols, random_logits(rows * cols));
  const MatrixView dlogits = h.output(rows, cols);
  const auto loss = h.output_span<double>(1);
  SigmoidTarget target;
  target.focus = focus;
  if (weighted) {
    std::vector<float> weights = random_floats(2 * cols, 6);
    for (float& weight : weights) weight = weight < -0.5F ? 0 : weight + 1;
    target.weights = h.input_span(weights);
  }
  h.backend().run(h.queue(), kernels::SigmoidCrossEntropy{
                                 logits, h.input_span(random_targets(rows * cols)),
                                 h.input_span(loss_rows(rows)), 0.5, dlogits, loss, target});
  return {h.result(dlogits), h.result(loss)};
}

Outputs count_correct(Harness& h, std::int64_t rows, std::int64_t cols) {
  auto labels = random_integers(rows, static_cast<std::int32_t>(cols), 4);
  for (std::int64_t i = 0; i < rows; i += 4) labels[static_cast<std::size_t>(i)] = -1;
  // Small integers, so that maxima tie.
  const auto integers = random_integers(rows * cols, 3, 5);
  const ConstMatrixView logits =
      h.input(rows, cols, std::vector<float>(integers.begin(), integers.end()));
  const auto counts = h.output_span<std::int64_t>(6);
  h.backend().run(h.queue(), kernels::CountCorrect{logits, h.input_span(labels),
                                                   h.input_span(random_split(rows)), counts});
  return {h.result(counts)};
}

Outputs count_multi_label(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView logits = h.input(rows, cols, random_logits(rows * cols));
  const auto counts = h.output_span<std::int64_t>(9);
  h.backend().run(h.queue(),
                  kernels::CountMultiLabel{logits, h.input_span(random_targets(rows * cols)),
                                           h.input_span(random_split(rows)), counts});
  return {h.result(counts)};
}

}  // namespace

std::vector<TestedOperation> loss_operations() {
  const auto spread = [](bool weighted, double smoothing, double focus = 0) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return spread_cross_entropy(h, rows, cols, weighted, smoothing, focus);
    };
  };
  const auto sigmoid = [](bool weighted, double focus) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return sigmoid_cross_entropy(h, rows, cols, weighted, focus);
    };
  };
  const auto error = [](ErrorMeasure measure) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return error_loss(h, rows, cols, measure);
    };
  };
  return {{"softmax_cross_entropy", softmax_cross_entropy, 1e-6},
          {"weighted_cross_entropy", spread(true, 0), 1e-6},
          {"smoothed_cross_entropy", spread(false, 0.1), 1e-6},
          {"weighted_smoothed_cross_entropy", spread(true, 0.3), 1e-6},
          {"squared_error_loss", error(ErrorMeasure::kSquared), 1e-6},
          {"absolute_error_loss", error(ErrorMeasure::kAbsolute), 1e-6},
          {"focal_cross_entropy", spread(false, 0, 2), 1e-6},
          {"weighted_focal_cross_entropy", spread(true, 0, 0.5), 1e-6},
          {"sigmoid_cross_entropy", sigmoid(false, 0), 1e-6},
          {"weighted_sigmoid", sigmoid(true, 0), 1e-6},
          {"focal_sigmoid", sigmoid(false, 2), 1e-6},
          {"weighted_focal_sigmoid", sigmoid(true, 0.5), 1e-6},
          {"count_correct", count_correct, 0, Bf16Case::kSame},
          {"count_multi_label", count_multi_label, 0, Bf16Case::kSame}};
}

}  // namespace atl
