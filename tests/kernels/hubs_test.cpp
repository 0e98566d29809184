// Rows of so many edges that a device divides them among warps: what goes along edges against the
// oracle, to the same bits in every run, and recorded.
#include <bit>
#include <cmath>
#include <functional>
#include <memory>

#include "tests/kernels/attention_graph.hpp"
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

// Hubs at both ends of ranges and between, of whole pieces (1024, 1536) and not, and rows just
// below. The edges 500 to 999 of row 7, which are one of its pieces, all come from itself. Half of
// all edges leave one of three sources.
struct HubGraph {
  static constexpr std::int64_t kRows = 10;
  static constexpr std::int64_t kCols = 24;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;

  HubGraph() {
    constexpr std::int32_t kHubs[] = {1, 7, 23};
    const std::vector<std::int64_t> edges{2100, 3, 0, 1024, 5, 1023, 512, 3000, 2, 1536};
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t count = edges[static_cast<std::size_t>(i)];
      for (const std::int32_t c : random_integers(count, 2 * kCols, 50 + i)) {
        col_idx.push_back(c < kCols ? c : kHubs[c % 3]);
      }
      row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
    }
    std::fill_n(col_idx.begin() + row_ptr[7] + 500, 500, 7);
  }
  std::int64_t nnz() const { return row_ptr.back(); }
};

const std::vector<RowRange> kRowRanges{{0, 4}, {4, HubGraph::kRows}};
const std::vector<RowRange> kSourceRanges{{0, 10}, {10, HubGraph::kCols}};

// A graph in the memory of a backend, divided.
class UploadedHubs {
 public:
  explicit UploadedHubs(Harness& h) {
    const HubGraph graph;
    const HostSourceEdges by_source(graph.row_ptr, graph.col_idx, HubGraph::kCols);
    op_.rows = HubGraph::kRows;
    op_.cols = HubGraph::kCols;
    op_.row_ptr = h.input_span(graph.row_ptr);
    op_.col_idx = h.input_span(graph.col_idx);
    edges_ = upload(h, by_source);
    SparseOperator out;
    out.rows = HubGraph::kCols;
    out.cols = HubGraph::kRows;
    out.row_ptr = edges_.row_ptr;
    out.col_idx = edges_.targets;
    prepared_ = h.backend().prepare_spmm(h.queue(), op_, graph.row_ptr, kRowRanges);
    out_prepared_ = h.backend().prepare_spmm(h.queue(), out, by_source.row_ptr, kSourceRanges);
    op_.prepared = prepared_.get();
    edges_.prepared = out_prepared_.get();
  }
  const SparseOperator& op() const { return op_; }
  const SourceEdges& edges() const { return edges_; }

 private:
  SparseOperator op_;
  SourceEdges edges_;
  std::shared_ptr<const PreparedSparse> prepared_;
  std::shared_ptr<const PreparedSparse> out_prepared_;
};

// Operations on matrices that exist before they run.
struct HubWork {
  std::shared_ptr<UploadedHubs> graph;
  std::function<void()> run;
  std::vector<ConstMatrixView> outputs;

  Outputs results(Harness& h) const {
    Outputs list;
    for (const ConstMatrixView view : outputs) list.push_back(h.result(view));
    return list;
  }
};

struct HubCase {
  std::string name;
  std::function<HubWork(Harness&)> make;
  double tolerance = 2e-5;
  bool in_bf16 = true;  // too
};
void PrintTo(const HubCase& which, std::ostream* out) { *out << which.name; }

struct AttentionHubs {
  AttentionScore score;
  std::int64_t cols;
  std::int64_t heads;
  bool self = false;  // and dropout, and what edges have
};

