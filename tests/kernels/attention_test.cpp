// Attention with numbers worked out by hand, its gradients by finite differences, and in pieces.
#include <cmath>
#include <functional>

#include "tests/kernels/attention_graph.hpp"
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

const double kLogThree = std::log(3.0);

class LiteralAttention : public BackendTest {
 protected:
  // Directed, three inner nodes and one halo node (column 3): 0 reads 1 and 3; 1 reads nobody; 2
  // reads 0 and itself.
  const std::vector<std::int64_t> row_ptr_{0, 2, 2, 4};
  const std::vector<std::int32_t> col_idx_{1, 3, 0, 2};
  const std::vector<float> z_{1, 2, 3, -4, 5, 6, 7, 8};

  SparseOperator directed_graph(Harness& h) const {
    SparseOperator op;
    op.rows = 3;
    op.cols = 4;
    op.row_ptr = h.input_span(row_ptr_);
    op.col_idx = h.input_span(col_idx_);
    return op;
  }
  // s_j + t_i: 0 and log 3 for row 0, 0 and -2 log 3 for row 2, whose leaky relu is -log 3.
  static AttentionSpec additive(Harness& h) {
    const auto log3 = static_cast<float>(kLogThree);
    AttentionSpec spec;
    spec.slope = 0.5;
    spec.vector = h.input<float>(1, 2, {10, 100});
    spec.source_scores = h.input<float>(4, 1, {1, 1, 1 - 2 * log3, 1 + log3});
    return spec;
  }
  static ConstMatrixView additive_targets(Harness& h) { return h.input<float>(3, 1, {-1, 9, -1}); }
};
INSTANTIATE_TEST_SUITE_P(Backends, LiteralAttention, ::testing::ValuesIn(backend_names()),
                         backend_test_name);

TEST_P(LiteralAttention, Additive) {
  Harness h(GetParam());
  const MatrixView y = h.output(3, 2);
  h.backend().run(
      h.queue(),
      kernels::Attend{
          directed_graph(h), {0, 3}, h.input(4, 2, z_), additive_targets(h), additive(h), y});
  // 0: 1/4 (3, -4) + 3/4 (7, 8); 2: 3/4 (1, 2) + 1/4 (5, 6).
  expect_close(h.download(y), {6, 5, 0, 0, 2, 3}, 1e-6, "y");
}

TEST_P(LiteralAttention, AdditiveWithSelf) {
  Harness h(GetParam());
  AttentionSpec spec = additive(h);
  spec.with_self = true;
  const MatrixView y = h.output(3, 2);
  h.backend().run(
      h.queue(),
      kernels::Attend{directed_graph(h), {0, 3}, h.input(4, 2, z_), additive_targets(h), spec, y});
  // 0: 1/5 (1, 2) + 1/5 (3, -4) + 3/5 (7, 8); 1: itself; 2: the edge to itself counts once.
  expect_close(h.download(y), {5, 4.4, 3, -4, 2, 3}, 1e-6, "y");
}

TEST_P(LiteralAttention, AdditiveBackward) {
  Harness h(GetParam());
  const SparseOperator op = directed_graph(h);
  const AttentionSpec spec = additive(h);
  const ConstMatrixView z = h.input(4, 2, z_);
  const ConstMatrixView t = additive_targets(h);
  const ConstMatrixView dy = h.input<float>(3, 2, {1, 0, 5, 5, 0, 1});
  const MatrixView dt = h.output(3, 1);
  const MatrixView coefficients = h.output(4, 2);
  h.backend().run(h.queue(),
                  kernels::AttendBackwardTargets{op, {0, 3}, z, t, dy, spec, dt, coefficients, {}});
  // 0: gradients of alpha are 3 and 7, their mean is 6: -3/4 and 3/4, the first times leaky'(0) =
  // 1/2. 2: 2 and 6, mean 3: -3/4 and 3/4, both times 1/2.
  expect_close(h.download(coefficients), {0.25, -0.375, 0.75, 0.75, 0.75, -0.375, 0.25, 0.375},
               2e-6, "coefficients");
  expect_close(h.download(dt), {0.375, 0, 0}, 2e-6, "dt");

  const HostSourceEdges by_source(row_ptr_, col_idx_, 4);
  const MatrixView dz = h.output(4, 2);
  const MatrixView dvector = h.matrix<float>(1, 2, Use::kInOut, {1, -1});
  h.backend().run(h.queue(),
                  kernels::AttendBackwardSources{
                      op, upload(h, by_source), {0, 4}, z, t, dy, coefficients, spec, dz, dvector});
  // alpha dy + the gradient of s_j times (10, 100).
  expect_close(h.download(dz), {-3.75, -36.75, -3.5, -37.5, 3.75, 37.75, 8.25, 75}, 2e-6, "dz");
  // (1, -1) - 3/8 (1, 2) - 3/8 (3, -4) + 3/8 (5, 6) + 3/4 (7, 8).
  expect_close(h.download(dvector), {6.625, 8}, 2e-6, "dvector");
}

