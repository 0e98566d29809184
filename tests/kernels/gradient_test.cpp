// Backward operations of the oracle against central differences of its forward operations, in f64.
#include <cmath>
#include <functional>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

constexpr std::int64_t kProbeRows = 4;
constexpr std::int64_t kProbeCols = 3;
constexpr double kStep = 1e-5;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

std::vector<double> differences(const std::function<double(const std::vector<double>&)>& loss,
                                const std::vector<double>& at) {
  return central_differences(loss, at, kStep);
}

class Gradient : public ::testing::Test {
 protected:
  // Holds the results of a norm's backward pass against the differences of loss(x, gamma, beta).
  void expect_gradients(const auto& loss, ConstMatrixView dx, ConstMatrixView dgamma,
                        ConstMatrixView dbeta) {
    expect_close(h.download(dx),
                 differences([&](const auto& v) { return loss(v, gamma_, beta_); }, x_), 1e-7,
                 "dx");
    expect_close(h.download(dgamma),
                 differences([&](const auto& g) { return loss(x_, g, beta_); }, gamma_), 1e-7,
                 "dgamma");
    expect_close(h.download(dbeta),
                 differences([&](const auto& b) { return loss(x_, gamma_, b); }, beta_), 1e-7,
                 "dbeta");
  }

  Harness h{"reference"};
  const std::vector<double> x_ = random_doubles(kProbeRows * kProbeCols, 1);
  const std::vector<double> gamma_ = random_doubles(kProbeCols, 2);
  const std::vector<double> beta_ = random_doubles(kProbeCols, 3);
  const std::vector<double> dy_ = random_doubles(kProbeRows * kProbeCols, 4);
};

TEST_F(Gradient, LayerNorm) {
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& gamma,
                        const std::vector<double>& beta) {
    const MatrixView y = h.output<double>(kProbeRows, kProbeCols);
    h.backend().run(h.queue(), kernels::LayerNorm{h.input(kProbeRows, kProbeCols, x),
                                                  h.input(1, kProbeCols, gamma),
                                                  h.input(1, kProbeCols, beta), 1e-3, y});
    return dot(dy_, h.download(y));
  };
  const MatrixView dx = h.output<double>(kProbeRows, kProbeCols);
  const MatrixView dgamma =
      h.matrix(1, kProbeCols, Use::kInOut, std::vector<double>(kProbeCols, 0));
  const MatrixView dbeta = h.matrix(1, kProbeCols, Use::kInOut, std::vector<double>(kProbeCols, 0));
  h.backend().run(h.queue(), kernels::LayerNormBackward{h.input(kProbeRows, kProbeCols, dy_),
                                                        h.input(kProbeRows, kProbeCols, x_),
                                                        h.input(1, kProbeCols, gamma_), 1e-3, dx,
                                                        dgamma, dbeta});
  expect_gradients(loss, dx, dgamma, dbeta);
}

