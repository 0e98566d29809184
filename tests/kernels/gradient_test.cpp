// Backward operations of the oracle against central differences of its forward operations, in f64.
#include <cmath>
#include <functional>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kCols = 3;
constexpr double kStep = 1e-5;

std::vector<double> random_doubles(std::int64_t count, std::uint64_t seed) {
  const auto floats = random_floats(count, seed);
  return {floats.begin(), floats.end()};
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

std::vector<double> differences(const std::function<double(const std::vector<double>&)>& loss,
                                std::vector<double> at) {
  std::vector<double> gradient;
  for (double& value : at) {
    const double centre = value;
    value = centre + kStep;
    const double above = loss(at);
    value = centre - kStep;
    gradient.push_back((above - loss(at)) / (2 * kStep));
    value = centre;
  }
  return gradient;
}

class Gradient : public ::testing::Test {
 protected:
  Harness h{"reference"};
  const std::vector<double> x_ = random_doubles(kRows * kCols, 1);
  const std::vector<double> gamma_ = random_doubles(kCols, 2);
  const std::vector<double> beta_ = random_doubles(kCols, 3);
  const std::vector<double> dy_ = random_doubles(kRows * kCols, 4);
};

TEST_F(Gradient, LayerNorm) {
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& gamma,
                        const std::vector<double>& beta) {
    const MatrixView y = h.output<double>(kRows, kCols);
    h.backend().layer_norm(h.queue(), h.input(kRows, kCols, x), h.input(1, kCols, gamma),
                           h.input(1, kCols, beta), 1e-3, y);
    return dot(dy_, h.download(y));
  };
  const MatrixView dx = h.output<double>(kRows, kCols);
  const MatrixView dgamma = h.matrix(1, kCols, Use::kInOut, std::vector<double>(kCols, 0));
  const MatrixView dbeta = h.matrix(1, kCols, Use::kInOut, std::vector<double>(kCols, 0));
  h.backend().layer_norm_backward(h.queue(), h.input(kRows, kCols, dy_), h.input(kRows, kCols, x_),
                                  h.input(1, kCols, gamma_), 1e-3, dx, dgamma, dbeta);
  expect_close(h.download(dx),
               differences([&](const auto& x) { return loss(x, gamma_, beta_); }, x_), 1e-7, "dx");
  expect_close(h.download(dgamma),
               differences([&](const auto& g) { return loss(x_, g, beta_); }, gamma_), 1e-7,
               "dgamma");
  expect_close(h.download(dbeta),
               differences([&](const auto& b) { return loss(x_, gamma_, b); }, beta_), 1e-7,
               "dbeta");
}

TEST_F(Gradient, BatchNorm) {
  constexpr double kEpsilon = 1e-3;
  const auto moments = [&](const std::vector<double>& x) {
    const auto mean = h.output_span<double>(kCols);
    const auto m2 = h.output_span<double>(kCols);
    h.backend().column_moments(h.queue(), h.input(kRows, kCols, x), mean, m2);
    std::vector<double> inv_std;
    for (const double sum : h.download_span(m2)) {
      inv_std.push_back(1 / std::sqrt(sum / kRows + kEpsilon));
    }
    return std::pair{std::span<const double>(mean), h.input_span(inv_std)};
  };
  const auto loss = [&](const std::vector<double>& x) {
    Epilogue epilogue;
    std::tie(epilogue.mean, epilogue.inv_std) = moments(x);
    epilogue.gamma = h.input(1, kCols, gamma_);
    epilogue.beta = h.input(1, kCols, beta_);
    const MatrixView y = h.output<double>(kRows, kCols);
    h.backend().apply_epilogue(h.queue(), h.input(kRows, kCols, x), epilogue, y);
    return dot(dy_, h.download(y));
  };
  const auto [mean, inv_std] = moments(x_);
  const ConstMatrixView x = h.input(kRows, kCols, x_);
  const ConstMatrixView dy = h.input(kRows, kCols, dy_);
  const auto sum_dy = h.output_span<double>(kCols);
  const auto sum_dy_xhat = h.output_span<double>(kCols);
  h.backend().batch_norm_sums(h.queue(), dy, x, mean, inv_std, sum_dy, sum_dy_xhat);
  auto mean_dy = h.download_span(sum_dy);
  auto mean_dy_xhat = h.download_span(sum_dy_xhat);
  for (double& value : mean_dy) value /= kRows;
  for (double& value : mean_dy_xhat) value /= kRows;
  const MatrixView dx = h.output<double>(kRows, kCols);
  h.backend().batch_norm_backward(h.queue(), dy, x, mean, inv_std, h.input(1, kCols, gamma_),
                                  h.input_span(mean_dy), h.input_span(mean_dy_xhat), dx);
  expect_close(h.download(dx), differences(loss, x_), 1e-7, "dx");
}

TEST_F(Gradient, SoftmaxCrossEntropy) {
  const auto labels = h.input_span<std::int32_t>({0, 2, 1, 2});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const MatrixView dlogits = h.output<double>(kRows, kCols);
  const auto sum = h.output_span<double>(1);
  const auto loss = [&](const std::vector<double>& x) {
    h.backend().softmax_cross_entropy(h.queue(), h.input(kRows, kCols, x), labels, rows, 1, dlogits,
                                      sum);
    return h.download_span(sum)[0];
  };
  const auto expected = differences(loss, x_);
  loss(x_);
  expect_close(h.download(dlogits), expected, 1e-8, "dlogits");
}

TEST_F(Gradient, SigmoidCrossEntropy) {
  const auto targets = h.input_span<std::uint8_t>({0, 1, 1, 255, 0, 1, 1, 1, 0, 0, 0, 1});
  const auto rows = h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{3}});
  const MatrixView dlogits = h.output<double>(kRows, kCols);
  const auto sum = h.output_span<double>(1);
  const auto loss = [&](const std::vector<double>& x) {
    h.backend().sigmoid_cross_entropy(h.queue(), h.input(kRows, kCols, x), targets, rows, 1,
                                      dlogits, sum);
    return h.download_span(sum)[0];
  };
  const auto expected = differences(loss, x_);
  loss(x_);
  expect_close(h.download(dlogits), expected, 1e-8, "dlogits");
}

}  // namespace

}  // namespace atl