// As above: what the scores of sources lack, or have too much, edges have, and rows with
// themselves.
TEST_P(LiteralAttention, AdditiveScoresOfEdges) {
  Harness h(GetParam());
  const auto log3 = static_cast<float>(kLogThree);
  AttentionSpec spec = additive(h);
  spec.source_scores = h.input<float>(4, 1, {0, 3, 1 - 2 * log3, 1});
  // 0 from 1 and 3, 2 from 0 and itself.
  spec.edge_scores = h.input<float>(4, 1, {-2, log3, 1, 0});
  const ConstMatrixView z = h.input(4, 2, z_);
  const ConstMatrixView t = additive_targets(h);
  const MatrixView y = h.output(3, 2);
  h.backend().run(h.queue(), kernels::Attend{directed_graph(h), {0, 3}, z, t, spec, y});
  expect_close(h.download(y), {6, 5, 0, 0, 2, 3}, 1e-6, "y");

  // The edge 2 -> 2 of the operator is passed over, whatever its score.
  spec.with_self = true;
  spec.edge_scores = h.input<float>(7, 1, {-2, log3, 1, 77, 1, 5, 2 * log3});
  h.backend().run(h.queue(), kernels::Attend{directed_graph(h), {0, 3}, z, t, spec, y});
  // Scores of row 2: 0 and 0.
  expect_close(h.download(y), {5, 4.4, 3, -4, 3, 4}, 1e-6, "y with itself");
  const MatrixView dt = h.output(3, 1);
  const MatrixView coefficients = h.output(7, 2);
  h.backend().run(h.queue(),
                  kernels::AttendBackwardTargets{directed_graph(h),
                                                 {0, 3},
                                                 z,
                                                 t,
                                                 h.input<float>(3, 2, {0, 0, 5, 5, 0, 1}),
                                                 spec,
                                                 dt,
                                                 coefficients,
                                                 {}});
  // Gradients of alpha are 2 and 6, mean 4: -1 and 1, times leaky'(0).
  expect_close(h.download(coefficients), {0.2, 0, 0.6, 0, 0.5, -0.5, 0, 0, 0.2, 0, 1, 0, 0.5, 0.5},
               2e-6, "coefficients");
}

// Edges that a row passes over have coefficients, which are 0; those it adds come behind all.
TEST_P(LiteralAttention, CoefficientsWithSelf) {
  Harness h(GetParam());
  AttentionSpec spec = additive(h);
  spec.with_self = true;
  const MatrixView dt = h.output(3, 1);
  const MatrixView coefficients = h.output(7, 2);
  h.backend().run(h.queue(),
                  kernels::AttendBackwardTargets{directed_graph(h),
                                                 {0, 3},
                                                 h.input(4, 2, z_),
                                                 additive_targets(h),
                                                 h.input<float>(3, 2, {0, 0, 5, 5, 0, 1}),
                                                 spec,
                                                 dt,
                                                 coefficients,
                                                 {}});
  expect_close(h.download(coefficients),
               {0.2, 0, 0.6, 0, 0.75, -0.375, 0, 0, 0.2, 0, 1, 0, 0.25, 0.375}, 2e-6,
               "coefficients");
}

