#include <cmath>
#include <numeric>

#include "tests/kernels/attention_graph.hpp"
#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

// How columns are divided: some heads of many columns each, or many heads of few.
enum class Heads { kOne, kFew, kMany };

struct AttentionCase {
  AttentionScore score = AttentionScore::kAdditive;
  Heads heads = Heads::kFew;
  bool with_self = false;
  bool dropout = false;
  bool part = false;   // some rows only
  bool edges = false;  // additive: edges have scores of their own; gatv2: so many features
  std::int64_t features = 3;
  std::int64_t hub = 300;
  EpilogueParts epilogue{};
};

std::int64_t heads_of(std::int64_t cols, Heads heads) {
  if (heads == Heads::kOne) return 1;
  return std::gcd(cols, heads == Heads::kFew ? 8 : 300);
}

// Some rows have an edge to themselves.
TestGraph attention_graph(std::int64_t rows, std::int64_t hub) {
  TestGraph graph(rows, hub);
  for (std::int64_t i = 0; i < rows; i += 3) {
    if (graph.row_ptr[i + 1] > graph.row_ptr[i]) {
      graph.col_idx[graph.row_ptr[i]] = static_cast<std::int32_t>(i);
    }
  }
  return graph;
}

// So that sums over the columns of a head are of order one, as those of trained models are.
std::vector<float> of_order_one(std::vector<float> values, std::int64_t each) {
  for (float& value : values) value /= std::sqrt(static_cast<float>(each));
  return values;
}

struct AttentionInputs {
  SparseOperator op;
  AttentionSpec spec;
  ConstMatrixView z;
  ConstMatrixView t;
};

// How many edges have coefficients.
std::int64_t places_of(const TestGraph& graph, const AttentionCase& which) {
  return static_cast<std::int64_t>(graph.col_idx.size()) + (which.with_self ? graph.rows : 0);
}

AttentionInputs upload_attention(Harness& h, const TestGraph& graph, std::int64_t cols,
                                 const AttentionCase& which) {
  AttentionInputs in;
  in.op = upload(h, graph);
  in.spec.score = which.score;
  in.spec.heads = heads_of(cols, which.heads);
  in.spec.slope = 0.2;
  in.spec.with_self = which.with_self;
  if (which.dropout) {
    in.spec.dropout = attention_dropout(h, graph.rows, graph.cols);
    // As where several ranks share the heads.
    if (!which.with_self) in.spec.dropout.first_head = 5;
  }
  in.z = h.input(graph.cols, cols, random_floats(graph.cols * cols, 1));
  if (which.score == AttentionScore::kAdditive) {
    in.t = h.input<float>(graph.rows, in.spec.heads, random_floats(graph.rows * in.spec.heads, 2));
    in.spec.source_scores =
        h.input<float>(graph.cols, in.spec.heads, random_floats(graph.cols * in.spec.heads, 3));
  } else {
    in.t = h.input(graph.rows, cols, random_floats(graph.rows * cols, 2));
  }
  const std::int64_t places = places_of(graph, which);
  if (which.edges && which.score == AttentionScore::kGatv2) {
    const auto rows = [&](std::int64_t count, std::uint64_t seed) {
      return h.input_span(random_floats(count * which.features, seed));
    };
    const auto nnz = static_cast<std::int64_t>(graph.col_idx.size());
    in.spec.edges = {
        rows(nnz, 10), rows(places - nnz, 11),
        h.input<float>(which.features, cols, random_floats(which.features * cols, 12))};
  } else if (which.edges) {
    in.spec.edge_scores =
        h.input<float>(places, in.spec.heads, random_floats(places * in.spec.heads, 10));
  }
  if (which.score != AttentionScore::kDot) {
    in.spec.vector =
        h.input<float>(1, cols, of_order_one(random_floats(cols, 4), cols / in.spec.heads));
  }
  return in;
}

// As the engine runs it: rows without halo neighbours first, the others when the halo is there.
std::vector<RowRange> ranges_of(std::int64_t rows, bool part) {
  if (part) return {{rows / 3, rows - rows / 4}};
  return {{0, rows * 2 / 3}, {rows * 2 / 3, rows}};
}

