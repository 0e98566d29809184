// The machine's limits, the products of a model 256 wide, what follows them, and the optimizer.
#include <cmath>
#include <numbers>

#include "tests/benchmarks/bench.hpp"

namespace atl {

namespace {

double bytes_in(ConstMatrixView view) {
  return static_cast<double>(view.rows * view.cols * bytes_of(view.dtype));
}

// One large copy inside the device: what its memory can do.
Case copy(Bench& bench) {
  const std::int64_t count = bench.limit_size((std::int64_t{1} << 30) / 4);
  const MatrixView x = bench.matrix(1, count, DType::kF32);
  const MatrixView y = bench.matrix(1, count, DType::kF32);
  Case made;
  made.run = [=, &bench] {
    bench.backend().copy(bench.queue(), y.data, x.data, count * 4, CopyKind::kDeviceToDevice);
  };
  made.no_reuse_bytes = made.compulsory_bytes = 2 * bytes_in(x);
  made.checked = element(y, 0, count - 1);
  made.expected = Bench::value(count - 1);
  return made;
}

// c = op(a) b, with a [rows, inner] before its transposition.
struct Product {
  const char* name;
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t cols;
  Transpose transpose_a = Transpose::kNo;
};

Case gemm(Bench& bench, const Product& product, DType dtype) {
  const auto [name, rows, inner, cols, transpose_a] = product;
  const bool gradient = transpose_a == Transpose::kYes;
  const MatrixView a = bench.matrix(gradient ? inner : rows, gradient ? rows : inner, dtype);
  const MatrixView b = bench.matrix(inner, cols, dtype);
  const MatrixView c = bench.matrix(rows, cols, gradient ? parameter_dtype(dtype) : dtype);
  Case made;
  made.run = [=, transpose = transpose_a, &bench] {
    bench.backend().run(bench.queue(), kernels::Gemm{transpose, a, Transpose::kNo, b, 0, c});
  };
  made.no_reuse_bytes = made.compulsory_bytes = bytes_in(a) + bytes_in(b) + bytes_in(c);
  made.flops = 2.0 * static_cast<double>(rows) * static_cast<double>(inner * cols);
  made.checked = element(c, rows - 1, 0);
  for (std::int64_t k = 0; k < inner; ++k) {
    const std::int64_t of_a = gradient ? k * rows + rows - 1 : (rows - 1) * inner + k;
    made.expected += Bench::value(of_a) * Bench::value(k * cols);
  }
  return made;
}

Case square_gemm(Bench& bench, DType dtype) {
  const std::int64_t n = bench.limit_size(bench.backend().host_accessible() ? 2048 : 8192);
  return gemm(bench, {"square", n, n, n}, dtype);
}

Case layer_gemm(Bench& bench, Product product, DType dtype) {
  std::int64_t& nodes = product.transpose_a == Transpose::kYes ? product.inner : product.rows;
  nodes = bench.scaled(kArxivNodes);
  return gemm(bench, product, dtype);
}

double normal_distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

Case bias_activation(Bench& bench, ActivationFunction function, DType dtype) {
  const std::int64_t rows = bench.scaled(kArxivNodes);
  const MatrixView x = bench.matrix(rows, kColumns, dtype);
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  Epilogue epilogue;
  epilogue.beta = bench.matrix(1, kColumns, DType::kF32);
  epilogue.function = function;
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  };
  made.no_reuse_bytes = made.compulsory_bytes = 2 * bytes_in(x);
  made.checked = element(y, rows - 1, 0);
  const double sum = Bench::value((rows - 1) * kColumns) + Bench::value(0);
  made.expected =
      function == ActivationFunction::kGelu ? sum * normal_distribution(sum) : std::max(0.0, sum);
  return made;
}

Case gelu_backward(Bench& bench, DType dtype) {
  const std::int64_t rows = bench.scaled(kArxivNodes);
  const MatrixView x = bench.matrix(rows, kColumns, dtype);
  const MatrixView dy = bench.matrix(rows, kColumns, dtype);
  const MatrixView dx = bench.matrix(rows, kColumns, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(),
                        kernels::ActivationBackward{dy, {x, dx, ActivationFunction::kGelu}});
  };
  made.no_reuse_bytes = made.compulsory_bytes = 3 * bytes_in(x);
  made.checked = element(dx, rows - 1, 0);
  const double value = Bench::value((rows - 1) * kColumns);
  const double density = std::exp(-value * value / 2) / std::sqrt(2 * std::numbers::pi);
  made.expected = value * (normal_distribution(value) + value * density);
  return made;
}

