#include <cmath>

#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

Outputs fill_zero(Harness& h, std::int64_t rows, std::int64_t cols) {
  const MatrixView y = h.output(rows, cols);
  h.backend().run(h.queue(), kernels::FillZero{y});
  return {h.result(y)};
}

Outputs convert(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto values = random_floats(rows * cols, 1);
  const ConstMatrixView stored = h.input(rows, cols, values);
  const MatrixView same = h.output(rows, cols);
  const MatrixView wide = h.output<float>(rows, cols);
  const MatrixView narrow = h.output(rows, cols);
  h.backend().run(h.queue(), kernels::Convert{stored, same});
  h.backend().run(h.queue(), kernels::Convert{stored, wide});
  h.backend().run(h.queue(), kernels::Convert{h.input<float>(rows, cols, values), narrow});
  return {h.result(same), h.result(wide), h.result(narrow)};
}

Outputs combine(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto left = random_floats(rows * cols, 1);
  const auto right = random_floats(rows * cols, 2);
  const MatrixView y = h.output(rows, cols);
  const MatrixView over_x = h.matrix(rows, cols, Use::kInOut, left);
  const MatrixView over_z = h.matrix(rows, cols, Use::kInOut, right);
  const ConstMatrixView x = h.input(rows, cols, left);
  const ConstMatrixView z = h.input(rows, cols, right);
  h.backend().run(h.queue(), kernels::Combine{0.9F, x, 0.1F, z, y});
  h.backend().run(h.queue(), kernels::Combine{1, over_x, 1, z, over_x});
  h.backend().run(h.queue(), kernels::Combine{-2.5F, x, 1, over_z, over_z});
  return {h.result(y), h.result(over_x), h.result(over_z)};
}

Outputs scale(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto values = random_floats(rows * cols, 1);
  const ConstMatrixView factor = h.input<float>(1, 1, {-1.7F});
  const MatrixView y = h.output(rows, cols);
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, values);
  h.backend().run(h.queue(), kernels::Scale{h.input(rows, cols, values), factor, y});
  h.backend().run(h.queue(), kernels::Scale{in_place, factor, in_place});
  return {h.result(y), h.result(in_place)};
}

Outputs dot_product(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView z = h.input(rows, cols, random_floats(rows * cols, 2));
  const ConstMatrixView flat = h.input<float>(1, rows * cols, random_floats(rows * cols, 3));
  const MatrixView fresh = h.output<float>(1, 1);
  const MatrixView added = h.matrix<float>(1, 1, Use::kInOut, {0.5F});
  const MatrixView wide = h.output<double>(1, 1);
  h.backend().run(h.queue(), kernels::Dot{x, z, false, fresh});
  h.backend().run(h.queue(), kernels::Dot{x, z, true, added});
  h.backend().run(h.queue(), kernels::Dot{flat, flat, false, wide});
  return {h.result(fresh), h.result(added), h.result(wide)};
}

// Numbers of few values, so that many are equal.
std::vector<float> whole_numbers(std::int64_t count, std::uint64_t seed) {
  const auto integers = random_integers(count, 4, seed);
  return {integers.begin(), integers.end()};
}

Outputs maximum(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto left = whole_numbers(rows * cols, 1);
  const auto right = whole_numbers(rows * cols, 2);
  const auto gradient = random_floats(rows * cols, 3);
  const ConstMatrixView x = h.input(rows, cols, left);
  const ConstMatrixView z = h.input(rows, cols, right);
  const MatrixView y = h.output(rows, cols);
  const MatrixView over_z = h.matrix(rows, cols, Use::kInOut, right);
  const MatrixView dx = h.output(rows, cols);
  const MatrixView dz = h.matrix(rows, cols, Use::kInOut, gradient);
  h.backend().run(h.queue(), kernels::Maximum{x, z, y});
  h.backend().run(h.queue(), kernels::Maximum{x, over_z, over_z});
  h.backend().run(h.queue(), kernels::MaximumBackward{h.input(rows, cols, gradient), x, z,
                                                      MaximumOf::kFirst, dx});
  h.backend().run(h.queue(), kernels::MaximumBackward{dz, x, z, MaximumOf::kSecond, dz});
  return {h.result(y), h.result(over_z), h.result(dx), h.result(dz)};
}

