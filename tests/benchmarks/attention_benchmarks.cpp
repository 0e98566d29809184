// Attention of 8 heads of 32 columns along a graph's edges, forward and both halves of backward,
// of gatv2 also with features of edges; SpMM of as many columns is beside it in
// sparse_benchmarks.cpp.
#include <cmath>

#include "tests/benchmarks/bench.hpp"
#include "tests/benchmarks/graph_shapes.hpp"

namespace atl {

namespace {

constexpr std::int64_t kBenchHeads = 8;
constexpr std::int64_t kBenchEach = kColumns / kBenchHeads;
constexpr double kBenchSlope = 0.2;
constexpr std::int64_t kBenchFeatures = 8;  // of an edge, if it has any

enum class Edges { kPlain, kWithFeatures };

// Everything that the operations read, all matrices with Bench::value.
struct AttentionData {
  RandomGraph graph;
  SparseOperator op;
  SourceEdges edges;
  AttentionSpec spec;
  ConstMatrixView z;
  ConstMatrixView t;
};

SourceEdges upload_by_source(Bench& bench, const RandomGraph& graph) {
  const auto nnz = static_cast<std::size_t>(graph.nnz());
  std::vector<std::int64_t> row_ptr(static_cast<std::size_t>(graph.rows()) + 1, 0);
  for (const std::int32_t j : graph.col_idx) ++row_ptr[j + 1];
  for (std::int64_t j = 0; j < graph.rows(); ++j) row_ptr[j + 1] += row_ptr[j];
  std::vector<std::int32_t> targets(nnz);
  std::vector<std::int64_t> places(nnz);
  std::vector<std::int64_t> next = row_ptr;
  for (std::int64_t i = 0; i < graph.rows(); ++i) {
    for (std::int64_t e = graph.row_ptr[i]; e < graph.row_ptr[i + 1]; ++e) {
      const std::int64_t k = next[graph.col_idx[e]]++;
      targets[k] = static_cast<std::int32_t>(i);
      places[k] = e;
    }
  }
  return {bench.upload(row_ptr), bench.upload(targets), bench.upload(places)};
}

AttentionData attention_data(Bench& bench, AttentionScore score, DType dtype, Edges edges) {
  const BenchmarkShape& shape = kGraphShapes[0];
  AttentionData data;
  data.graph = make_graph(
      shape, static_cast<double>(bench.scaled(shape.nodes)) / static_cast<double>(shape.nodes));
  const std::int64_t rows = data.graph.rows();
  data.op.rows = rows;
  data.op.cols = rows;
  data.op.row_ptr = bench.upload(data.graph.row_ptr);
  data.op.col_idx = bench.upload(data.graph.col_idx);
  data.edges = upload_by_source(bench, data.graph);
  const bool additive = score == AttentionScore::kAdditive;
  data.spec.score = score;
  data.spec.heads = kBenchHeads;
  data.spec.slope = kBenchSlope;
  data.spec.with_self = true;
  if (score != AttentionScore::kDot) data.spec.vector = bench.matrix(1, kColumns, DType::kF32);
  if (additive) data.spec.source_scores = bench.matrix(rows, kBenchHeads, DType::kF32);
  if (edges == Edges::kWithFeatures) {
    const auto features = [&](std::int64_t count) {
      const ConstMatrixView flat = bench.matrix(1, count * kBenchFeatures, DType::kF32);
      return std::span(static_cast<const float*>(flat.data), static_cast<std::size_t>(flat.cols));
    };
    data.spec.edges = {features(data.graph.nnz()), features(rows),
                       bench.matrix(kBenchFeatures, kColumns, DType::kF32)};
  }
  data.z = bench.matrix(rows, kColumns, dtype);
  data.t = bench.matrix(rows, additive ? kBenchHeads : kColumns, additive ? DType::kF32 : dtype);
  return data;
}

double bench_leaky(double x) { return x > 0 ? x : kBenchSlope * x; }

// Column c of an edge's product: features that lie in place `place` with their weight.
double expected_edge(std::int64_t place, std::int64_t c) {
  double sum = 0;
  for (std::int64_t k = 0; k < kBenchFeatures; ++k) {
    sum += Bench::value(place * kBenchFeatures + k) * Bench::value(k * kColumns + c);
  }
  return sum;
}

// e_ij of head 0; place: of the edge's features.
double expected_score(AttentionScore score, Edges edges, std::int64_t i, std::int64_t j,
                      std::int64_t place) {
  if (score == AttentionScore::kAdditive) {
    return bench_leaky(Bench::value(j * kBenchHeads) + Bench::value(i * kBenchHeads));
  }
  double sum = 0;
  for (std::int64_t c = 0; c < kBenchEach; ++c) {
    const double z = Bench::value(j * kColumns + c);
    const double t = Bench::value(i * kColumns + c) +
                     (edges == Edges::kWithFeatures ? expected_edge(place, c) : 0);
    sum += score == AttentionScore::kDot ? z * t : Bench::value(c) * bench_leaky(z + t);
  }
  return score == AttentionScore::kDot ? sum / std::sqrt(static_cast<double>(kBenchEach)) : sum;
}

// Values of head 0 and the last row: its y in column 0 and its alpha of itself.
struct ExpectedAttention {
  double y = 0;
  double alpha = 0;
};
ExpectedAttention expected_attention(const RandomGraph& graph, AttentionScore score, Edges edges) {
  const std::int64_t i = graph.rows() - 1;
  const double self = std::exp(expected_score(score, edges, i, i, i));
  double norm = self;
  ExpectedAttention expected{self * Bench::value(i * kColumns), self};
  for (std::int64_t e = graph.row_ptr[i]; e < graph.row_ptr[i + 1]; ++e) {
    const std::int64_t j = graph.col_idx[e];
    if (j == i) continue;
    const double weight = std::exp(expected_score(score, edges, i, j, e));
    norm += weight;
    expected.y += weight * Bench::value(j * kColumns);
  }
  return {expected.y / norm, expected.alpha / norm};
}

// Bytes that edges and nodes move: of a node so many rows, of an edge rows and f32 numbers, beside
// its features in each of `passes`.
void set_bytes(Case& made, const AttentionData& data, int edge_rows, std::int64_t edge_floats,
               int node_rows, int passes) {
  edge_floats += passes * data.spec.edges.count();
  const auto size = static_cast<double>(kColumns * bytes_of(data.z.dtype));
  const auto edges = static_cast<double>(data.graph.nnz());
  const auto nodes = static_cast<double>(data.graph.rows());
  made.compulsory_bytes =
      edges * static_cast<double>(4 + 4 * edge_floats) + nodes * (8 + node_rows * size);
  made.no_reuse_bytes = made.compulsory_bytes + edges * edge_rows * size;
}

Case attend(Bench& bench, AttentionScore score, DType dtype, Edges edges) {
  const AttentionData data = attention_data(bench, score, dtype, edges);
  const std::int64_t rows = data.graph.rows();
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(),
                        kernels::Attend{data.op, {0, rows}, data.z, data.t, data.spec, y});
  };
  set_bytes(made, data, 1, 0, 3, 1);
  made.checked = element(y, rows - 1, 0);
  made.expected = expected_attention(data.graph, score, edges).y;
  return made;
}