TEST_P(LiteralAttention, Gatv2OfTwoHeads) {
  Harness h(GetParam());
  const auto log3 = static_cast<float>(kLogThree);
  AttentionSpec spec;
  spec.score = AttentionScore::kGatv2;
  spec.heads = 2;
  spec.slope = 0.5;
  spec.vector = h.input<float>(1, 2, {log3, -log3});
  const ConstMatrixView z = h.input<float>(4, 2, {9, 9, -1, 1, 9, 9, 0, 2});
  const ConstMatrixView t = h.input<float>(3, 2, {1, -1, 0, 0, 0, 0});
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {0, 0, 7, 7, 8, 8});
  h.backend().run(h.queue(), kernels::Attend{directed_graph(h), {0, 1}, z, t, spec, y});
  // Scores 0 and log 3; 0 and -log 3. Other rows are left alone.
  expect_close(h.download(y), {-0.25, 1.25, 7, 7, 8, 8}, 1e-6, "y");
}

// The same inside of leaky: features of edges add what t and z lack.
TEST_P(LiteralAttention, Gatv2WithFeaturesOfEdges) {
  Harness h(GetParam());
  const auto log3 = static_cast<float>(kLogThree);
  AttentionSpec spec;
  spec.score = AttentionScore::kGatv2;
  spec.heads = 2;
  spec.slope = 0.5;
  spec.vector = h.input<float>(1, 2, {log3, -log3});
  // They add 1 and -1 to 0 from 1, 4 and -1 to 0 from 3.
  spec.edges = {
      h.input_span<float>({1, 1, 4, 1, 9, 9, 9, 9}), {}, h.input<float>(2, 2, {1, 0, 0, -1})};
  const ConstMatrixView z = h.input<float>(4, 2, {9, 9, -1, 1, 9, 9, -3, 2});
  const ConstMatrixView t = h.input<float>(3, 2, {0, 0, 0, 0, 0, 0});
  const MatrixView y = h.matrix<float>(3, 2, Use::kInOut, {0, 0, 7, 7, 8, 8});
  h.backend().run(h.queue(), kernels::Attend{directed_graph(h), {0, 1}, z, t, spec, y});
  // Scores 0 and log 3; 0 and -log 3.
  expect_close(h.download(y), {-2.5, 1.25, 7, 7, 8, 8}, 1e-6, "y");
}

