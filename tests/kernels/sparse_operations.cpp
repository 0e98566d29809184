#include "tests/kernels/operations.hpp"

namespace atl {

TestGraph::TestGraph(std::int64_t n, std::int64_t hub) : rows(n), cols(n + n / 3) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t degree = i == 2 ? hub : i % 5 == 1 ? 0 : 1 + i % 6;
    for (const std::int32_t c : random_integers(degree, static_cast<std::int32_t>(cols), 100 + i)) {
      col_idx.push_back(c);
    }
    row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
  }
}

SparseOperator upload(Harness& h, const TestGraph& graph) {
  SparseOperator op;
  op.rows = graph.rows;
  op.cols = graph.cols;
  op.row_ptr = h.input_span(graph.row_ptr);
  op.col_idx = h.input_span(graph.col_idx);
  return op;
}

namespace {

// A hub so large that a device gives it more than one block. Nothing cancels: a sum of signed
// numbers would be known to fewer digits than its size says.
Outputs spmm_hub(Harness& h, std::int64_t rows, std::int64_t cols, bool prepared) {
  const TestGraph graph(rows, rows < 257 ? 1000 : 20'000);
  SparseOperator op = upload(h, graph);
  const std::vector<RowRange> ranges{{0, rows}};
  const auto made =
      prepared ? h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, ranges) : nullptr;
  op.prepared = made.get();
  auto values = random_floats(graph.cols * cols, 5);
  for (float& value : values) value = 1 + value / 2;
  const ConstMatrixView x = h.input(graph.cols, cols, values);
  const MatrixView y = h.output(rows, cols);
  h.backend().run(h.queue(), kernels::Spmm{op, {0, rows}, x, 0, y});
  return {h.result(y)};
}

}  // namespace

Outputs run_spmm(Harness& h, std::int64_t rows, std::int64_t cols, const SpmmCase& which) {
  const TestGraph graph(rows, 300);
  SparseOperator op = upload(h, graph);
  const auto factor = [&](bool present, std::int64_t count, std::uint64_t seed) {
    return present ? h.input_span(random_floats(count, seed)) : std::span<const float>();
  };
  op.values = factor(which.values, static_cast<std::int64_t>(graph.col_idx.size()), 1);
  op.row_scale = factor(which.scales, graph.rows, 2);
  op.col_scale = factor(which.scales, graph.cols, 3);
  op.self_weight = factor(which.self_weight, graph.rows, 4);
  const ConstMatrixView x = h.input(graph.cols, cols, random_floats(graph.cols * cols, 5));
  const MatrixView y = h.matrix(rows, cols, Use::kInOut, random_floats(rows * cols, 6));

  // As the engine runs it: rows without halo neighbours first, the others when the halo is there.
  const std::int64_t central = rows * 2 / 3;
  std::vector<RowRange> ranges{{0, central}, {central, rows}};
  const auto made =
      which.prepared ? h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, ranges) : nullptr;
  op.prepared = made.get();
  // A range of which nothing was prepared must do as well.
  if (which.part) ranges = {{rows / 3, rows - rows / 4}};
  if (!which.part && !which.prepared) ranges = {{0, rows}};
  const Epilogue whole = make_epilogue(h, rows, cols, which.epilogue);
  for (const RowRange range : ranges) {
    Epilogue epilogue = whole;
    if (whole.dropout.active()) {
      epilogue.dropout.row_ids = whole.dropout.row_ids.subspan(
          static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    }
    h.backend().run(h.queue(), kernels::Spmm{op, range, x, which.beta, y, epilogue});
  }
  return {h.result(y)};
}

std::vector<TestedOperation> sparse_operations() {
  struct Named {
    const char* name;
    SpmmCase which;
  };
  const EpilogueParts all{true, true, true, ActivationFunction::kRelu, Dropout::kState};
  const std::vector<Named> cases{
      {"plain", {}},
      {"values", {.values = true}},
      {"scaled", {.scales = true, .self_weight = true}},
      {"part", {.values = true, .scales = true, .self_weight = true, .part = true}},
      {"self_part", {.self_weight = true, .part = true}},
      {"added", {.beta = 1}},
      {"scaled_added", {.scales = true, .self_weight = true, .beta = 1}},
      {"values_added_part", {.values = true, .scales = true, .part = true, .beta = 1}},
      {"bias_relu",
       {.scales = true, .epilogue = {.beta = true, .function = ActivationFunction::kRelu}}},
      {"all_added", {.scales = true, .self_weight = true, .beta = 1, .epilogue = all}}};
  std::vector<TestedOperation> list;
  for (const Named& named : cases) {
    for (const bool prepared : {false, true}) {
      SpmmCase which = named.which;
      which.prepared = prepared;
      list.push_back({std::string("spmm_") + named.name + (prepared ? "_prepared" : ""),
                      [which](Harness& h, std::int64_t rows, std::int64_t cols) {
                        return run_spmm(h, rows, cols, which);
                      },
                      5e-6});
    }
  }
  const auto add = [&](const char* name, auto run, bool flag, double tolerance, Bf16Case bf16) {
    list.push_back({name,
                    [run, flag](Harness& h, std::int64_t rows, std::int64_t cols) {
                      return run(h, rows, cols, flag);
                    },
                    tolerance, bf16});
  };
  add("spmm_hub", spmm_hub, false, 5e-6, Bf16Case::kOneStep);
  add("spmm_hub_prepared", spmm_hub, true, 5e-6, Bf16Case::kOneStep);
  return list;
}

}  // namespace atl