Case attend_backward(Bench& bench, AttentionScore score, DType dtype, Edges edges) {
  const AttentionData data = attention_data(bench, score, dtype, edges);
  const std::int64_t rows = data.graph.rows();
  const std::int64_t nnz = data.graph.nnz();
  const ConstMatrixView dy = bench.matrix(rows, kColumns, dtype);
  const MatrixView dt = bench.matrix(rows, data.t.cols, data.t.dtype);
  const MatrixView dz = bench.matrix(rows, kColumns, dtype);
  const MatrixView coefficients = bench.matrix(nnz + rows, 2 * kBenchHeads, DType::kF32);
  const MatrixView sums = bench.matrix(1, kColumns, DType::kF32);
  const MatrixView of_targets = score == AttentionScore::kGatv2 ? sums : MatrixView{};
  const MatrixView of_sources = score == AttentionScore::kAdditive ? sums : MatrixView{};
  const MatrixView of_weight = edges == Edges::kWithFeatures
                                   ? bench.matrix(kBenchFeatures, kColumns, DType::kF32)
                                   : MatrixView{};
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::AttendBackwardTargets{data.op,
                                                                      {0, rows},
                                                                      data.z,
                                                                      data.t,
                                                                      dy,
                                                                      data.spec,
                                                                      dt,
                                                                      coefficients,
                                                                      of_targets,
                                                                      of_weight});
    bench.backend().run(bench.queue(), kernels::AttendBackwardSources{data.op,
                                                                      data.edges,
                                                                      {0, rows},
                                                                      data.z,
                                                                      data.t,
                                                                      dy,
                                                                      coefficients,
                                                                      data.spec,
                                                                      dz,
                                                                      of_sources});
  };
  set_bytes(made, data, score == AttentionScore::kAdditive ? 2 : 3, 4 * kBenchHeads + 3, 8, 2);
  made.checked = element(coefficients, nnz + rows - 1, 0);
  made.expected = expected_attention(data.graph, score, edges).alpha;
  return made;
}

}  // namespace

std::vector<Benchmark> attention_benchmarks() {
  std::vector<Benchmark> list;
  const auto add = [&](AttentionScore score, Edges edges) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const std::string name =
          with_type(std::string(to_string(score)) +
                        (edges == Edges::kWithFeatures ? "_edges/arxiv" : "/arxiv"),
                    dtype);
      list.push_back({"attend/" + name,
                      [=](Bench& bench) { return attend(bench, score, dtype, edges); }, dtype});
      list.push_back({"attend_backward/" + name,
                      [=](Bench& bench) { return attend_backward(bench, score, dtype, edges); },
                      dtype});
    }
  };
  for (const AttentionScore score :
       {AttentionScore::kAdditive, AttentionScore::kGatv2, AttentionScore::kDot}) {
    add(score, Edges::kPlain);
  }
  add(AttentionScore::kGatv2, Edges::kWithFeatures);
  return list;
}

}  // namespace atl