TEST_P(LiteralAttention, DotIsDividedByTheRootOfColumns) {
  Harness h(GetParam());
  const auto log3 = static_cast<float>(kLogThree);
  AttentionSpec spec;
  spec.score = AttentionScore::kDot;
  const ConstMatrixView z = h.input<float>(4, 4, {9, 9, 9, 9, 0, 4, 0, 0, 9, 9, 9, 9, 1, 8, 0, 0});
  const ConstMatrixView t = h.input<float>(3, 4, {2 * log3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const MatrixView y = h.output(3, 4);
  h.backend().run(h.queue(), kernels::Attend{directed_graph(h), {0, 3}, z, t, spec, y});
  // Row 2: two equal scores of equal rows.
  expect_close(h.download(y), {0.75, 7, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9}, 1e-6, "y");
}

// One edge has alpha = 1; nine heads take a second random block, and 40 more than a warp has.
void expect_dropout_of_coefficients(const std::string& backend, std::int64_t heads,
                                    std::int64_t first_head) {
  Harness h(backend);
  const RandomKey key{5, RandomStream::kAttentionDropout, 1, 0};
  RandomKey now = key;
  now.epoch = 6;
  AttentionSpec spec;
  spec.score = AttentionScore::kDot;
  spec.heads = heads;
  spec.dropout = {{.key = key,
                   .rate = dropout_threshold(0.5),
                   .row_ids = h.input_span<GlobalId>({GlobalId{70}}),
                   .state = h.epoch_state({.epoch = 6})},
                  h.input_span<GlobalId>({GlobalId{70}, GlobalId{90}}),
                  first_head};
  SparseOperator op;
  op.rows = 1;
  op.cols = 2;
  op.row_ptr = h.input_span<std::int64_t>({0, 1});
  op.col_idx = h.input_span<std::int32_t>({1});
  const auto count = static_cast<std::size_t>(heads);
  const MatrixView y = h.output(1, heads);
  h.backend().run(h.queue(), kernels::Attend{op,
                                             {0, 1},
                                             h.input(2, heads, std::vector<float>(2 * count, 3)),
                                             h.input(1, heads, std::vector<float>(count, 1)),
                                             spec,
                                             y});
  std::vector<double> expected;
  for (std::int64_t head = first_head; head < first_head + heads; ++head) {
    const std::uint64_t row = 70 | static_cast<std::uint64_t>(head / 8) << 32U;
    const PhiloxBlock block = random_block(now, row, 90);
    const std::uint32_t half = dropout_half_word(block, static_cast<std::uint32_t>(head % 8));
    expected.push_back(half < 32768 ? 6 : 0);
  }
  expect_close(h.download(y), expected, 1e-6, "y");
}
TEST_P(LiteralAttention, DropoutOfCoefficients) {
  for (const std::int64_t heads : {9, 40}) {
    for (const std::int64_t first : {0, 3, 8, 13}) {
      SCOPED_TRACE(fmt::format("{} heads behind {}", heads, first));
      expect_dropout_of_coefficients(GetParam(), heads, first);
    }
  }
}

TEST_P(LiteralAttention, PairDots) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(3, 2, {1, 2, 3, 4, -5, 6});
  const MatrixView dots = h.output(4, 1);
  h.backend().run(
      h.queue(),
      kernels::PairDots{x, h.input_span<LocalId>({LocalId{0}, LocalId{2}, LocalId{1}, LocalId{1}}),
                        h.input_span<LocalId>({LocalId{1}, LocalId{0}, LocalId{1}, LocalId{2}}),
                        dots});
  EXPECT_EQ(h.download(dots), (std::vector<double>{11, 7, 25, 9}));
}

TEST_P(LiteralAttention, PairProducts) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(3, 2, {1, 2, 3, 4, -5, 6});
  const ConstMatrixView z = h.input<float>(2, 2, {10, 100, -1, 0.5});
  const MatrixView y = h.output(3, 2);
  h.backend().run(h.queue(), kernels::PairProducts{
                                 x, h.input_span<LocalId>({LocalId{2}, LocalId{0}, LocalId{2}}), z,
                                 h.input_span<LocalId>({LocalId{0}, LocalId{1}, LocalId{1}}), y});
  EXPECT_EQ(h.download(y), (std::vector<double>{-50, 600, -1, 1, 5, 3}));
}

TEST_P(LiteralAttention, HeadOperations) {
  Harness h(GetParam());
  const ConstMatrixView x = h.input<float>(2, 4, {1, 2, 3, 4, 5, 6, 7, 8});
  const ConstMatrixView vector = h.input<float>(1, 4, {1, 10, -1, 2});
  const MatrixView dots = h.output(2, 2);
  h.backend().run(h.queue(), kernels::HeadDots{x, vector, dots});
  EXPECT_EQ(h.download(dots), (std::vector<double>{21, 5, 65, 9}));

  const MatrixView dx = h.output(2, 4);
  const MatrixView dvector = h.matrix<float>(1, 4, Use::kInOut, {100, 0, 0, 0});
  h.backend().run(h.queue(), kernels::HeadDotsBackward{h.input<float>(2, 2, {1, 2, 3, 0}), x,
                                                       vector, dx, dvector});
  EXPECT_EQ(h.download(dx), (std::vector<double>{1, 10, -2, 4, 3, 30, 0, 0}));
  EXPECT_EQ(h.download(dvector), (std::vector<double>{116, 20, 6, 8}));

  const MatrixView mean = h.output(2, 2);
  h.backend().run(h.queue(), kernels::HeadMean{x, mean});
  EXPECT_EQ(h.download(mean), (std::vector<double>{2, 3, 6, 7}));
  const MatrixView spread = h.output(2, 4);
  h.backend().run(h.queue(), kernels::HeadMeanBackward{mean, spread});
  EXPECT_EQ(h.download(spread), (std::vector<double>{1, 1.5, 1, 1.5, 3, 3.5, 3, 3.5}));
}

