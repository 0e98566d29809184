// Pooling with numbers worked out by hand, and its gradients by finite differences.
#include <cmath>
#include <numeric>
#include <tuple>

#include "tests/kernels/attention_graph.hpp"
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

// Directed, three inner nodes and one halo node (column 3): 0 reads 1 and 3; 1 reads nobody; 2
// reads 0 and, twice, itself.
const std::vector<std::int64_t> kPooledRows{0, 2, 2, 5};
const std::vector<std::int32_t> kPooledColumns{1, 3, 0, 2, 2};

SparseOperator pooled_graph(Harness& h) {
  SparseOperator op;
  op.rows = 3;
  op.cols = 4;
  op.row_ptr = h.input_span(kPooledRows);
  op.col_idx = h.input_span(kPooledColumns);
  return op;
}

class LiteralPool : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralPool, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST_P(LiteralPool, Maximum) {
  Harness h(GetParam());
  const SparseOperator op = pooled_graph(h);
  const ConstMatrixView x = h.input<float>(4, 2, {1, 5, 3, -4, 2, 5, -7, -4});
  const MatrixView y = h.output(3, 2);
  h.backend().run(h.queue(), kernels::Pool{op, {0, 3}, x, {}, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{3, -4, 0, 0, 2, 5}));

  const ConstMatrixView dy = h.input<float>(3, 2, {1, 6, 9, 9, 4, 3});
  const MatrixView g = h.output(3, 2);
  h.backend().run(h.queue(), kernels::PoolBackwardTargets{op, {0, 3}, x, y, dy, {}, g});
  // Two edges share -4; two the 2, as parallel edges do; three the 5.
  EXPECT_EQ(h.download(g), (std::vector<double>{1, 3, 0, 0, 2, 1}));
  const MatrixView dx = h.output(4, 2);
  h.backend().run(
      h.queue(),
      kernels::PoolBackwardSources{
          op, upload(h, HostSourceEdges(kPooledRows, kPooledColumns, 4)), {0, 4}, x, y, g, {}, dx});
  EXPECT_EQ(h.download(dx), (std::vector<double>{0, 1, 1, 3, 4, 2, 0, 3}));
}

TEST_P(LiteralPool, Softmax) {
  Harness h(GetParam());
  const auto half_log3 = static_cast<float>(std::log(3.0) / 2);
  const ConstMatrixView x = h.input<float>(4, 1, {8, 0, 8, half_log3});
  const PoolSpec spec{PoolKind::kSoftmax, 2};
  const MatrixView y = h.output(3, 1);
  h.backend().run(h.queue(), kernels::Pool{pooled_graph(h), {0, 3}, x, spec, y});
  // Weights 1/4 and 3/4; equal ones.
  expect_close(h.download(y), {0.75 * std::log(3.0) / 2, 0, 8}, 1e-6, "y");
}

TEST_P(LiteralPool, PowerMean) {
  Harness h(GetParam());
  const SparseOperator op = pooled_graph(h);
  // 0 reads 3 and 4; the second column has numbers beyond both bounds.
  const ConstMatrixView x = h.input<float>(4, 2, {1, 20, 3, -5, 2, 6, 4, 40});
  const PoolSpec square{PoolKind::kPowerMean, 2};
  const MatrixView y = h.output(3, 2);
  h.backend().run(h.queue(), kernels::Pool{op, {0, 3}, x, square, y});
  const double least = 1e-7;
  expect_close(h.download(y),
               {std::sqrt((9 + 16) / 2.0), std::sqrt((least * least + 100) / 2), 0, 0,
                std::sqrt(3.0), std::sqrt((100 + 36 + 36) / 3.0)},
               1e-6, "y");
  const MatrixView g = h.output(3, 2);
  h.backend().run(h.queue(),
                  kernels::PoolBackwardTargets{
                      op, {0, 3}, x, y, h.input<float>(3, 2, {2, 2, 2, 2, 3, 3}), square, g});
  expect_close(h.download(g), {1, 1, 0, 0, 1, 1}, 1e-6, "g");
  const MatrixView dx = h.output(4, 2);
  h.backend().run(h.queue(), kernels::PoolBackwardSources{
                                 op,
                                 upload(h, HostSourceEdges(kPooledRows, kPooledColumns, 4)),
                                 {0, 4},
                                 x,
                                 y,
                                 g,
                                 square,
                                 dx});
  const double first = std::sqrt(12.5);
  const double last = std::sqrt(172 / 3.0);
  expect_close(
      h.download(dx),
      {1 / std::sqrt(3.0), 0, 3 / first, 0, 2 * 2 / std::sqrt(3.0), 2 * 6 / last, 4 / first, 0},
      1e-6, "dx");
}

// The harmonic mean, and what is close to the maximum: powers themselves would leave f32.
TEST_P(LiteralPool, PowerMeanOfOtherPowers) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(4, 1, {1, 2, 1e-6F, 6});
  for (const auto& [power, first, last] :
       {std::tuple(-1.0F, 3.0, 3 / (1 + 2e6)),
        std::tuple(100.0F, 6 * std::pow(0.5, 0.01), std::pow(3.0, -0.01)),
        std::tuple(-100.0F, 2 * std::pow(0.5, -0.01), 1e-6 * std::pow(2 / 3.0, -0.01)),
        // Closest to 0: the geometric mean.
        std::tuple(1e-9F, std::sqrt(12.0), 1e-4)}) {
    const MatrixView y = h.output(3, 1);
    h.backend().run(h.queue(),
                    kernels::Pool{pooled_graph(h), {0, 3}, x, {PoolKind::kPowerMean, power}, y});
    const std::vector<double> found = h.download(y);
    EXPECT_NEAR(found[0], first, 2e-3 * first) << power;
    EXPECT_NEAR(found[2], last, 3e-2 * last) << power;
  }
}

