// The passes of batch and layer normalisation over matrices 256 wide, and the loss.
#include <cmath>

#include "tests/benchmarks/bench.hpp"

namespace atl {

namespace {

// The matrices and columns that these operations share.
struct Data {
  Data(Bench& bench, DType dtype)
      : rows(bench.scaled(kArxivNodes)),
        x(bench.matrix(rows, kColumns, dtype)),
        y(bench.matrix(rows, kColumns, dtype)),
        dy(bench.matrix(rows, kColumns, dtype)),
        dx(bench.matrix(rows, kColumns, dtype)),
        gamma(bench.matrix(1, kColumns, DType::kF32)),
        dgamma(bench.matrix(1, kColumns, DType::kF32)),
        dbeta(bench.matrix(1, kColumns, DType::kF32)),
        mean(bench.upload(std::vector<double>(kColumns, 0.25))),
        inv_std(bench.upload(std::vector<double>(kColumns, 2))),
        sums(bench.upload(std::vector<double>(2 * kColumns, static_cast<double>(rows)))) {}

  // Bytes of `passes` reads or writes of one matrix.
  double bytes(int passes) const {
    return passes * static_cast<double>(rows * kColumns * bytes_of(x.dtype));
  }
  // Sum over rows of column 0 of `term(x, dy)`, whose values are the same.
  template <typename Term>
  double column_sum(const Term& term) const {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += term(Bench::value(i * kColumns));
    return sum;
  }
  double last() const { return Bench::value((rows - 1) * kColumns); }
  // With dropout that kept all of y and doubled it.
  ActivationGradient through_relu() const {
    return {y, dx, ActivationFunction::kRelu, {.key = {}, .rate = {32768, 2}, .row_ids = {}}};
  }

  std::int64_t rows;
  MatrixView x, y, dy, dx, gamma, dgamma, dbeta;
  std::span<double> mean, inv_std, sums;
};

ConstMatrixView first_of(std::span<double> values) { return {values.data(), 1, 1, 1, DType::kF64}; }

Case moments(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::BatchNormMoments{d.x, d.mean, d.sums});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(1);
  made.checked = first_of(d.sums);
  made.expected = d.column_sum([](double x) { return x - 0.25; });
  return made;
}

Case gradient_sums(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::BatchNormGradientSums{d.dy, d.x, d.mean, d.inv_std,
                                                                      d.sums, d.dgamma, d.dbeta});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(2);
  made.checked = first_of(d.sums.subspan(kColumns));
  made.expected = d.column_sum([](double x) { return x * (x - 0.25) * 2; });
  return made;
}

// Both sums of gradients on their way through ReLU and dropout, whose output is x.
Case activation_gradient_sums(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(),
                        kernels::BatchNormGradientSums{d.dy, d.x, d.mean, d.inv_std, d.sums,
                                                       d.dgamma, d.dbeta, d.through_relu()});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(4);
  made.checked = first_of(d.sums.subspan(kColumns));
  made.expected = d.column_sum([](double x) { return 2 * x * (x - 0.25) * 2; });
  return made;
}

Case activation_column_sums(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::ColumnSums{d.dy, false, d.dbeta, d.through_relu()});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(3);
  made.checked = element(d.dbeta, 0, 0);
  made.expected = d.column_sum([](double x) { return 2 * x; });
  return made;
}

Case batch_norm_backward(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::BatchNormBackward{d.dy, d.x, d.mean, d.inv_std,
                                                                  d.gamma, d.sums, d.rows, d.dx});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(3);
  made.checked = element(d.dx, d.rows - 1, 0);
  // Both means over rows are 1.
  made.expected = Bench::value(0) * 2 * (d.last() - 1 - (d.last() - 0.25) * 2);
  return made;
}

Case layer_norm(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::LayerNorm{d.x, d.gamma, d.gamma, 1e-5, d.dx});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(2);
  double sum = 0;
  double squares = 0;
  for (std::int64_t j = 0; j < kColumns; ++j) {
    const double value = Bench::value((d.rows - 1) * kColumns + j);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kColumns;
  const double inv_std = 1 / std::sqrt(squares / kColumns - mean * mean + 1e-5);
  made.checked = element(d.dx, d.rows - 1, 0);
  made.expected = (d.last() - mean) * inv_std * Bench::value(0) + Bench::value(0);
  return made;
}

Case layer_norm_backward(Bench& bench, DType dtype) {
  const Data d(bench, dtype);
  bench.backend().run(bench.queue(), kernels::FillZero{d.dbeta});
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::LayerNormBackward{d.dy, d.x, d.gamma, 1e-5, d.dx,
                                                                  d.dgamma, d.dbeta});
  };
  made.no_reuse_bytes = made.compulsory_bytes = d.bytes(3);
  made.checked = element(d.dbeta, 0, 0);
  made.expected = d.column_sum([](double dy) { return dy; });
  return made;
}

// Every row counts; 40 classes.
Case softmax(Bench& bench, DType dtype) {
  constexpr std::int64_t kClasses = 40;
  const std::int64_t rows = bench.scaled(kArxivNodes);
  const MatrixView logits = bench.matrix(rows, kClasses, dtype);
  const MatrixView dlogits = bench.matrix(rows, kClasses, dtype);
  std::vector<LocalId> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(LocalId{static_cast<std::int32_t>(i)});
  const auto all = bench.upload(ids);
  const auto labels = bench.upload(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
  const auto loss = bench.upload(std::vector<double>(1));
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(),
                        kernels::SoftmaxCrossEntropy{logits, labels, all, 1, dlogits, loss});
  };
  made.no_reuse_bytes = made.compulsory_bytes =
      static_cast<double>(rows) * (8 + 2.0 * static_cast<double>(kClasses * bytes_of(dtype)));
  double sum = 0;
  for (std::int64_t j = 0; j < kClasses; ++j) {
    sum += std::exp(Bench::value((rows - 1) * kClasses + j));
  }
  made.checked = element(dlogits, rows - 1, 0);
  made.expected = std::exp(Bench::value((rows - 1) * kClasses)) / sum - 1;
  return made;
}

}  // namespace

std::vector<Benchmark> normalization_benchmarks() {
  struct Named {
    const char* name;
    Case (*make)(Bench&, DType);
  };
  std::vector<Benchmark> list;
  for (const Named& named :
       {Named{"batch_norm/moments", moments}, Named{"batch_norm/gradient_sums", gradient_sums},
        Named{"batch_norm/activation_gradient_sums", activation_gradient_sums},
        Named{"activation_column_sums", activation_column_sums},
        Named{"batch_norm/backward", batch_norm_backward}, Named{"layer_norm/forward", layer_norm},
        Named{"layer_norm/backward", layer_norm_backward},
        Named{"softmax_cross_entropy", softmax}}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      list.push_back({with_type(named.name, dtype),
                      [make = named.make, dtype](Bench& bench) { return make(bench, dtype); },
                      dtype});
    }
  }
  return list;
}

}  // namespace atl
