#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

std::vector<double> random_doubles(std::int64_t count, std::uint64_t seed, double offset) {
  std::vector<double> values;
  for (const float value : random_floats(count, seed)) values.push_back(offset + value);
  return values;
}

Outputs column_moments(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const auto mean = h.output_span<double>(cols);
  const auto m2 = h.output_span<double>(cols);
  h.backend().column_moments(h.queue(), x, mean, m2);
  return {h.download_span(mean), h.download_span(m2)};
}

Outputs batch_norm_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 2));
  const auto mean = h.input_span(random_doubles(cols, 3, 0));
  const auto inv_std = h.input_span(random_doubles(cols, 4, 2));
  const auto sum_dy = h.output_span<double>(cols);
  const auto sum_dy_xhat = h.output_span<double>(cols);
  h.backend().batch_norm_sums(h.queue(), dy, x, mean, inv_std, sum_dy, sum_dy_xhat);
  return {h.download_span(sum_dy), h.download_span(sum_dy_xhat)};
}

Outputs batch_norm_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 1));
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 1));
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 2));
  const auto mean = h.input_span(random_doubles(cols, 3, 0));
  const auto inv_std = h.input_span(random_doubles(cols, 4, 2));
  const ConstMatrixView gamma = h.input(1, cols, random_floats(cols, 5));
  const auto mean_dy = h.input_span(random_doubles(cols, 6, 0));
  const auto mean_dy_xhat = h.input_span(random_doubles(cols, 7, 0));
  const MatrixView dx = h.output(rows, cols);
  h.backend().batch_norm_backward(h.queue(), dy, x, mean, inv_std, gamma, mean_dy, mean_dy_xhat,
                                  dx);
  h.backend().batch_norm_backward(h.queue(), in_place, x, mean, inv_std, gamma, mean_dy,
                                  mean_dy_xhat, in_place);
  return {h.download(dx), h.download(in_place)};
}

Outputs layer_norm(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView gamma = h.input(1, cols, random_floats(cols, 2));
  const ConstMatrixView beta = h.input(1, cols, random_floats(cols, 3));
  const MatrixView y = h.output(rows, cols);
  h.backend().layer_norm(h.queue(), x, gamma, beta, 1e-5, y);
  return {h.download(y)};
}

Outputs layer_norm_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView gamma = h.input(1, cols, random_floats(cols, 2));
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 3));
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 3));
  const MatrixView dx = h.output(rows, cols);
  const MatrixView dgamma = h.matrix(1, cols, Use::kInOut, random_floats(cols, 4));
  const MatrixView dbeta = h.matrix(1, cols, Use::kInOut, random_floats(cols, 5));
  h.backend().layer_norm_backward(h.queue(), dy, x, gamma, 1e-5, dx, dgamma, dbeta);
  // A second time in place: the parameters' gradients add up.
  h.backend().layer_norm_backward(h.queue(), in_place, x, gamma, 1e-5, in_place, dgamma, dbeta);
  return {h.download(dx), h.download(in_place), h.download(dgamma), h.download(dbeta)};
}

}  // namespace

std::vector<Operation> normalization_operations() {
  return {{"column_moments", column_moments, 1e-12},
          {"batch_norm_sums", batch_norm_sums, 1e-12},
          {"batch_norm_backward", batch_norm_backward, 2e-6},
          {"layer_norm", layer_norm, 1e-6},
          {"layer_norm_backward", layer_norm_backward, 2e-6}};
}

}  // namespace atl
