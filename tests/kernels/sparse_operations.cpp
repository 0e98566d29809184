#include "tests/kernels/operations.hpp"

namespace atl {

namespace {

// A directed graph: row 2 is a hub, every fifth row is empty, the rest have 1 to 6 in-edges, some
// of them duplicates; a third as many halo columns as rows.
struct TestGraph {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;

  explicit TestGraph(std::int64_t n) : rows(n), cols(n + n / 3) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t degree = i == 2 ? 300 : i % 5 == 1 ? 0 : 1 + i % 6;
      for (const std::int32_t c :
           random_integers(degree, static_cast<std::int32_t>(cols), 100 + i)) {
        col_idx.push_back(c);
      }
      row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
    }
  }
};

struct Factors {
  bool values = false;
  bool row_scale = false;
  bool col_scale = false;
  bool self_weight = false;
};

Outputs spmm(Harness& h, std::int64_t rows, std::int64_t cols, Factors factors, bool part) {
  const TestGraph graph(rows);
  SparseOperator op;
  op.rows = graph.rows;
  op.cols = graph.cols;
  op.row_ptr = h.input_span(graph.row_ptr);
  op.col_idx = h.input_span(graph.col_idx);
  const auto factor = [&](bool present, std::size_t count, std::uint64_t seed) {
    return present ? h.input_span(random_floats(static_cast<std::int64_t>(count), seed))
                   : std::span<const float>();
  };
  op.values = factor(factors.values, graph.col_idx.size(), 1);
  op.row_scale = factor(factors.row_scale, graph.rows, 2);
  op.col_scale = factor(factors.col_scale, graph.cols, 3);
  op.self_weight = factor(factors.self_weight, graph.rows, 4);
  const ConstMatrixView x = h.input(graph.cols, cols, random_floats(graph.cols * cols, 5));
  const MatrixView y = h.matrix(graph.rows, cols, Use::kInOut, random_floats(graph.rows * cols, 6));
  const RowRange range = part ? RowRange{rows / 3, rows - rows / 4} : RowRange{0, rows};
  h.backend().spmm(h.queue(), op, range, x, y);
  return {h.download(y)};
}

Outputs spmm_plain(Harness& h, std::int64_t rows, std::int64_t cols) {
  return spmm(h, rows, cols, {}, false);
}
Outputs spmm_values(Harness& h, std::int64_t rows, std::int64_t cols) {
  return spmm(h, rows, cols, {.values = true}, false);
}
Outputs spmm_scaled(Harness& h, std::int64_t rows, std::int64_t cols) {
  return spmm(h, rows, cols, {.row_scale = true, .col_scale = true, .self_weight = true}, false);
}
Outputs spmm_part(Harness& h, std::int64_t rows, std::int64_t cols) {
  return spmm(h, rows, cols, {true, true, true, true}, true);
}
Outputs spmm_self_part(Harness& h, std::int64_t rows, std::int64_t cols) {
  return spmm(h, rows, cols, {.self_weight = true}, true);
}

Outputs gather(Harness& h, std::int64_t rows, std::int64_t cols, bool scaled) {
  const std::int64_t sources = rows + 5;
  std::vector<LocalId> ids;
  for (const std::int32_t row : random_integers(rows, static_cast<std::int32_t>(sources), 7)) {
    ids.push_back(LocalId{row});
  }
  const ConstMatrixView x = h.input(sources, cols, random_floats(sources * cols, 8));
  const auto scale = scaled ? h.input_span(random_floats(sources, 9)) : std::span<const float>();
  const MatrixView y = h.output(rows, cols);
  h.backend().gather_rows(h.queue(), x, h.input_span(ids), scale, y);
  return {h.download(y)};
}
Outputs gather_plain(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gather(h, rows, cols, false);
}
Outputs gather_scaled(Harness& h, std::int64_t rows, std::int64_t cols) {
  return gather(h, rows, cols, true);
}

}  // namespace

std::vector<Operation> sparse_operations() {
  return {{"spmm_plain", spmm_plain, 5e-6},         {"spmm_values", spmm_values, 5e-6},
          {"spmm_scaled", spmm_scaled, 5e-6},       {"spmm_part", spmm_part, 5e-6},
          {"spmm_self_part", spmm_self_part, 5e-6}, {"gather_plain", gather_plain, 0},
          {"gather_scaled", gather_scaled, 0}};
}

}  // namespace atl