Outputs run_attend(Harness& h, std::int64_t rows, std::int64_t cols, const AttentionCase& which) {
  const TestGraph graph = attention_graph(rows, which.hub);
  const AttentionInputs in = upload_attention(h, graph, cols, which);
  const MatrixView y = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 6));
  const Epilogue whole = make_epilogue(h, rows, cols, which.epilogue);
  for (const RowRange range : ranges_of(rows, which.part)) {
    Epilogue epilogue = whole;
    if (whole.dropout.active()) {
      epilogue.dropout.row_ids = whole.dropout.row_ids.subspan(
          static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    }
    h.backend().run(h.queue(), kernels::Attend{in.op, range, in.z, in.t, in.spec, y, epilogue});
  }
  return {h.result(y)};
}

Outputs run_attend_backward(Harness& h, std::int64_t rows, std::int64_t cols,
                            const AttentionCase& which) {
  const TestGraph graph = attention_graph(rows, which.hub);
  const AttentionInputs in = upload_attention(h, graph, cols, which);
  const HostSourceEdges by_source(graph.row_ptr, graph.col_idx, graph.cols);
  const SourceEdges edges = upload(h, by_source);
  const ConstMatrixView dy =
      h.input(rows, cols, of_order_one(random_floats(rows * cols, 5), cols / in.spec.heads));
  const MatrixView dt =
      in.t.dtype == DType::kF32
          ? h.matrix<float>(rows, in.t.cols, Use::kInOut, random_floats(rows * in.t.cols, 7))
          : h.matrix(rows, in.t.cols, Use::kInOut, random_floats(rows * in.t.cols, 7));
  const std::int64_t places = places_of(graph, which);
  const std::int64_t both = 2 * in.spec.heads;
  const MatrixView coefficients =
      h.matrix<float>(places, both, Use::kInOut, random_floats(places * both, 8));
  const bool additive = which.score == AttentionScore::kAdditive;
  const MatrixView dvector = which.score == AttentionScore::kDot
                                 ? MatrixView{}
                                 : h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 9));
  const ConstMatrixView weight = in.spec.edges.weight;
  const MatrixView dedge_weight =
      weight.absent()
          ? MatrixView{}
          : h.matrix<float>(weight.rows, cols, Use::kInOut, random_floats(weight.rows * cols, 13));
  for (const RowRange range : ranges_of(rows, which.part)) {
    h.backend().run(h.queue(), kernels::AttendBackwardTargets{
                                   in.op, range, in.z, in.t, dy, in.spec, dt, coefficients,
                                   additive ? MatrixView{} : dvector, dedge_weight});
  }
  Outputs outputs{h.result(dt), h.result(coefficients)};
  for (const RowRange range : ranges_of(graph.cols, which.part)) {
    const MatrixView dz = h.output(range.size(), cols);
    h.backend().run(
        h.queue(), kernels::AttendBackwardSources{in.op, edges, range, in.z, in.t, dy, coefficients,
                                                  in.spec, dz, additive ? dvector : MatrixView{}});
    outputs.push_back(h.result(dz));
  }
  if (!dvector.absent()) outputs.push_back(h.result(dvector));
  if (!dedge_weight.absent()) outputs.push_back(h.result(dedge_weight));
  return outputs;
}

// Numbers that are often equal, as those behind ReLU are.
std::vector<float> pooled_numbers(std::int64_t count) {
  std::vector<float> values = activations(count, 1);
  for (float& value : values) value = std::round(8 * value) / 4;
  return values;
}

Outputs run_pool(Harness& h, std::int64_t rows, std::int64_t cols, PoolSpec spec) {
  const TestGraph graph(rows, 300);
  const SparseOperator op = upload(h, graph);
  const ConstMatrixView x = h.input(graph.cols, cols, pooled_numbers(graph.cols * cols));
  const MatrixView y = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 2));
  for (const RowRange range : ranges_of(rows, false)) {
    h.backend().run(h.queue(), kernels::Pool{op, range, x, spec, y});
  }
  const MatrixView part = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 3));
  for (const RowRange range : ranges_of(rows, true)) {
    h.backend().run(h.queue(), kernels::Pool{op, range, x, spec, part});
  }
  return {h.result(y), h.result(part)};
}