HubWork attention_work(Harness& h, const AttentionHubs& which) {
  constexpr std::int64_t kRows = HubGraph::kRows;
  constexpr std::int64_t kCols = HubGraph::kCols;
  constexpr std::int64_t kFeatures = 3;
  const std::int64_t nnz = HubGraph().nnz();
  const auto [score, cols, heads, self] = which;
  const bool additive = score == AttentionScore::kAdditive;
  HubWork work;
  work.graph = std::make_shared<UploadedHubs>(h);
  AttentionSpec spec;
  spec.score = score;
  spec.heads = heads;
  spec.with_self = self;
  const std::int64_t places = nnz + (self ? kRows : 0);
  if (self) spec.dropout = attention_dropout(h, kRows, kCols);
  // So that sums over columns of a head are of order one.
  const auto numbers = [&](std::int64_t count, std::uint64_t seed) {
    std::vector<float> values = random_floats(count, seed);
    const auto root = std::sqrt(static_cast<float>(cols / heads));
    for (float& value : values) value *= 2 / root;
    return values;
  };
  const ConstMatrixView z = h.input(kCols, cols, random_floats(kCols * cols, 1));
  const ConstMatrixView t = additive ? h.input<float>(kRows, heads, random_floats(kRows * heads, 2))
                                     : h.input(kRows, cols, random_floats(kRows * cols, 2));
  if (additive) {
    spec.source_scores = h.input<float>(kCols, heads, random_floats(kCols * heads, 3));
    if (self) spec.edge_scores = h.input<float>(places, heads, random_floats(places * heads, 4));
  } else if (score == AttentionScore::kGatv2 && self) {
    spec.edges = {h.input_span(random_floats(nnz * kFeatures, 4)),
                  h.input_span(random_floats(kRows * kFeatures, 5)),
                  h.input<float>(kFeatures, cols, random_floats(kFeatures * cols, 6))};
  }
  if (score != AttentionScore::kDot) spec.vector = h.input<float>(1, cols, numbers(cols, 7));
  const ConstMatrixView dy = h.input(kRows, cols, numbers(kRows * cols, 8));
  const MatrixView y = h.output(kRows, cols);
  const MatrixView dt = additive ? h.output<float>(kRows, heads) : h.output(kRows, cols);
  const MatrixView coefficients = h.output<float>(places, 2 * heads);
  const MatrixView dz = h.output(kCols, cols);
  work.outputs = {y, dt, coefficients, dz};
  MatrixView dvector;
  MatrixView dweight;
  if (!spec.vector.absent()) {
    dvector = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 9));
    work.outputs.push_back(dvector);
  }
  if (!spec.edges.absent()) {
    dweight = h.matrix<float>(kFeatures, cols, Use::kInOut, random_floats(kFeatures * cols, 10));
    work.outputs.push_back(dweight);
  }
  work.run = [=, &h, graph = work.graph] {
    for (const RowRange range : kRowRanges) {
      h.backend().run(h.queue(), kernels::Attend{graph->op(), range, z, t, spec, y});
      h.backend().run(h.queue(), kernels::AttendBackwardTargets{
                                     graph->op(), range, z, t, dy, spec, dt, coefficients,
                                     additive ? MatrixView{} : dvector, dweight});
    }
    for (const RowRange range : kSourceRanges) {
      h.backend().run(h.queue(), kernels::AttendBackwardSources{
                                     graph->op(), graph->edges(), range, z, t, dy, coefficients,
                                     spec, dz.rows_in(range), additive ? dvector : MatrixView{}});
    }
  };
  return work;
}

// Numbers that are often equal, as those behind ReLU are, and none of which is 0.
std::vector<float> eighths(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values;
  for (const std::int32_t value : random_integers(count, 20, seed)) {
    values.push_back(static_cast<float>(value - 7) / 8 + 0.0625F);
  }
  return values;
}