// As two ranks run it: each has half of the rows, and their sums are added.
TEST_F(Gradient, BatchNorm) {
  constexpr std::int64_t kHalf = kProbeRows / 2;
  const auto half = [](ConstMatrixView view, int rank) {
    return view.rows_in({rank * kHalf, (rank + 1) * kHalf});
  };
  // Calls sums(rank, out) for both ranks and adds what they leave.
  const auto add_ranks = [&](const auto& sums) {
    const MatrixView parts = h.output<double>(2, 2 * kProbeCols);
    for (int rank = 0; rank < 2; ++rank) {
      sums(rank, std::span<double>(parts.row<double>(rank), 2 * kProbeCols));
    }
    const MatrixView total = h.output<double>(1, 2 * kProbeCols);
    h.backend().run(h.queue(), kernels::SumParts{parts, total});
    return std::span<const double>(total.row<double>(0), 2 * kProbeCols);
  };
  const auto statistics = [&](ConstMatrixView x) {
    const auto running_mean = h.inout_span<double>({0.1, 0.2, -0.3});
    const auto sums = add_ranks([&](int rank, std::span<double> out) {
      h.backend().run(h.queue(), kernels::BatchNormMoments{half(x, rank), running_mean, out});
    });
    const auto mean = h.output_span<double>(kProbeCols);
    const auto inv_std = h.output_span<double>(kProbeCols);
    h.backend().run(h.queue(),
                    kernels::BatchNormStatistics{sums, kProbeRows, 0.1, 1e-3, running_mean,
                                                 h.inout_span<double>({1, 1, 1}), mean, inv_std});
    return std::pair<std::span<const double>, std::span<const double>>(mean, inv_std);
  };
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& gamma,
                        const std::vector<double>& beta) {
    const ConstMatrixView input = h.input(kProbeRows, kProbeCols, x);
    Epilogue epilogue;
    std::tie(epilogue.mean, epilogue.inv_std) = statistics(input);
    epilogue.gamma = h.input(1, kProbeCols, gamma);
    epilogue.beta = h.input(1, kProbeCols, beta);
    const MatrixView y = h.output<double>(kProbeRows, kProbeCols);
    h.backend().run(h.queue(), kernels::ApplyEpilogue{input, epilogue, y});
    return dot(dy_, h.download(y));
  };
  const ConstMatrixView x = h.input(kProbeRows, kProbeCols, x_);
  const ConstMatrixView dy = h.input(kProbeRows, kProbeCols, dy_);
  const ConstMatrixView gamma = h.input(1, kProbeCols, gamma_);
  std::span<const double> mean;
  std::span<const double> inv_std;
  std::tie(mean, inv_std) = statistics(x);
  const MatrixView dgamma =
      h.matrix(1, kProbeCols, Use::kInOut, std::vector<double>(kProbeCols, 0));
  const MatrixView dbeta = h.matrix(1, kProbeCols, Use::kInOut, std::vector<double>(kProbeCols, 0));
  const auto sums = add_ranks([&](int rank, std::span<double> out) {
    h.backend().run(h.queue(), kernels::BatchNormGradientSums{half(dy, rank), half(x, rank), mean,
                                                              inv_std, out, dgamma, dbeta});
  });
  const MatrixView dx = h.output<double>(kProbeRows, kProbeCols);
  for (int rank = 0; rank < 2; ++rank) {
    h.backend().run(h.queue(), kernels::BatchNormBackward{
                                   half(dy, rank), half(x, rank), mean, inv_std, gamma, sums,
                                   kProbeRows, dx.rows_in({rank * kHalf, (rank + 1) * kHalf})});
  }
  expect_gradients(loss, dx, dgamma, dbeta);
}

// With dropout, whose zeros are not those of a function.
TEST_F(Gradient, ActivationFunctions) {
  const auto ids = h.input_span<GlobalId>({GlobalId{4}, GlobalId{5}, GlobalId{6}, GlobalId{9}});
  for (const ActivationFunction function : kActivationFunctions) {
    if (function == ActivationFunction::kNone) continue;
    for (const double rate : {0.0, 0.4}) {
      Epilogue epilogue;
      epilogue.function = function;
      epilogue.dropout = {{11, RandomStream::kDropout, 1, 3}, dropout_threshold(rate), ids};
      const MatrixView y = h.output<double>(kProbeRows, kProbeCols);
      const auto loss = [&](const std::vector<double>& x) {
        h.backend().run(h.queue(),
                        kernels::ApplyEpilogue{h.input(kProbeRows, kProbeCols, x), epilogue, y});
        return dot(dy_, h.download(y));
      };
      const auto expected = differences(loss, x_);
      loss(x_);
      const ConstMatrixView x = h.input(kProbeRows, kProbeCols, x_);
      const MatrixView dx = h.output<double>(kProbeRows, kProbeCols);
      h.backend().run(h.queue(),
                      kernels::ActivationBackward{
                          h.input(kProbeRows, kProbeCols, dy_),
                          {function == ActivationFunction::kGelu ? x : ConstMatrixView(y), dx,
                           function, epilogue.dropout}});
      expect_close(h.download(dx), expected, 1e-8, to_string(function));
    }
  }
}

