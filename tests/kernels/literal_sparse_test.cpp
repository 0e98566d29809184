// Sparse and wire operations with numbers worked out by hand, on every backend.
#include <cmath>

#include "tests/kernels/harness.hpp"

namespace atl {

namespace {

class LiteralSparse : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralSparse, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

// Directed, three inner nodes and one halo node (column 3):
//   0 reads 1 (weight 2) and 3 (weight .5); 1 reads nobody; 2 reads 0 twice (weight 1) and itself
//   (3).
const std::vector<std::int64_t> kRowPtr{0, 2, 2, 5};
const std::vector<std::int32_t> kColIdx{1, 3, 0, 2, 0};
const std::vector<float> kValues{2, 0.5, 1, 3, 1};
const std::vector<float> kX{1, 10, 2, 20, 3, 30, 4, 40};

SparseOperator directed_graph(Harness& h) {
  SparseOperator op;
  op.rows = 3;
  op.cols = 4;
  op.row_ptr = h.input_span(kRowPtr);
  op.col_idx = h.input_span(kColIdx);
  return op;
}

std::vector<double> multiply(Harness& h, const SparseOperator& op) {
  const ConstMatrixView x = h.input(4, 2, kX);
  const MatrixView y = h.output(3, 2);
  h.backend().run(h.queue(), kernels::Spmm{op, {0, 3}, x, 0, y});
  return h.download(y);
}

TEST_P(LiteralSparse, AbsentFactorsAreOnes) {
  Harness h(GetParam());
  // 0: 2 + 4; 1: nothing; 2: 1 + 3 + 1.
  EXPECT_EQ(multiply(h, directed_graph(h)), (std::vector<double>{6, 60, 0, 0, 5, 50}));
}

// Rows that are no columns: without self weights none is needed.
TEST_P(LiteralSparse, FewerColumnsThanRows) {
  Harness h(GetParam());
  SparseOperator op;
  op.rows = 3;
  op.cols = 2;
  op.row_ptr = h.input_span<std::int64_t>({0, 1, 1, 3});
  op.col_idx = h.input_span<std::int32_t>({1, 0, 1});
  const ConstMatrixView x = h.input(2, 2, std::vector<float>{1, 10, 2, 20});
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {1, 1, 2, 2, 3, 3});
  h.backend().run(h.queue(), kernels::Spmm{op, {0, 3}, x, 1, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{3, 21, 2, 2, 6, 33}));
}

TEST_P(LiteralSparse, EdgeValues) {
  Harness h(GetParam());
  SparseOperator op = directed_graph(h);
  op.values = h.input_span(kValues);
  // 0: 2 * 2 + .5 * 4; 2: 1 + 3 * 3 + 1.
  EXPECT_EQ(multiply(h, op), (std::vector<double>{6, 60, 0, 0, 11, 110}));
}

TEST_P(LiteralSparse, ScalesAndSelfWeight) {
  Harness h(GetParam());
  SparseOperator op = directed_graph(h);
  op.values = h.input_span(kValues);
  op.row_scale = h.input_span<float>({1, 2, 0.5});
  op.col_scale = h.input_span<float>({1, 0.5, 2, 0.25});
  op.self_weight = h.input_span<float>({1, 3, 0});
  // 0: 1 * (2 * .5 * 2 + .5 * .25 * 4 + 1 * 1 * 1) = 3.5
  // 1: 2 * (3 * .5 * 2) = 6
  // 2: .5 * (1 * 1 * 1 + 3 * 2 * 3 + 1 * 1 * 1) = 10
  EXPECT_EQ(multiply(h, op), (std::vector<double>{3.5, 35, 6, 60, 10, 100}));
}

TEST_P(LiteralSparse, WritesOnlyTheRowsAsked) {
  Harness h(GetParam());
  const SparseOperator op = directed_graph(h);
  const ConstMatrixView x = h.input(4, 2, kX);
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {-1, -2, -3, -4, -5, -6});
  h.backend().run(h.queue(), kernels::Spmm{op, {2, 3}, x, 0, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{-1, -2, -3, -4, 5, 50}));
  h.backend().run(h.queue(), kernels::Spmm{op, {1, 1}, x, 0, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{-1, -2, -3, -4, 5, 50}));
}

TEST_P(LiteralSparse, AddsToWhatWasThere) {
  Harness h(GetParam());
  SparseOperator op = directed_graph(h);
  op.row_scale = h.input_span<float>({0.5, 2, 0});
  const ConstMatrixView x = h.input(4, 2, kX);
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {-1, -2, -3, -4, -5, -6});
  h.backend().run(h.queue(), kernels::Spmm{op, {0, 3}, x, 1, y});
  // 0: -1 + .5 * 6; the others add nothing.
  EXPECT_EQ(h.download(y), (std::vector<double>{2, 28, -3, -4, -5, -6}));
}