HubWork pool_work(Harness& h, PoolSpec spec) {
  constexpr std::int64_t kColumns = 5;
  constexpr std::int64_t kRows = HubGraph::kRows;
  constexpr std::int64_t kCols = HubGraph::kCols;
  HubWork work;
  work.graph = std::make_shared<UploadedHubs>(h);
  const std::vector<float> numbers = eighths(kCols * kColumns, 1);
  const ConstMatrixView x = h.input(kCols, kColumns, numbers);
  // The same for every backend: softmax is not repeatable to the last bit.
  Harness oracle("reference", 1, x.dtype);
  const UploadedHubs graph_of_oracle(oracle);
  const MatrixView pooled = oracle.output(kRows, kColumns);
  oracle.backend().run(
      oracle.queue(),
      kernels::Pool{
          graph_of_oracle.op(), {0, kRows}, oracle.input(kCols, kColumns, numbers), spec, pooled});
  const std::vector<double> found = oracle.download(pooled);
  const ConstMatrixView y_given = h.input(kRows, kColumns, {found.begin(), found.end()});
  const ConstMatrixView dy = h.input(kRows, kColumns, random_floats(kRows * kColumns, 2));
  const MatrixView y = h.output(kRows, kColumns);
  const MatrixView g = h.output<float>(kRows, kColumns);
  const MatrixView dx = h.output(kCols, kColumns);
  work.outputs = {y, g, dx};
  const bool slopes = spec.kind != PoolKind::kMaximum;
  const MatrixView slope = slopes ? h.output(kRows, kColumns) : MatrixView{};
  if (slopes) work.outputs.push_back(slope);
  work.run = [=, &h, graph = work.graph] {
    for (const RowRange range : kRowRanges) {
      h.backend().run(h.queue(), kernels::Pool{graph->op(), range, x, spec, y});
      h.backend().run(h.queue(),
                      kernels::PoolBackwardTargets{graph->op(), range, x, y_given, dy, spec, g});
      if (slopes)
        h.backend().run(h.queue(), kernels::PoolSlope{graph->op(), range, x, y_given, spec, slope});
    }
    for (const RowRange range : kSourceRanges) {
      h.backend().run(h.queue(), kernels::PoolBackwardSources{graph->op(), graph->edges(), range, x,
                                                              y_given, g, spec, dx.rows_in(range)});
    }
  };
  return work;
}

HubWork edges_work(Harness& h) {
  constexpr std::int64_t kColumns = 5;
  constexpr std::int64_t kFeatures = 9;
  constexpr std::int64_t kRows = HubGraph::kRows;
  constexpr std::int64_t kCols = HubGraph::kCols;
  HubWork work;
  work.graph = std::make_shared<UploadedHubs>(h);
  std::vector<float> features;
  for (const std::int32_t value : random_integers(HubGraph().nnz() * kFeatures, 3, 3)) {
    features.push_back(static_cast<float>(value - 1));
  }
  // Sums of numbers of which none is 0: where a term is cut off, no rounding decides.
  std::vector<float> bias = eighths(kColumns, 4);
  for (float& value : bias) value += 0.03125F;
  const EdgeTerms terms{h.input_span(features),
                        h.input<float>(kFeatures, kColumns, eighths(kFeatures * kColumns, 5)),
                        h.input<float>(1, kColumns, bias)};
  const ConstMatrixView x = h.input(kCols, kColumns, eighths(kCols * kColumns, 1));
  const ConstMatrixView dy = h.input(kRows, kColumns, random_floats(kRows * kColumns, 2));
  const MatrixView y = h.output(kRows, kColumns);
  const MatrixView dx = h.output(kCols, kColumns);
  const MatrixView dweight =
      h.matrix<float>(kFeatures, kColumns, Use::kInOut, random_floats(kFeatures * kColumns, 6));
  const MatrixView dbias = h.matrix<float>(1, kColumns, Use::kInOut, random_floats(kColumns, 7));
  work.outputs = {y, dx, dweight, dbias};
  work.run = [=, &h, graph = work.graph] {
    for (const RowRange range : kRowRanges) {
      h.backend().run(h.queue(), kernels::AggregateEdges{graph->op(), range, x, terms, y});
      h.backend().run(h.queue(), kernels::AggregateEdgesBackwardTerms{graph->op(), range, x, terms,
                                                                      dy, dweight, dbias});
    }
    for (const RowRange range : kSourceRanges) {
      h.backend().run(h.queue(),
                      kernels::AggregateEdgesBackwardSources{graph->op(), graph->edges(), range, x,
                                                             terms, dy, dx.rows_in(range)});
    }
  };
  return work;
}