// Through another function than relu, without dropout and with it.
Outputs curved_backward(Harness& h, std::int64_t rows, std::int64_t cols,
                        ActivationFunction function) {
  const auto gradient = random_floats(rows * cols, 2);
  const ConstMatrixView from = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView dy = h.input(rows, cols, gradient);
  Outputs outputs;
  for (const Dropout dropout : {Dropout::kNone, Dropout::kKey, Dropout::kState}) {
    const DropoutSpec spec = make_epilogue(h, rows, cols, {.dropout = dropout}).dropout;
    const MatrixView dx = h.output(rows, cols);
    h.backend().run(h.queue(), kernels::ActivationBackward{dy, {from, dx, function, spec}});
    outputs.push_back(h.result(dx));
    const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, gradient);
    h.backend().run(h.queue(),
                    kernels::ActivationBackward{in_place, {from, in_place, function, spec}});
    outputs.push_back(h.result(in_place));
  }
  return outputs;
}

Outputs relu_backward(Harness& h, std::int64_t rows, std::int64_t cols) {
  const auto gradient = random_floats(rows * cols, 2);
  const ConstMatrixView y = h.input(rows, cols, activations(rows * cols, 1));
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, gradient);
  const MatrixView dx = h.output(rows, cols);
  h.backend().run(h.queue(),
                  kernels::ActivationBackward{in_place, through_relu(y, 1.25F, in_place)});
  h.backend().run(h.queue(), kernels::ActivationBackward{h.input(rows, cols, gradient),
                                                         through_relu(y, 1.25F, dx)});
  return {h.result(in_place), h.result(dx)};
}

Outputs column_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const MatrixView fresh = h.output<float>(1, cols);
  const MatrixView added = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 2));
  h.backend().run(h.queue(), kernels::ColumnSums{x, false, fresh});
  h.backend().run(h.queue(), kernels::ColumnSums{x, true, added});
  return {h.result(fresh), h.result(added)};
}

Outputs activation_column_sums(Harness& h, std::int64_t rows, std::int64_t cols) {
  const ConstMatrixView y = h.input(rows, cols, activations(rows * cols, 1));
  const auto gradient = random_floats(rows * cols, 2);
  const MatrixView in_place = h.matrix(rows, cols, Use::kInOut, gradient);
  const MatrixView dx = h.output(rows, cols);
  const MatrixView fresh = h.output<float>(1, cols);
  const MatrixView added = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 3));
  h.backend().run(h.queue(), kernels::ColumnSums{h.input(rows, cols, gradient), false, fresh,
                                                 through_relu(y, 1.25F, dx)});
  h.backend().run(h.queue(),
                  kernels::ColumnSums{in_place, true, added, through_relu(y, 1.25F, in_place)});
  return {h.result(dx), h.result(fresh), h.result(in_place), h.result(added)};
}

// f64 on every backend: what ranks add.
Outputs sum_parts(Harness& h, std::int64_t rows, std::int64_t cols) {
  const std::int64_t parts = 1 + rows % 5;
  const auto floats = random_floats(parts * cols, 1);
  const MatrixView out = h.output<float>(1, cols);
  const MatrixView out_f64 = h.output<double>(1, cols);
  h.backend().run(h.queue(), kernels::SumParts{h.input<float>(parts, cols, floats), out});
  auto doubles = random_doubles(parts * cols, 2);
  for (double& value : doubles) value /= 3;
  h.backend().run(h.queue(), kernels::SumParts{h.input<double>(parts, cols, doubles), out_f64});
  return {h.result(out), h.result(out_f64)};
}