// The same y for every backend: softmax is not repeatable to the last bit.
std::vector<float> pooled_by_oracle(const TestGraph& graph, const std::vector<float>& numbers,
                                    DType dtype, std::int64_t cols, const PoolSpec& spec) {
  Harness oracle("reference", 1, dtype);
  const MatrixView pooled = oracle.output(graph.rows, cols);
  oracle.backend().run(oracle.queue(), kernels::Pool{upload(oracle, graph),
                                                     {0, graph.rows},
                                                     oracle.input(graph.cols, cols, numbers),
                                                     spec,
                                                     pooled});
  const std::vector<double> found = oracle.download(pooled);
  return {found.begin(), found.end()};
}

Outputs run_pool_backward(Harness& h, std::int64_t rows, std::int64_t cols, PoolSpec spec) {
  const TestGraph graph(rows, 300);
  const SparseOperator op = upload(h, graph);
  const SourceEdges edges = upload(h, HostSourceEdges(graph.row_ptr, graph.col_idx, graph.cols));
  const std::vector<float> numbers = pooled_numbers(graph.cols * cols);
  const ConstMatrixView x = h.input(graph.cols, cols, numbers);
  const ConstMatrixView y =
      h.input(rows, cols, pooled_by_oracle(graph, numbers, x.dtype, cols, spec));
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 2));
  const MatrixView g = h.matrix<float>(rows, cols, Use::kInOut, random_floats(rows * cols, 3));
  for (const RowRange range : ranges_of(rows, false)) {
    h.backend().run(h.queue(), kernels::PoolBackwardTargets{op, range, x, y, dy, spec, g});
  }
  Outputs outputs{h.result(g)};
  for (const bool part : {false, true}) {
    for (const RowRange range : ranges_of(graph.cols, part)) {
      const MatrixView dx = h.output(range.size(), cols);
      h.backend().run(h.queue(), kernels::PoolBackwardSources{op, edges, range, x, y, g, spec, dx});
      outputs.push_back(h.result(dx));
    }
  }
  return outputs;
}

Outputs run_pool_slope(Harness& h, std::int64_t rows, std::int64_t cols, PoolSpec spec) {
  const TestGraph graph(rows, 300);
  const SparseOperator op = upload(h, graph);
  const std::vector<float> numbers = pooled_numbers(graph.cols * cols);
  const ConstMatrixView x = h.input(graph.cols, cols, numbers);
  const std::vector<float> pooled = pooled_by_oracle(graph, numbers, x.dtype, cols, spec);
  const ConstMatrixView y = h.input(rows, cols, pooled);
  // One that is trained, in memory, and the same as a number.
  const PoolSpec trained{spec.kind, 77, h.input<float>(1, 1, {spec.sharpness}).data};
  Outputs outputs;
  for (const PoolSpec& each : {spec, trained}) {
    const MatrixView slope = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 3));
    for (const RowRange range : ranges_of(rows, each.trained != nullptr)) {
      h.backend().run(h.queue(), kernels::PoolSlope{op, range, x, y, each, slope});
    }
    outputs.push_back(h.result(slope));
  }
  return outputs;
}

// Numbers of which no sum is 0: where a term is cut off, no rounding decides.
std::vector<float> quarters(std::int64_t count, std::uint64_t seed, float shift = 0) {
  std::vector<float> values;
  for (const std::int32_t value : random_integers(count, 9, seed)) {
    values.push_back(static_cast<float>(value - 4) / 4 + shift);
  }
  return values;
}

struct EdgeCase {
  std::int64_t features = 3;
  bool part = false;
};