// A score that is not a number reaches every column of its head, and no other row.
TEST_P(LiteralAttention, NanIsSeen) {
  Harness h(GetParam());
  AttentionSpec spec = additive(h);
  spec.source_scores = h.input<float>(4, 1, {1, kNaN, 1, 1});
  const MatrixView y = h.output(3, 2);
  h.backend().run(
      h.queue(),
      kernels::Attend{directed_graph(h), {0, 3}, h.input(4, 2, z_), additive_targets(h), spec, y});
  const auto found = h.download(y);
  EXPECT_TRUE(std::isnan(found[0]) && std::isnan(found[1]));
  for (std::size_t k = 2; k < 6; ++k) EXPECT_TRUE(std::isfinite(found[k])) << k;
}

// Scores far apart: exp of their differences is 0, not of themselves infinite.
TEST_P(LiteralAttention, GreatScores) {
  Harness h(GetParam());
  AttentionSpec spec = additive(h);
  spec.source_scores = h.input<float>(4, 1, {-1000, 1e30F, 1e4F, -1e30F});
  const MatrixView y = h.output(3, 2);
  h.backend().run(
      h.queue(),
      kernels::Attend{directed_graph(h), {0, 3}, h.input(4, 2, z_), additive_targets(h), spec, y});
  expect_close(h.download(y), {3, -4, 0, 0, 5, 6}, 1e-6, "y");
}