// The third step of a run, with two weight decays and rates.
Outputs adam_step(Harness& h, std::int64_t rows, std::int64_t cols, bool decoupled, bool clips) {
  const std::int64_t n = rows * cols;
  auto second_moment = random_floats(n, 4);
  for (float& value : second_moment) value = value * value;
  const MatrixView parameters = h.matrix<float>(1, n, Use::kInOut, random_floats(n, 1));
  const ConstMatrixView gradients = h.input<float>(1, n, random_floats(n, 2));
  const MatrixView m = h.matrix<float>(1, n, Use::kInOut, random_floats(n, 3));
  const MatrixView v = h.matrix<float>(1, n, Use::kInOut, second_moment);
  const std::vector<AdamSegment> segments{{0, n / 3, 0.05}, {n / 3, n, 0.02, 3}};
  AdamSpec spec;
  spec.decoupled = decoupled;
  if (clips) {
    spec.squared_norm = h.input_span<double>({static_cast<double>(n) / 3 + 1}).data();
    spec.most_norm = 2;
  }
  spec.segments = segments;
  spec.state = h.epoch_state({.epoch = 3,
                              .learning_rate = 0.02,
                              .first_correction = 1 - std::pow(spec.beta1, 3),
                              .second_correction = 1 - std::pow(spec.beta2, 3)});
  h.backend().run(h.queue(), kernels::AdamStep{spec, parameters, gradients, m, v});
  return {h.result(parameters), h.result(m), h.result(v)};
}

// More segments than fit the arguments of one kernel, some of them empty.
Outputs adam_segments(Harness& h, std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  std::vector<AdamSegment> segments;
  constexpr std::int64_t kSegments = 600;
  for (std::int64_t k = 0; k < kSegments; ++k) {
    segments.push_back(
        {n * k / kSegments, n * (k + 1) / kSegments, 0.001 * static_cast<double>(k)});
  }
  const MatrixView parameters = h.matrix<float>(1, n, Use::kInOut, random_floats(n, 1));
  const MatrixView m = h.matrix<float>(1, n, Use::kInOut, random_floats(n, 3));
  const MatrixView v =
      h.matrix<float>(1, n, Use::kInOut, std::vector<float>(static_cast<std::size_t>(n), 0.5F));
  AdamSpec spec;
  spec.segments = segments;
  spec.state = h.epoch_state({.learning_rate = 0.02});
  h.backend().run(h.queue(), kernels::AdamStep{spec, parameters,
                                               h.input<float>(1, n, random_floats(n, 2)), m, v});
  return {h.result(parameters), h.result(m), h.result(v)};
}

}  // namespace

// c is 5 wide or tall where the size leaves it open. With beta 0 it starts as NaN.
Outputs run_gemm(Harness& h, std::int64_t rows, std::int64_t cols, const GemmCase& which) {
  const bool swap_a = which.transpose_a == Transpose::kYes;
  const bool swap_b = which.transpose_b == Transpose::kYes;
  const std::int64_t inner = swap_a ? rows : cols;
  const std::int64_t height = swap_a ? cols : rows;
  constexpr std::int64_t kColumns = 5;
  const ConstMatrixView a = h.input(rows, cols, random_floats(rows * cols, 3));
  const ConstMatrixView b = h.input(swap_b ? kColumns : inner, swap_b ? inner : kColumns,
                                    random_floats(inner * kColumns, 4));
  const bool added = which.beta != 0;
  const auto before = added ? random_floats(height * kColumns, 5) : std::vector<float>();
  const Use use = added ? Use::kInOut : Use::kOutput;
  const MatrixView c = which.wide ? h.matrix<float>(height, kColumns, use, before)
                                  : h.matrix(height, kColumns, use, before);
  const Epilogue epilogue = make_epilogue(h, height, kColumns, which.epilogue);
  h.backend().run(h.queue(), kernels::Gemm{which.transpose_a, a, which.transpose_b, b, which.beta,
                                           c, epilogue});
  Output product = h.result(c);
  product.terms = inner;
  return {product};
}