// The ids of dropout count from the first row asked for.
TEST_P(LiteralSparse, EpilogueFollowsTheSum) {
  Harness h(GetParam());
  const SparseOperator op = directed_graph(h);
  const ConstMatrixView x = h.input(4, 2, kX);
  Epilogue epilogue;
  epilogue.mean = h.input_span<double>({1, 10});
  epilogue.inv_std = h.input_span<double>({2, 0.5});
  epilogue.gamma = h.input<float>(1, 2, {1, -1});
  epilogue.beta = h.input<float>(1, 2, {0, 100});
  epilogue.function = ActivationFunction::kRelu;
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {9, 9, 0, 300, 4, 50});
  h.backend().run(h.queue(), kernels::Spmm{op, {1, 3}, x, 1, y, epilogue});
  // Sums 0, 300 and 9, 100: (0 - 1) * 2 < 0; (300 - 10) * .5 * -1 + 100 = -45 < 0;
  // (9 - 1) * 2 = 16; (100 - 10) * .5 * -1 + 100 = 55.
  EXPECT_EQ(h.download(y), (std::vector<double>{9, 9, 0, 0, 16, 55}));

  const RandomKey key{3, RandomStream::kDropout};
  constexpr std::int64_t kCols = 32;
  const ConstMatrixView ones = h.input(4, kCols, std::vector<float>(4 * kCols, 1));
  const MatrixView dropped = h.matrix(3, kCols, Use::kInOut, std::vector<float>(3 * kCols, 1));
  Epilogue dropout;
  dropout.dropout = {key, dropout_threshold(0.5), h.input_span<GlobalId>({GlobalId{70}})};
  h.backend().run(h.queue(), kernels::Spmm{op, {2, 3}, ones, 0, dropped, dropout});
  const auto found = h.download(dropped);
  for (std::uint32_t j = 0; j < kCols; ++j) {
    ASSERT_EQ(found[j], 1) << j;
    ASSERT_EQ(found[2 * kCols + j], dropout_keeps(key, 70, j, 32768) ? 6.0 : 0.0) << j;
  }
}

// A rank's rows of x beyond those that its edges name may hold anything, NaN included.
TEST_P(LiteralSparse, ReadsOnlyNeighbours) {
  Harness h(GetParam());
  const SparseOperator op = directed_graph(h);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ConstMatrixView x = h.input<float>(4, 1, {1, nan, 3, nan});
  const MatrixView y = h.matrix<float>(3, 1, Use::kInOut, {7, 7, 7});
  h.backend().run(h.queue(), kernels::Spmm{op, {1, 3}, x, 0, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{7, 0, 5}));
}

TEST_P(LiteralSparse, GatherRows) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input(4, 2, kX);
  const auto rows = h.input_span<LocalId>({LocalId{3}, LocalId{0}, LocalId{3}});
  const MatrixView plain = h.output(3, 2);
  h.backend().run(h.queue(), kernels::GatherRows{x, rows, {}, plain});
  EXPECT_EQ(h.download(plain), (std::vector<double>{4, 40, 1, 10, 4, 40}));
  const MatrixView scaled = h.output(3, 2);
  h.backend().run(h.queue(),
                  kernels::GatherRows{x, rows, h.input_span<float>({2, 9, 9, 0.5}), scaled});
  EXPECT_EQ(h.download(scaled), (std::vector<double>{2, 20, 2, 20, 2, 20}));
}

// Nor is a row without self weight its own neighbour, beside others that have one.
TEST_P(LiteralSparse, ReadsOnlyNeighboursBesideSelfWeights) {
  Harness h(GetParam());
  SparseOperator op = directed_graph(h);
  op.self_weight = h.input_span<float>({0, 0, 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<RowRange> ranges{{0, 3}};
  for (const bool prepared : {false, true}) {
    const auto made = prepared ? h.backend().prepare_spmm(h.queue(), op, kRowPtr, ranges) : nullptr;
    op.prepared = made.get();
    const ConstMatrixView x = h.input<float>(4, 1, {nan, 1, 1, 1});
    const MatrixView y = h.output(3, 1);
    h.backend().run(h.queue(), kernels::Spmm{op, {0, 3}, x, 0, y});
    const auto found = h.download(y);
    EXPECT_EQ(found[0], 2);
    EXPECT_EQ(found[1], 0);
    EXPECT_TRUE(std::isnan(found[2]));
  }
}

// 2^-30 beside 1 is lost in f32: this is what the f64 of finite differences is for.
TEST(ReferenceF64, KeepsDoublePrecision) {
  Harness h("reference");
  const SparseOperator op = directed_graph(h);
  const double small = 0x1p-30;
  const ConstMatrixView x = h.input<double>(4, 1, {1, 1, small, 1 + small});
  const MatrixView y = h.output<double>(3, 1);
  h.backend().run(h.queue(), kernels::Spmm{op, {0, 3}, x, 0, y});
  EXPECT_EQ(h.download(y), (std::vector<double>{2 + small, 0, 2 + small}));
}

}  // namespace

}  // namespace atl