TEST_F(Gradient, SoftmaxCrossEntropy) {
  const auto labels = h.input_span<std::int32_t>({0, 2, 1, 2});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const MatrixView dlogits = h.output<double>(kProbeRows, kProbeCols);
  const auto sum = h.output_span<double>(1);
  const auto loss = [&](const std::vector<double>& x) {
    h.backend().run(h.queue(), kernels::SoftmaxCrossEntropy{h.input(kProbeRows, kProbeCols, x),
                                                            labels, rows, 1, dlogits, sum});
    return h.download_span(sum)[0];
  };
  const auto expected = differences(loss, x_);
  loss(x_);
  expect_close(h.download(dlogits), expected, 1e-8, "dlogits");
}

TEST_F(Gradient, WeightedSmoothedAndFocalCrossEntropy) {
  const auto labels = h.input_span<std::int32_t>({0, 2, 1, 2});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const auto weights = h.input_span<float>({0.5F, 2, 1.25F});
  const MatrixView dlogits = h.output<double>(kProbeRows, kProbeCols);
  const auto sum = h.output_span<double>(1);
  for (const SoftmaxTarget& target :
       {SoftmaxTarget{weights, 0.3}, SoftmaxTarget{{}, 0, 2}, SoftmaxTarget{weights, 0, 0.5}}) {
    const auto loss = [&](const std::vector<double>& x) {
      h.backend().run(h.queue(),
                      kernels::SoftmaxCrossEntropy{h.input(kProbeRows, kProbeCols, x), labels, rows,
                                                   1, dlogits, sum, target});
      return h.download_span(sum)[0];
    };
    const auto expected = differences(loss, x_);
    loss(x_);
    expect_close(h.download(dlogits), expected, 1e-8, fmt::format("focus {}", target.focus));
  }
}

TEST_F(Gradient, Errors) {
  const auto targets = h.input_span<float>({0, 5, 5, kNaN, -5, 5, 5, 5, 0, 0, -5, 5});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const MatrixView dvalues = h.output<double>(kProbeRows, kProbeCols);
  const auto sum = h.output_span<double>(1);
  for (const ErrorMeasure measure : {ErrorMeasure::kSquared, ErrorMeasure::kAbsolute}) {
    const auto loss = [&](const std::vector<double>& x) {
      h.backend().run(h.queue(), kernels::ErrorLoss{measure, h.input(kProbeRows, kProbeCols, x),
                                                    targets, rows, 1, dvalues, sum});
      return h.download_span(sum)[0];
    };
    const auto expected = differences(loss, x_);
    loss(x_);
    expect_close(h.download(dvalues), expected, 1e-8, "dvalues");
  }
}

TEST_F(Gradient, SigmoidCrossEntropy) {
  const auto targets = h.input_span<std::uint8_t>({0, 1, 1, 255, 0, 1, 1, 1, 0, 0, 0, 1});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const auto weights = h.input_span<float>({0.5F, 2, 1.25F, 1, 3, 0.25F});
  const MatrixView dlogits = h.output<double>(kProbeRows, kProbeCols);
  const auto sum = h.output_span<double>(1);
  for (const SigmoidTarget& target : {SigmoidTarget{}, SigmoidTarget{weights}, SigmoidTarget{{}, 2},
                                      SigmoidTarget{weights, 0.5}}) {
    const auto loss = [&](const std::vector<double>& x) {
      h.backend().run(
          h.queue(), kernels::SigmoidCrossEntropy{h.input(kProbeRows, kProbeCols, x), targets, rows,
                                                  1, dlogits, sum, target});
      return h.download_span(sum)[0];
    };
    const auto expected = differences(loss, x_);
    loss(x_);
    expect_close(h.download(dlogits), expected, 1e-8, fmt::format("focus {}", target.focus));
  }
}

}  // namespace

}  // namespace atl