std::vector<TestedOperation> gemm_operations() {
  constexpr Transpose kYes = Transpose::kYes;
  const EpilogueParts all{true, true, true, ActivationFunction::kRelu, Dropout::kState};
  struct Named {
    const char* name;
    GemmCase which;
  };
  const std::vector<Named> cases{
      {"gemm_nn", {}},
      {"gemm_nn_wide", {.wide = true}},
      {"gemm_nt_add", {.transpose_b = kYes, .beta = 1}},
      {"gemm_tn", {.transpose_a = kYes}},
      {"gemm_tn_wide_add", {.transpose_a = kYes, .beta = 1, .wide = true}},
      {"gemm_tt", {.transpose_a = kYes, .transpose_b = kYes}},
      {"gemm_bias", {.epilogue = {.beta = true}}},
      {"gemm_bias_relu_add",
       {.beta = 1, .epilogue = {.beta = true, .function = ActivationFunction::kRelu}}},
      {"gemm_all", {.epilogue = all}}};
  std::vector<TestedOperation> list;
  for (const Named& named : cases) {
    list.push_back({named.name,
                    [which = named.which](Harness& h, std::int64_t rows, std::int64_t cols) {
                      return run_gemm(h, rows, cols, which);
                    },
                    5e-6});
  }
  return list;
}

std::vector<TestedOperation> dense_operations() {
  const auto epilogue = [](EpilogueParts parts, bool in_place) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return run_apply_epilogue(h, rows, cols, parts, in_place);
    };
  };
  const EpilogueParts all{true, true, true, ActivationFunction::kRelu, Dropout::kKey};
  const auto curved = [&](ActivationFunction function) {
    return epilogue({.function = function, .dropout = Dropout::kKey}, false);
  };
  const auto adam = [](bool decoupled, bool clips) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return adam_step(h, rows, cols, decoupled, clips);
    };
  };
  const auto backward = [](ActivationFunction function) {
    return [=](Harness& h, std::int64_t rows, std::int64_t cols) {
      return curved_backward(h, rows, cols, function);
    };
  };
  return {{"fill_zero", fill_zero, 0, Bf16Case::kSame},
          {"convert", convert, 0, Bf16Case::kSame},
          {"epilogue_copy", epilogue({}, false), 0, Bf16Case::kSame},
          {"epilogue_bias_relu",
           epilogue({.beta = true, .function = ActivationFunction::kRelu}, false), 2e-7},
          {"epilogue_dropout", epilogue({.dropout = Dropout::kState}, false), 2e-7},
          {"epilogue_norm", epilogue({.norm = true, .gamma = true, .beta = true}, false), 1e-6},
          {"epilogue_all_in_place", epilogue(all, true), 1e-6},
          {"combine", combine, 5e-7},
          {"scale", scale, 2e-7},
          {"dot", dot_product, 2e-7},
          {"maximum", maximum, 0, Bf16Case::kSame},
          {"epilogue_leaky_relu", curved(ActivationFunction::kLeakyRelu), 2e-7},
          {"epilogue_elu", curved(ActivationFunction::kElu), 5e-7},
          {"epilogue_gelu", curved(ActivationFunction::kGelu), 5e-7},
          {"relu_backward", relu_backward, 2e-7},
          {"leaky_relu_backward", backward(ActivationFunction::kLeakyRelu), 2e-7},
          {"elu_backward", backward(ActivationFunction::kElu), 5e-7},
          {"gelu_backward", backward(ActivationFunction::kGelu), 1e-6},
          {"column_sums", column_sums, 2e-7},
          {"activation_column_sums", activation_column_sums, 2e-7},
          {"sum_parts", sum_parts, 0, Bf16Case::kNone},
          {"adam_step", adam(false, false), 1e-6, Bf16Case::kNone},
          {"adam_clipped", adam(false, true), 1e-6, Bf16Case::kNone},
          {"adamw_step", adam(true, false), 1e-6, Bf16Case::kNone},
          {"adamw_clipped", adam(true, true), 1e-6, Bf16Case::kNone},
          {"adam_segments", adam_segments, 1e-6, Bf16Case::kNone}};
}

}  // namespace atl
