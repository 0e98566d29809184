#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

Outputs fill_zero(Harness& h, std::int64_t rows, std::int64_t cols) {
  const MatrixView y = h.output(rows, cols);
  h.backend().fill_zero(h.queue(), y);
  return {h.download(y)};
}

Outputs add(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const MatrixView y = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 2));
  h.backend().add(h.queue(), -0.75, x, y);
  return {h.download(y)};
}

// c is 5 wide or tall where the size leaves it open. With beta 0 it starts as NaN.
Outputs gemm(Harness& h, std::int64_t rows, std::int64_t cols, Transpose ta, Transpose tb,
             double beta) {
  const bool swap_a = ta == Transpose::kYes;
  const bool swap_b = tb == Transpose::kYes;
  const std::int64_t inner = swap_a ? rows : cols;
  const std::int64_t height = swap_a ? cols : rows;
  constexpr std::int64_t kWidth = 5;
  const ConstMatrixView a = h.input(rows, cols, random_floats(rows * cols, 3));
  const ConstMatrixView b =
      h.input(swap_b ? kWidth : inner, swap_b ? inner : kWidth, random_floats(inner * kWidth, 4));
  const MatrixView c =
      beta == 0 ? h.output(height, kWidth)
                : h.matrix(height, kWidth, Use::kInOut, random_floats(height * kWidth, 5));
  h.backend().gemm(h.queue(), ta, a, tb, b, beta, c);
  return {h.download(c)};
}
Outputs gemm_nn(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gemm(h, rows, cols, Transpose::kNo, Transpose::kNo, 0);
}
Outputs gemm_nt_add(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gemm(h, rows, cols, Transpose::kNo, Transpose::kYes, 1);
}
Outputs gemm_tn(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gemm(h, rows, cols, Transpose::kYes, Transpose::kNo, 0);
}
Outputs gemm_tn_add(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gemm(h, rows, cols, Transpose::kYes, Transpose::kNo, 1);
}
Outputs gemm_tt(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gemm(h, rows, cols, Transpose::kYes, Transpose::kYes, 0);
}

struct EpilogueParts {
  bool norm = false;
  bool gamma = false;
  bool beta = false;
  bool relu = false;
  bool dropout = false;
  bool in_place = false;
};

Outputs epilogue(Harness& h, std::int64_t rows, std::int64_t cols, EpilogueParts parts) {
  Epilogue epilogue;
  if (parts.norm) {
    std::vector<double> inv_std;
    for (const float value : random_floats(cols, 2)) inv_std.push_back(1.5 + value);
    const auto mean = random_floats(cols, 1);
    epilogue.mean = h.input_span(std::vector<double>(mean.begin(), mean.end()));
    epilogue.inv_std = h.input_span(inv_std);
  }
  if (parts.gamma) epilogue.gamma = h.input(1, cols, random_floats(cols, 3));
  if (parts.beta) epilogue.beta = h.input(1, cols, random_floats(cols, 4));
  epilogue.relu = parts.relu;
  if (parts.dropout) {
    std::vector<GlobalId> ids;
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{5'000'000'000 + 7 * i});
    epilogue.dropout = {{12345678901234ULL, RandomStream::kDropout, 2, 9},
                        dropout_threshold(0.3),
                        h.input_span(ids)};
  }
  const auto values = random_floats(rows * cols, 5);
  const MatrixView y =
      parts.in_place ? h.matrix(rows, cols, Use::kInOut, values) : h.output(rows, cols);
  const ConstMatrixView x = parts.in_place ? ConstMatrixView(y) : h.input(rows, cols, values);
  h.backend().apply_epilogue(h.queue(), x, epilogue, y);
  return {h.download(y)};
}
Outputs epilogue_copy(Harness& h, std::int64_t rows, std::int64_t cols) {
  return epilogue(h, rows, cols, {});
}
Outputs epilogue_bias_relu(Harness& h, std::int64_t rows, std::int64_t cols) {
  return epilogue(h, rows, cols, {.beta = true, .relu = true});
}
Outputs epilogue_dropout(Harness& h, std::int64_t rows, std::int64_t cols) {
  return epilogue(h, rows, cols, {.dropout = true});
}
Outputs epilogue_norm(Harness& h, std::int64_t rows, std::int64_t cols) {
  return epilogue(h, rows, cols, {.norm = true, .gamma = true, .beta = true});
}
Outputs epilogue_all_in_place(Harness& h, std::int64_t rows, std::int64_t cols) {
  return epilogue(h, rows, cols, {true, true, true, true, true, true});
}

Outputs relu_dropout_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  auto activations = random_floats(rows * cols, 1);
  for (float& value : activations) value = value < 0 ? 0 : value;
  const ConstMatrixView y = h.input(rows, cols, activations);
  const MatrixView dx = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 2));
  h.backend().relu_dropout_backward(h.queue(), y, dx, 1.25F, dx);
  return {h.download(dx)};
}

Outputs column_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const MatrixView fresh = h.output(1, cols);
  const MatrixView added = h.matrix(1, cols, Use::kInOut, random_floats(cols, 2));
  h.backend().column_sums(h.queue(), x, false, fresh);
  h.backend().column_sums(h.queue(), x, true, added);
  return {h.download(fresh), h.download(added)};
}

// The third step of a run, with two weight decays.
Outputs adam_step(Harness& h, std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  auto second_moment = random_floats(n, 4);
  for (float& value : second_moment) value = value * value;
  const MatrixView parameters = h.matrix(1, n, Use::kInOut, random_floats(n, 1));
  const ConstMatrixView gradients = h.input(1, n, random_floats(n, 2));
  const MatrixView m = h.matrix(1, n, Use::kInOut, random_floats(n, 3));
  const MatrixView v = h.matrix(1, n, Use::kInOut, second_moment);
  const std::vector<DecaySegment> segments{{0, n / 3, 0.05}, {n / 3, n, 0}};
  AdamSpec spec;
  spec.step = 3;
  spec.segments = segments;
  h.backend().adam_step(h.queue(), spec, parameters, gradients, m, v);
  return {h.download(parameters), h.download(m), h.download(v)};
}

}  // namespace

std::vector<Operation> dense_operations() {
  return {{"fill_zero", fill_zero, 0},
          {"add", add, 2e-7},
          {"gemm_nn", gemm_nn, 5e-6},
          {"gemm_nt_add", gemm_nt_add, 5e-6},
          {"gemm_tn", gemm_tn, 5e-6},
          {"gemm_tn_add", gemm_tn_add, 5e-6},
          {"gemm_tt", gemm_tt, 5e-6},
          {"epilogue_copy", epilogue_copy, 0},
          {"epilogue_bias_relu", epilogue_bias_relu, 2e-7},
          {"epilogue_dropout", epilogue_dropout, 2e-7},
          {"epilogue_norm", epilogue_norm, 1e-6},
          {"epilogue_all_in_place", epilogue_all_in_place, 1e-6},
          {"relu_dropout_backward", relu_dropout_backward, 2e-7},
          {"column_sums", column_sums, 2e-7},
          {"adam_step", adam_step, 1e-6}};
}

}  // namespace atl