// The calls that an engine divides rows into give what one call gives.
class AttentionPieces : public ::testing::TestWithParam<BackendAndType> {
 protected:
  void SetUp() override { require_backend(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Backends, AttentionPieces,
                         ::testing::Combine(::testing::ValuesIn(backend_names()),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         typed_test_name);

TEST_P(AttentionPieces, EqualOneCall) {
  constexpr std::int64_t kRows = 60;
  constexpr std::int64_t kCols = 24;
  constexpr std::int64_t kHeads = 3;
  const auto& [backend, dtype] = GetParam();
  Harness h(backend, 2, dtype);
  const TestGraph graph(kRows, 40);
  const SparseOperator op = upload(h, graph);
  const auto nnz = static_cast<std::int64_t>(graph.col_idx.size());
  const SourceEdges edges = upload(h, HostSourceEdges(graph.row_ptr, graph.col_idx, graph.cols));
  const ConstMatrixView z = h.input(graph.cols, kCols, random_floats(graph.cols * kCols, 1));
  const ConstMatrixView t = h.input(kRows, kCols, random_floats(kRows * kCols, 2));
  const ConstMatrixView dy = h.input(kRows, kCols, random_floats(kRows * kCols, 3));
  AttentionSpec spec;
  spec.score = AttentionScore::kGatv2;
  spec.heads = kHeads;
  spec.with_self = true;
  spec.vector = h.input<float>(1, kCols, random_floats(kCols, 4));
  constexpr std::int64_t kFeatures = 2;
  spec.edges = {h.input_span(random_floats(nnz * kFeatures, 6)),
                h.input_span(random_floats(kRows * kFeatures, 7)),
                h.input<float>(kFeatures, kCols, random_floats(kFeatures * kCols, 8))};
  spec.dropout = attention_dropout(h, kRows, graph.cols);
  const auto run = [&](const std::vector<RowRange>& rows, const std::vector<RowRange>& sources) {
    const MatrixView y = h.output(kRows, kCols);
    const MatrixView dt = h.output(kRows, kCols);
    const MatrixView coefficients = h.output<float>(nnz + kRows, 2 * kHeads);
    const MatrixView dvector = h.matrix<float>(1, kCols, Use::kInOut, random_floats(kCols, 5));
    const MatrixView dweight =
        h.matrix<float>(kFeatures, kCols, Use::kInOut, random_floats(kFeatures * kCols, 9));
    const MatrixView dz = h.output(graph.cols, kCols);
    for (const RowRange range : rows) {
      h.backend().run(h.queue(), kernels::Attend{op, range, z, t, spec, y});
      h.backend().run(h.queue(), kernels::AttendBackwardTargets{op, range, z, t, dy, spec, dt,
                                                                coefficients, dvector, dweight});
    }
    for (const RowRange range : sources) {
      h.backend().run(h.queue(),
                      kernels::AttendBackwardSources{
                          op, edges, range, z, t, dy, coefficients, spec, dz.rows_in(range), {}});
    }
    return std::vector{h.download(y),  h.download(dt),      h.download(coefficients),
                       h.download(dz), h.download(dvector), h.download(dweight)};
  };
  const auto whole = run({{0, kRows}}, {{0, graph.cols}});
  const auto pieces = run({{41, kRows}, {0, 1}, {1, 1}, {1, 41}}, {{0, 33}, {33, graph.cols}});
  for (const std::size_t k : {0, 1, 2, 3}) EXPECT_EQ(pieces[k], whole[k]) << k;
  expect_close(pieces[4], whole[4], 1e-6, "dvector");
  expect_close(pieces[5], whole[5], 1e-6, "dedge_weight");
}

// Backward of the oracle against central differences of its forward, in f64.
class AttentionGradient : public ::testing::TestWithParam<std::tuple<AttentionScore, bool, bool>> {
 protected:
  static constexpr std::int64_t kHeads = 2;
  static constexpr std::int64_t kCols = 6;
  static constexpr std::int64_t kRows = 4;
  static constexpr std::int64_t kFeatures = 3;  // of edges
  static constexpr std::int64_t kAll = 6;       // with two halo rows
  static constexpr double kStep = 1e-6;

  using Values = std::vector<double>;

  void expect_gradient(const Values& found, const std::function<double(const Values&)>& loss,
                       const Values& at, const char* what) {
    expect_close(found, central_differences(loss, at, kStep), 1e-7, what);
  }

  Harness h{"reference"};
};

TEST_P(AttentionGradient, OfAllInputs) {
  const AttentionScore score = std::get<0>(GetParam());
  const bool with_self = std::get<1>(GetParam());
  const bool drop = std::get<2>(GetParam());
  const bool additive = score == AttentionScore::kAdditive;
  // Row 0 has an edge to itself, row 2 none at all, row 3 two parallel ones.
  const std::vector<std::int64_t> row_ptr{0, 3, 5, 5, 9};
  const std::vector<std::int32_t> col_idx{0, 2, 5, 0, 4, 1, 1, 3, 5};
  SparseOperator op;
  op.rows = kRows;
  op.cols = kAll;
  op.row_ptr = h.input_span(row_ptr);
  op.col_idx = h.input_span(col_idx);
  const std::int64_t t_cols = additive ? kHeads : kCols;
  const Values z = random_doubles(kAll * kCols, 1);
  const Values t = random_doubles(kRows * t_cols, 2);
  const Values vector = random_doubles(kCols, 3);
  const Values dy = random_doubles(kRows * kCols, 4);
  const std::int64_t places = static_cast<std::int64_t>(col_idx.size()) + (with_self ? kRows : 0);
  // Additive: their scores. gatv2: the weight of their features.
  const Values of_edges = random_doubles((additive ? places : kFeatures) * t_cols, 5);
  const auto features = [&](std::int64_t rows, std::uint64_t seed) {
    return h.input_span(random_floats(rows * kFeatures, seed));
  };
  const AttentionEdges edges{features(static_cast<std::int64_t>(col_idx.size()), 6),
                             features(with_self ? kRows : 0, 7),
                             {}};
  AttentionDropout dropout;
  if (drop) dropout = attention_dropout(h, kRows, kAll);

  struct Inputs {
    ConstMatrixView z;
    ConstMatrixView t;
    AttentionSpec spec;
  };
  const auto upload_inputs = [&](const Values& z_values, const Values& t_values,
                                 const Values& vector_values, const Values& edge_values) {
    Inputs in;
    in.spec.score = score;
    in.spec.heads = kHeads;
    in.spec.with_self = with_self;
    in.spec.dropout = dropout;
    in.z = h.input(kAll, kCols, z_values);
    in.t = h.input(kRows, t_cols, t_values);
    if (score != AttentionScore::kDot) in.spec.vector = h.input(1, kCols, vector_values);
    if (additive) {
      const MatrixView scores = h.output<double>(kAll, kHeads);
      h.backend().run(h.queue(), kernels::HeadDots{in.z, in.spec.vector, scores});
      in.spec.source_scores = scores;
      in.spec.edge_scores = h.input(places, kHeads, edge_values);
    } else if (score == AttentionScore::kGatv2) {
      in.spec.edges = edges;
      in.spec.edges.weight = h.input(kFeatures, kCols, edge_values);
    }
    return in;
  };
  const auto loss = [&](const Values& z_values, const Values& t_values, const Values& vector_values,
                        const Values& edge_values) {
    const Inputs in = upload_inputs(z_values, t_values, vector_values, edge_values);
    const MatrixView y = h.output<double>(kRows, kCols);
    h.backend().run(h.queue(), kernels::Attend{op, {0, kRows}, in.z, in.t, in.spec, y});
    double sum = 0;
    const Values found = h.download(y);
    for (std::size_t k = 0; k < dy.size(); ++k) sum += dy[k] * found[k];
    return sum;
  };

  const Inputs in = upload_inputs(z, t, vector, of_edges);
  const ConstMatrixView gradient = h.input(kRows, kCols, dy);
  const MatrixView dt = h.output<double>(kRows, t_cols);
  const MatrixView coefficients = h.output<double>(places, 2 * kHeads);
  MatrixView dvector;
  MatrixView dweight;
  if (score != AttentionScore::kDot) dvector = h.matrix(1, kCols, Use::kInOut, Values(kCols, 0));
  if (score == AttentionScore::kGatv2) {
    dweight = h.matrix(kFeatures, kCols, Use::kInOut, Values(kFeatures * kCols, 0));
  }
  h.backend().run(h.queue(), kernels::AttendBackwardTargets{op,
                                                            {0, kRows},
                                                            in.z,
                                                            in.t,
                                                            gradient,
                                                            in.spec,
                                                            dt,
                                                            coefficients,
                                                            additive ? MatrixView{} : dvector,
                                                            dweight});
  const MatrixView dz = h.output<double>(kAll, kCols);
  h.backend().run(h.queue(),
                  kernels::AttendBackwardSources{op,
                                                 upload(h, HostSourceEdges(row_ptr, col_idx, kAll)),
                                                 {0, kAll},
                                                 in.z,
                                                 in.t,
                                                 gradient,
                                                 coefficients,
                                                 in.spec,
                                                 dz,
                                                 additive ? dvector : MatrixView{}});

  expect_gradient(
      h.download(dz), [&](const Values& v) { return loss(v, t, vector, of_edges); }, z, "dz");
  expect_gradient(
      h.download(dt), [&](const Values& v) { return loss(z, v, vector, of_edges); }, t, "dt");
  if (dvector.absent()) return;
  expect_gradient(
      h.download(dvector), [&](const Values& v) { return loss(z, t, v, of_edges); }, vector,
      "dvector");
  if (!additive) {
    expect_gradient(
        h.download(dweight), [&](const Values& v) { return loss(z, t, vector, v); }, of_edges,
        "weight of features of edges");
    return;
  }
  Values of_scores;  // what stands behind the coefficients
  const Values both = h.download(coefficients);
  for (std::int64_t place = 0; place < places; ++place) {
    const auto row = both.begin() + 2 * kHeads * place + kHeads;
    of_scores.insert(of_scores.end(), row, row + kHeads);
  }
  expect_gradient(
      of_scores, [&](const Values& v) { return loss(z, t, vector, v); }, of_edges, "edge scores");
}

INSTANTIATE_TEST_SUITE_P(Reference, AttentionGradient,
                         ::testing::Combine(::testing::ValuesIn(kAttentionScores),
                                            ::testing::Bool(), ::testing::Bool()),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) ? "_self" : "") +
                                  (std::get<2>(test.param) ? "_dropout" : "");
                         });

}  // namespace

}  // namespace atl