// Where differences are far beyond what an exponential function can take.
TEST_P(LiteralPool, SoftmaxOfLargeNumbers) {
  Harness h(GetParam());
  const SparseOperator op = pooled_graph(h);
  const ConstMatrixView x = h.input<float>(4, 1, {-3e30F, 1e4F, -1e4F, -1e4F});
  const PoolSpec spec{PoolKind::kSoftmax, 3};
  const MatrixView y = h.output(3, 1);
  h.backend().run(h.queue(), kernels::Pool{op, {0, 3}, x, spec, y});
  expect_close(h.download(y), {1e4, 0, -1e4}, 1e-6, "y");
  const MatrixView g = h.output(3, 1);
  h.backend().run(h.queue(), kernels::PoolBackwardTargets{
                                 op, {0, 3}, x, y, h.input<float>(3, 1, {5, 5, 5}), spec, g});
  expect_close(h.download(g), {5, 0, 2.5}, 1e-6, "g");
}

TEST_P(LiteralPool, NaNIsSeen) {
  for (const PoolKind kind : {PoolKind::kMaximum, PoolKind::kSoftmax, PoolKind::kPowerMean}) {
    for (const bool first : {true, false}) {
      Harness h(GetParam());
      const float one = first ? kNaN : 1;
      const float other = first ? 1 : kNaN;
      const MatrixView y = h.output(3, 1);
      h.backend().run(
          h.queue(),
          kernels::Pool{
              pooled_graph(h), {0, 3}, h.input<float>(4, 1, {0, one, 7, other}), {kind, 1}, y});
      const std::vector<double> found = h.download(y);
      EXPECT_TRUE(std::isnan(found[0])) << to_string(kind) << first;
      EXPECT_FALSE(std::isnan(found[2])) << to_string(kind) << first;
    }
  }
}

// Backward of the oracle against central differences of its forward, in f64.
TEST(PoolGradient, IsThatOfDifferences) {
  Harness h("reference");
  constexpr std::int64_t kColumns = 3;
  const SparseOperator op = pooled_graph(h);
  const SourceEdges edges = upload(h, HostSourceEdges(kPooledRows, kPooledColumns, 4));
  std::vector<double> x = random_doubles(4 * kColumns, 1);
  for (double& value : x) value += 1.5;  // where powers have slopes, too
  const std::vector<double> dy = random_doubles(3 * kColumns, 2);
  for (const PoolSpec spec :
       {PoolSpec{}, PoolSpec{PoolKind::kSoftmax, 1}, PoolSpec{PoolKind::kSoftmax, 3},
        PoolSpec{PoolKind::kSoftmax, -2}, PoolSpec{PoolKind::kPowerMean, 1},
        PoolSpec{PoolKind::kPowerMean, 3}, PoolSpec{PoolKind::kPowerMean, -2}}) {
    const auto pooled = [&](const std::vector<double>& values) {
      const MatrixView y = h.output<double>(3, kColumns);
      h.backend().run(h.queue(), kernels::Pool{op, {0, 3}, h.input(4, kColumns, values), spec, y});
      return y;
    };
    const auto loss = [&](const std::vector<double>& values) {
      const std::vector<double> y = h.download(pooled(values));
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    const ConstMatrixView inputs = h.input(4, kColumns, x);
    const MatrixView y = pooled(x);
    const MatrixView g = h.output<double>(3, kColumns);
    h.backend().run(h.queue(), kernels::PoolBackwardTargets{
                                   op, {0, 3}, inputs, y, h.input(3, kColumns, dy), spec, g});
    const MatrixView dx = h.output<double>(4, kColumns);
    h.backend().run(h.queue(),
                    kernels::PoolBackwardSources{op, edges, {0, 4}, inputs, y, g, spec, dx});
    expect_close(h.download(dx), central_differences(loss, x, 1e-6), 1e-7, to_string(spec.kind));
  }
}

// And that with respect to t or p, which lie in memory.
TEST(PoolSlope, IsThatOfDifferences) {
  Harness h("reference");
  constexpr std::int64_t kColumns = 3;
  const SparseOperator op = pooled_graph(h);
  const ConstMatrixView x = h.input(4, kColumns, random_doubles(4 * kColumns, 1));
  for (const PoolKind kind : {PoolKind::kSoftmax, PoolKind::kPowerMean}) {
    for (const double sharpness : {1.0, 3.0, -2.0}) {
      const auto spec = [&](const std::vector<double>& trained) {
        return PoolSpec{kind, 77, h.input(1, 1, trained).data};
      };
      const auto pooled = [&](const std::vector<double>& trained) {
        const MatrixView y = h.output<double>(3, kColumns);
        h.backend().run(h.queue(), kernels::Pool{op, {0, 3}, x, spec(trained), y});
        return y;
      };
      const MatrixView slope = h.output<double>(3, kColumns);
      h.backend().run(h.queue(), kernels::PoolSlope{
                                     op, {0, 3}, x, pooled({sharpness}), spec({sharpness}), slope});
      const std::vector<double> found = h.download(slope);
      for (std::size_t k = 0; k < found.size(); ++k) {
        const auto element = [&](const std::vector<double>& trained) {
          return h.download(pooled(trained))[k];
        };
        EXPECT_NEAR(found[k], central_differences(element, {sharpness}, 1e-6)[0], 1e-7)
            << to_string(kind) << sharpness;
      }
    }
  }
}

}  // namespace

}  // namespace atl