// Forward, along sources, and the gradients of what multiplies features.
Outputs run_aggregate_edges(Harness& h, std::int64_t rows, std::int64_t cols,
                            const EdgeCase& which) {
  const TestGraph graph = attention_graph(rows, 300);
  const SparseOperator op = upload(h, graph);
  const HostSourceEdges by_source(graph.row_ptr, graph.col_idx, graph.cols);
  const SourceEdges edges = upload(h, by_source);
  const auto nnz = static_cast<std::int64_t>(graph.col_idx.size());
  std::vector<float> features = quarters(nnz * which.features, 2);
  for (float& value : features) value = std::round(value);
  const EdgeTerms terms{h.input_span(features),
                        h.input<float>(which.features, cols, quarters(which.features * cols, 3)),
                        h.input<float>(1, cols, quarters(cols, 4, 0.125F))};
  const ConstMatrixView x = h.input(graph.cols, cols, quarters(graph.cols * cols, 1));
  const ConstMatrixView dy = h.input(rows, cols, random_floats(rows * cols, 5));
  const MatrixView y = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 6));
  const MatrixView dweight =
      h.matrix<float>(which.features, cols, Use::kInOut, random_floats(which.features * cols, 7));
  const MatrixView dbias = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 8));
  for (const RowRange range : ranges_of(rows, which.part)) {
    h.backend().run(h.queue(), kernels::AggregateEdges{op, range, x, terms, y});
    h.backend().run(h.queue(),
                    kernels::AggregateEdgesBackwardTerms{op, range, x, terms, dy, dweight, dbias});
  }
  Outputs outputs{h.result(y), h.result(dweight), h.result(dbias)};
  for (const RowRange range : ranges_of(graph.cols, which.part)) {
    const MatrixView dx = h.output(range.size(), cols);
    h.backend().run(h.queue(),
                    kernels::AggregateEdgesBackwardSources{op, edges, range, x, terms, dy, dx});
    outputs.push_back(h.result(dx));
  }
  return outputs;
}

Outputs run_head_dots(Harness& h, std::int64_t rows, std::int64_t cols, Heads heads) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView vector = h.input<float>(1, cols, random_floats(cols, 2));
  const MatrixView out = h.output<float>(rows, heads_of(cols, heads));
  h.backend().run(h.queue(), kernels::HeadDots{x, vector, out});
  return {h.result(out)};
}

Outputs run_head_dots_backward(Harness& h, std::int64_t rows, std::int64_t cols, Heads heads) {
  const std::int64_t count = heads_of(cols, heads);
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView vector = h.input<float>(1, cols, random_floats(cols, 2));
  const ConstMatrixView d = h.input<float>(rows, count, random_floats(rows * count, 3));
  const MatrixView dx = h.output(rows, cols);
  const MatrixView dvector = h.matrix<float>(1, cols, Use::kInOut, random_floats(cols, 4));
  h.backend().run(h.queue(), kernels::HeadDotsBackward{d, x, vector, dx, dvector});
  return {h.result(dx), h.result(dvector)};
}

// Ends of some pairs: rows below `bound`; none of a matrix without rows.
std::vector<LocalId> pair_ends(std::int64_t rows, std::int64_t bound, std::uint64_t seed) {
  std::vector<LocalId> ids;
  for (const std::int32_t row :
       random_integers(rows == 0 ? 0 : 2 * rows + 1,
                       std::max<std::int32_t>(1, static_cast<std::int32_t>(bound)), seed)) {
    ids.push_back(LocalId{row});
  }
  return ids;
}

Outputs run_pair_dots(Harness& h, std::int64_t rows, std::int64_t cols, Heads) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const std::vector<LocalId> first = pair_ends(rows, rows, 2);
  const MatrixView out = h.output<float>(static_cast<std::int64_t>(first.size()), 1);
  h.backend().run(h.queue(), kernels::PairDots{x, h.input_span(first),
                                               h.input_span(pair_ends(rows, rows, 3)), out});
  return {h.result(out)};
}

Outputs run_pair_products(Harness& h, std::int64_t rows, std::int64_t cols, Heads) {
  const ConstMatrixView x = h.input(rows, cols, random_floats(rows * cols, 1));
  const ConstMatrixView z = h.input(rows + 3, cols, random_floats((rows + 3) * cols, 2));
  const std::vector<LocalId> first = pair_ends(rows, rows, 3);
  const std::vector<LocalId> second = pair_ends(rows, rows + 3, 4);
  const MatrixView y = h.output(static_cast<std::int64_t>(first.size()), cols);
  h.backend().run(h.queue(),
                  kernels::PairProducts{x, h.input_span(first), z, h.input_span(second), y});
  return {h.result(y)};
}