Case norm_relu_dropout(Bench& bench, DType dtype) {
  const std::int64_t rows = bench.scaled(kArxivNodes);
  const MatrixView x = bench.matrix(rows, kColumns, dtype);
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  std::vector<GlobalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{i});
  Epilogue epilogue;
  epilogue.mean = bench.upload(std::vector<double>(kColumns, -1));
  epilogue.inv_std = bench.upload(std::vector<double>(kColumns, 2));
  epilogue.gamma = bench.matrix(1, kColumns, DType::kF32);
  epilogue.beta = epilogue.gamma;
  epilogue.function = ActivationFunction::kRelu;
  epilogue.dropout = {{7, RandomStream::kDropout}, dropout_threshold(0.5), bench.upload(ids)};
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::ApplyEpilogue{x, epilogue, y});
  };
  made.no_reuse_bytes = made.compulsory_bytes = 2 * bytes_in(x);
  made.checked = element(y, rows - 1, 0);
  const double value = (Bench::value((rows - 1) * kColumns) + 1) * 2 * Bench::value(0);
  const bool keeps =
      dropout_keeps(epilogue.dropout.key, static_cast<std::uint64_t>(rows - 1), 0, 32768);
  made.expected = keeps ? 2 * std::max(0.0, value + Bench::value(0)) : 0;
  return made;
}

// The update of a matrix of 16 million parameters: p, g, m and v are read, all but g written.
Case adam(Bench& bench, std::int64_t count) {
  const MatrixView p = bench.matrix(1, count, DType::kF32);
  const MatrixView g = bench.matrix(1, count, DType::kF32);
  const MatrixView m = bench.matrix(1, count, DType::kF32);
  const MatrixView v = bench.matrix(1, count, DType::kF32);
  bench.backend().run(bench.queue(), kernels::FillZero{m});
  bench.backend().run(bench.queue(), kernels::FillZero{v});
  AdamSpec spec;
  spec.state = bench.upload(std::vector<EpochState>{{1, 0.25, 1 - 0.9, 1 - 0.999}}).data();
  Case made;
  made.run = [=, &bench, segments = std::vector<AdamSegment>{{0, count, 0}}]() mutable {
    spec.segments = segments;
    bench.backend().run(bench.queue(), kernels::AdamStep{spec, p, g, m, v});
  };
  made.no_reuse_bytes = made.compulsory_bytes = 7 * bytes_in(p);
  // A first step goes by the learning rate against the gradient's sign.
  const double gradient = Bench::value(0);
  made.checked = element(p, 0, 0);
  made.expected = gradient - (gradient > 0 ? 0.25 : gradient < 0 ? -0.25 : 0);
  return made;
}

template <typename Make, typename... Arguments>
void add_types(std::vector<Benchmark>& list, const std::string& name, Make make,
               Arguments... arguments) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    list.push_back({with_type(name, dtype),
                    [=](Bench& bench) { return make(bench, arguments..., dtype); }, dtype});
  }
}

}  // namespace

std::vector<Benchmark> limit_benchmarks() {
  std::vector<Benchmark> list{{"limit/copy", copy}};
  add_types(list, "limit/square_gemm", square_gemm);
  return list;
}

std::vector<Benchmark> dense_benchmarks() {
  // Three layers of 256 on 128 features and 40 classes.
  const Product products[] = {
      {"input", 0, 128, kColumns},
      {"hidden", 0, kColumns, kColumns},
      {"output", 0, kColumns, 40},
      {"weight_gradient", kColumns, 0, kColumns, Transpose::kYes},
  };
  std::vector<Benchmark> list;
  for (const Product& product : products) {
    add_types(list, std::string("gemm/") + product.name, layer_gemm, product);
  }
  add_types(list, "epilogue/bias_relu", bias_activation, ActivationFunction::kRelu);
  add_types(list, "epilogue/bias_gelu", bias_activation, ActivationFunction::kGelu);
  add_types(list, "gelu_backward", gelu_backward);
  add_types(list, "epilogue/norm_relu_dropout", norm_relu_dropout);
  list.push_back({"adam/16M", [](Bench& bench) { return adam(bench, bench.limit_size(1 << 24)); }});
  // The parameters of those three layers.
  list.push_back({"adam/110K", [](Bench& bench) { return adam(bench, 109'352); }});
  return list;
}

}  // namespace atl