std::vector<HubCase> hub_cases() {
  std::vector<HubCase> cases;
  for (const auto& [name, spec] :
       {std::pair("maximum", PoolSpec{}), std::pair("softmax", PoolSpec{PoolKind::kSoftmax, 1.5F}),
        std::pair("power", PoolSpec{PoolKind::kPowerMean, 2.5F})}) {
    cases.push_back({std::string("pool_") + name,
                     [spec = spec](Harness& h) { return pool_work(h, spec); }, 1e-4});
  }
  // Thousands of equal terms are rounded alike: 1e-7 for each, as in expect_oracle().
  cases.push_back({"edges", edges_work, 3e-4});
  const auto add_attention = [&](AttentionHubs which) {
    cases.push_back({std::string("attend_") + to_string(which.score) + "_" +
                         std::to_string(which.cols) + "_" + std::to_string(which.heads) +
                         (which.self ? "_self" : ""),
                     [which](Harness& h) { return attention_work(h, which); }, 2e-5,
                     which.cols < 256 || which.score == AttentionScore::kAdditive});
  };
  for (const AttentionScore score : kAttentionScores) {
    add_attention({score, 24, 3});
    add_attention({score, 36, 9, true});
    add_attention({score, 64, 1, true});
    // In f32 wider than the columns of a warp; in bf16, where it is not, for one score alone.
    add_attention({score, 264, 1, score != AttentionScore::kDot});
  }
  return cases;
}

using HubParam = std::tuple<std::string, DType, HubCase>;

std::vector<HubParam> hub_params() {
  std::vector<HubParam> params;
  for (const char* backend : {"cpu", "cuda"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const HubCase& which : hub_cases()) {
        if (dtype == DType::kF32 || which.in_bf16) params.emplace_back(backend, dtype, which);
      }
    }
  }
  return params;
}

class HubsTest : public ::testing::TestWithParam<HubParam> {
 protected:
  void SetUp() override {
    require_backend(std::get<0>(GetParam()));
    if (small_tests()) GTEST_SKIP() << "rows of thousands of edges";
  }
};

void expect_bits(const Outputs& found, const Outputs& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].values.size(), expected[k].values.size());
    for (std::size_t i = 0; i < found[k].values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(found[k].values[i]),
                std::bit_cast<std::uint64_t>(expected[k].values[i]))
          << what << ", output " << k << ", element " << i;
    }
  }
}

TEST_P(HubsTest, EqualReferenceInEveryRun) {
  const auto& [backend, dtype, which] = GetParam();
  const auto once = [&](Harness& h) {
    const HubWork work = which.make(h);
    work.run();
    return work.results(h);
  };
  Harness tested(backend, 2, dtype);
  Harness oracle("reference", 2, dtype);
  const Outputs found = once(tested);
  expect_oracle(found, once(oracle), which.tolerance, Bf16Case::kOneStep, which.name);
  expect_bits(once(tested), found, "again");

  const HubWork work = which.make(tested);
  const auto recording = tested.backend().record(tested.queue(), work.run);
  if (recording == nullptr) return;
  tested.backend().replay(tested.queue(), *recording);
  expect_bits(work.results(tested), found, "recorded");
}

INSTANTIATE_TEST_SUITE_P(Backends, HubsTest, ::testing::ValuesIn(hub_params()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  to_string(std::get<1>(test.param)) + "_" +
                                  std::get<2>(test.param).name;
                         });

}  // namespace

}  // namespace atl
