#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

Outputs batch_norm_moments(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const auto sums = h.output_span<double>(2 * cols);
  h.backend().run(h.queue(),
                  kernels::BatchNormMoments{x, h.input_span(random_doubles(cols, 2)), sums});
  return {h.result(sums)};
}

// Sums over rows + 1 rows; in the first column rounding has left less than no variance.
Outputs batch_norm_statistics(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto count = static_cast<double>(rows + 1);
  auto sums = random_doubles(2 * cols, 1);
  for (std::int64_t j = 0; j < cols; ++j) {
    sums[j] *= count;
    sums[cols + j] = count * (sums[cols + j] + 2);
  }
  sums[0] = count;
  sums[cols] = count * (1 - 1e-9);
  const auto running_mean = h.inout_span(random_doubles(cols, 2));
  const auto running_variance = h.inout_span(random_doubles(cols, 3, 1.5));
  const auto mean = h.output_span<double>(cols);
  const auto inv_std = h.output_span<double>(cols);
  h.backend().run(
      h.queue(), kernels::BatchNormStatistics{h.input_span(sums), rows + 1, 0.1, 1e-5, running_mean,
                                              running_variance, mean, inv_std});
  return {h.result(running_mean), h.result(running_variance), h.result(mean), h.result(inv_std)};
}

Outputs inverse_std(Harness& h, std::int64_t, std::int64_t cols) {
  const auto out = h.output_span<double>(cols);
  h.backend().run(h.queue(),
                  kernels::InverseStd{h.input_span(random_doubles(cols, 1, 1)), 1e-5, out});
  return {h.result(out)};
}

struct BatchNormGradients {
  std::span<double> sums;
  MatrixView dgamma;
  MatrixView dbeta;
};

BatchNormGradients batch_norm_gradients(Harness& h, std::int64_t rows, std::int64_t cols,
                                        ConstMatrixView dy,
                                        const ActivationGradient& activation = {}) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 2));
  const auto mean = h.input_span(random_doubles(cols, 3));
  const auto inv_std = h.input_span(random_doubles(cols, 4, 2));
  const BatchNormGradients found{h.output_span<double>(2 * cols),
                                 h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 5)),
                                 h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 6))};
  h.backend().run(h.queue(), kernels::BatchNormGradientSums{dy, x, mean, inv_std, found.sums,
                                                            found.dgamma, found.dbeta, activation});
  return found;
}
BatchNormGradients batch_norm_gradients(Harness& h, std::int64_t rows, std::int64_t cols) {
  return batch_norm_gradients(h, rows, cols, h.input(rows, cols, random_floats(rows * cols, 1)));
}

// Two views of one operation: its sums are double, what it adds to the gradients is f32.
Outputs batch_norm_gradient_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  return {h.result(batch_norm_gradients(h, rows, cols).sums)};
}
Outputs batch_norm_parameter_gradients(Harness& h, std::int64_t rows, std::int64_t cols) {
  const BatchNormGradients found = batch_norm_gradients(h, rows, cols);
  return {h.result(found.dgamma), h.result(found.dbeta)};
}

// In double, so that a term that was not rounded to the storage type would show.
Outputs activation_gradient_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView y = h.input(rows, cols, activations(rows * cols, 7));
  const MatrixView dy = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 1));
  const BatchNormGradients found =
      batch_norm_gradients(h, rows, cols, dy, through_relu(y, 1.25F, dy));
  return {h.result(dy), h.result(found.sums)};
}

// As if other ranks had ten more rows.
Outputs batch_norm_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  const std::int64_t count = rows + 10;
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 1));
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 1));
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 2));
  const auto mean = h.input_span(random_doubles(cols, 3));
  const auto inv_std = h.input_span(random_doubles(cols, 4, 2));
  const ConstMatrixView gamma = h.input<float>(1, cols, random_floats(cols, 5));
  auto totals = random_doubles(2 * cols, 6);
  for (double& value : totals) value *= static_cast<double>(count);
  const auto sums = h.input_span(totals);
  const MatrixView dx = h.output(rows, cols);
  h.backend().run(h.queue(),
                  kernels::BatchNormBackward{dy, x, mean, inv_std, gamma, sums, count, dx});
  h.backend().run(h.queue(), kernels::BatchNormBackward{in_place, x, mean, inv_std, gamma, sums,
                                                        count, in_place});
  return {h.result(dx), h.result(in_place)};
}

Outputs layer_norm(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView gamma = h.input<float>(1, cols, random_floats(cols, 2));
  const ConstMatrixView beta = h.input<float>(1, cols, random_floats(cols, 3));
  const MatrixView y = h.output(rows, cols);
  h.backend().run(h.queue(), kernels::LayerNorm{x, gamma, beta, 1e-5, y});
  return {h.result(y)};
}

Outputs layer_norm_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView gamma = h.input<float>(1, cols, random_floats(cols, 2));
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 3));
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 3));
  const MatrixView dx = h.output(rows, cols);
  const MatrixView dgamma = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 4));
  const MatrixView dbeta = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 5));
  h.backend().run(h.queue(), kernels::LayerNormBackward{dy, x, gamma, 1e-5, dx, dgamma, dbeta});
  // A second time in place: the parameters' gradients add up.
  h.backend().run(h.queue(),
                  kernels::LayerNormBackward{in_place, x, gamma, 1e-5, in_place, dgamma, dbeta});
  return {h.result(dx), h.result(in_place), h.result(dgamma), h.result(dbeta)};
}

}  // namespace

std::vector<TestedOperation> normalization_operations() {
  return {{"batch_norm_moments", batch_norm_moments, 1e-12},
          {"batch_norm_statistics", batch_norm_statistics, 1e-12, Bf16Case::kNone},
          {"inverse_std", inverse_std, 1e-12, Bf16Case::kNone},
          {"batch_norm_gradient_sums", batch_norm_gradient_sums, 1e-12},
          {"batch_norm_parameter_gradients", batch_norm_parameter_gradients, 2e-7},
          {"activation_gradient_sums", activation_gradient_sums, 2e-7},
          {"batch_norm_backward", batch_norm_backward, 2e-6},
          {"layer_norm", layer_norm, 1e-6},
          {"layer_norm_backward", layer_norm_backward, 2e-6}};
}

}  // namespace atl
