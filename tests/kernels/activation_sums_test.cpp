// Sums of gradients on their way through ReLU and dropout: what two operations would give, bit for
// bit.
#include <algorithm>
#include <bit>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

struct GradientShape {
  std::int64_t rows;
  std::int64_t cols;
};

std::vector<GradientShape> gradient_shapes() {
  if (small_tests()) return {{0, 5}, {33, 7}, {20, 64}};
  std::vector<GradientShape> list;
  for (const std::int64_t cols : {1, 7, 41, 47, 256, 602}) {
    for (const std::int64_t rows : {0, 1, 33, 300}) list.push_back({rows, cols});
  }
  list.push_back({2600, 41});  // several chunks on every backend
  list.push_back({2600, 64});
  return list;
}

// Unused elements behind the rows: odd places, none, and as the engine lays rows out.
std::vector<std::int64_t> paddings(std::int64_t cols) {
  return {3, 0, padded_columns(cols) - cols};
}

// How dx lies beside dy.
enum class Place { kInPlace, kElsewhere };

class ActivationSums : public ::testing::TestWithParam<BackendAndType> {
 protected:
  void SetUp() override {
    const auto& [backend, dtype] = GetParam();
    require_backend(backend);
    if (IsSkipped() || HasFatalFailure()) return;
    h = std::make_unique<Harness>(backend, 2, dtype);
  }

  // Calls body(rows, cols, place) for every case; matrices made there are padded.
  template <typename Body>
  void for_cases(const Body& body) {
    for (const auto [rows, cols] : gradient_shapes()) {
      for (const std::int64_t padding : paddings(cols)) {
        h->set_padding(padding);
        for (const Place place : {Place::kInPlace, Place::kElsewhere}) {
          SCOPED_TRACE(fmt::format("{} x {} + {}{}", rows, cols, padding,
                                   place == Place::kInPlace ? " in place" : ""));
          body(rows, cols, place);
          h->finish();
          if (HasFailure()) return;
        }
      }
    }
  }

  // A gradient and where it goes through the activation to.
  struct Gradient {
    ConstMatrixView dy;
    MatrixView dx;
  };
  Gradient gradient(std::int64_t rows, std::int64_t cols, Place place) {
    const auto values = random_floats(rows * cols, 2);
    if (place == Place::kElsewhere) return {h->input(rows, cols, values), h->output(rows, cols)};
    const MatrixView both = h->matrix(rows, cols, Use::kInOut, values);
    return {both, both};
  }

  template <typename View>
  void expect_equal(View found, View expected, const char* what) {
    std::vector<double> values, wanted;
    if constexpr (std::is_same_v<View, MatrixView>) {
      values = h->download(found);
      wanted = h->download(expected);
    } else {
      values = h->download_span(found);
      wanted = h->download_span(expected);
    }
    EXPECT_TRUE(std::ranges::equal(values, wanted, {}, std::bit_cast<std::uint64_t, double>,
                                   std::bit_cast<std::uint64_t, double>))
        << what;
  }

  static constexpr float kScale = 1.4F;
  std::unique_ptr<Harness> h;
};

// Range by range, as a layer's rows come, and added up.
TEST_P(ActivationSums, OfColumnsAreThoseOfTwoOperations) {
  for_cases([&](std::int64_t rows, std::int64_t cols, Place place) {
    const ConstMatrixView y = h->input(rows, cols, activations(rows * cols, 1));
    const auto before = random_floats(cols, 3);
    const MatrixView sums = h->matrix<float>(1, cols, Use::kInOut, before);
    const MatrixView expected = h->matrix<float>(1, cols, Use::kInOut, before);
    const Gradient found = gradient(rows, cols, place);
    const Gradient apart = gradient(rows, cols, place);
    for (const RowRange range : {RowRange{rows / 3, rows}, RowRange{0, rows / 3}}) {
      const bool accumulate = range.begin > 0 || rows == 0;
      h->backend().run(h->queue(), kernels::ColumnSums{found.dy.rows_in(range), accumulate, sums,
                                                       through_relu(y.rows_in(range), kScale,
                                                                    found.dx.rows_in(range))});
      h->backend().run(h->queue(),
                       kernels::ActivationBackward{
                           apart.dy.rows_in(range),
                           through_relu(y.rows_in(range), kScale, apart.dx.rows_in(range))});
      h->backend().run(h->queue(),
                       kernels::ColumnSums{apart.dx.rows_in(range), accumulate, expected});
    }
    expect_equal(found.dx, apart.dx, "dx");
    expect_equal(sums, expected, "sums");
  });
}

TEST_P(ActivationSums, OfBatchNormAreThoseOfTwoOperations) {
  for_cases([&](std::int64_t rows, std::int64_t cols, Place place) {
    const ConstMatrixView y = h->input(rows, cols, activations(rows * cols, 1));
    const ConstMatrixView x = h->input(rows, cols, random_floats(rows * cols, 4));
    const auto mean = h->input_span(random_doubles(cols, 5));
    const auto inv_std = h->input_span(random_doubles(cols, 6, 2));
    const Gradient dy[] = {gradient(rows, cols, place), gradient(rows, cols, place)};
    std::vector<std::span<double>> sums;
    std::vector<MatrixView> dgamma, dbeta;
    for (int k = 0; k < 2; ++k) {
      sums.push_back(h->output_span<double>(2 * cols));
      dgamma.push_back(h->matrix<float>(1, cols, Use::kInOut, random_floats(cols, 7)));
      dbeta.push_back(h->matrix<float>(1, cols, Use::kInOut, random_floats(cols, 8)));
    }
    h->backend().run(h->queue(),
                     kernels::BatchNormGradientSums{dy[0].dy, x, mean, inv_std, sums[0], dgamma[0],
                                                    dbeta[0], through_relu(y, kScale, dy[0].dx)});
    h->backend().run(h->queue(),
                     kernels::ActivationBackward{dy[1].dy, through_relu(y, kScale, dy[1].dx)});
    h->backend().run(h->queue(), kernels::BatchNormGradientSums{dy[1].dx, x, mean, inv_std, sums[1],
                                                                dgamma[1], dbeta[1]});
    expect_equal(dy[0].dx, dy[1].dx, "dx");
    expect_equal(sums[0], sums[1], "sums");
    expect_equal(dgamma[0], dgamma[1], "dgamma");
    expect_equal(dbeta[0], dbeta[1], "dbeta");
  });
}

// A NaN that came out of the forward pass lets the gradient through, and one in it is seen.
TEST_P(ActivationSums, KeepNaN) {
  const MatrixView out = h->output<float>(1, 3);
  const MatrixView dx = h->output(1, 3);
  h->backend().run(h->queue(),
                   kernels::ColumnSums{h->input(1, 3, {1, 1, kNaN}), false, out,
                                       through_relu(h->input(1, 3, {kNaN, 0, 1}), 2, dx)});
  for (const auto& found : {h->download(dx), h->download(out)}) {
    EXPECT_EQ(found[0], 2);
    EXPECT_EQ(found[1], 0);
    EXPECT_TRUE(std::isnan(found[2]));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ActivationSums,
                         ::testing::Combine(::testing::ValuesIn(backend_names()),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         typed_test_name);

}  // namespace

}  // namespace atl