Outputs run_head_mean(Harness& h, std::int64_t rows, std::int64_t cols, Heads heads) {
  const std::int64_t each = cols / heads_of(cols, heads);
  const MatrixView y = h.output(rows, each);
  h.backend().run(h.queue(),
                  kernels::HeadMean{h.input(rows, cols, random_floats(rows * cols, 1)), y});
  const MatrixView dx = h.output(rows, cols);
  h.backend().run(
      h.queue(), kernels::HeadMeanBackward{h.input(rows, each, random_floats(rows * each, 2)), dx});
  return {h.result(y), h.result(dx)};
}

}  // namespace

std::vector<TestedOperation> attention_operations() {
  const EpilogueParts all{true, true, true, ActivationFunction::kRelu, Dropout::kState};
  struct Named {
    const char* name;
    AttentionCase which;
  };
  const std::vector<Named> cases{
      {"", {}},
      {"_one_head", {.heads = Heads::kOne, .with_self = true}},
      {"_self_dropout", {.heads = Heads::kMany, .with_self = true, .dropout = true}},
      {"_part", {.with_self = true, .dropout = true, .part = true}},
      {"_edges", {.part = true, .edges = true}},
      {"_edges_self", {.with_self = true, .dropout = true, .edges = true, .features = 9}}};
  std::vector<TestedOperation> list;
  const auto add = [&](const std::string& name, auto run, double tolerance, auto which) {
    list.push_back({name,
                    [run, which](Harness& h, std::int64_t rows, std::int64_t cols) {
                      return run(h, rows, cols, which);
                    },
                    tolerance});
  };
  for (const auto& [name, which] : cases) {
    for (const AttentionScore score : kAttentionScores) {
      // One score is enough for what has nothing to do with it: an emulated device takes long.
      if (which.heads == Heads::kOne && score != AttentionScore::kGatv2) continue;
      if (which.part && !which.edges && score != AttentionScore::kAdditive) continue;
      if (which.edges && score == AttentionScore::kDot) continue;
      AttentionCase one = which;
      one.score = score;
      add(std::string("attend_") + to_string(score) + name, run_attend, 1e-5, one);
      add(std::string("attend_backward_") + to_string(score) + name, run_attend_backward, 2e-5,
          one);
    }
  }
  add("attend_epilogue", run_attend, 1e-5,
      AttentionCase{.score = AttentionScore::kGatv2, .part = true, .epilogue = all});
  for (const auto& [name, heads] : {std::pair("", Heads::kFew), std::pair("_many", Heads::kMany)}) {
    add(std::string("head_dots") + name, run_head_dots, 5e-6, heads);
    add(std::string("head_dots_backward") + name, run_head_dots_backward, 5e-6, heads);
    add(std::string("head_mean") + name, run_head_mean, 1e-6, heads);
  }
  for (const auto& [name, spec] :
       {std::pair("_maximum", PoolSpec{}),
        std::pair("_softmax", PoolSpec{PoolKind::kSoftmax, 1.5F}),
        std::pair("_softmax_of_least", PoolSpec{PoolKind::kSoftmax, -0.5F}),
        std::pair("_power", PoolSpec{PoolKind::kPowerMean, 2.5F}),
        std::pair("_power_below_zero", PoolSpec{PoolKind::kPowerMean, -0.5F})}) {
    const bool powers = spec.kind == PoolKind::kPowerMean;
    add(std::string("pool") + name, run_pool,
        spec.kind == PoolKind::kMaximum ? 0
        : powers                        ? 2e-5
                                        : 5e-6,
        spec);
    add(std::string("pool_backward") + name, run_pool_backward, powers ? 1e-4 : 2e-5, spec);
    if (spec.kind != PoolKind::kMaximum) {
      add(std::string("pool_slope") + name, run_pool_slope, 1e-4, spec);
    }
  }
  add("aggregate_edges", run_aggregate_edges, 2e-5, EdgeCase{});
  add("aggregate_edges_part", run_aggregate_edges, 2e-5, EdgeCase{.features = 9, .part = true});
  add("pair_dots", run_pair_dots, 5e-6, Heads::kOne);
  add("pair_products", run_pair_products, 1e-6, Heads::kOne);
  return list;
}

}  // namespace atl
