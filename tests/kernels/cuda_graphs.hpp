// Graphs and whole SpMMs on them, for tests of the cuda backend's kernels.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/harness.hpp"

namespace atl {

// A graph whose rows have the given numbers of edges, with at least as many halo columns as rows,
// duplicates among the edges but fewer edges than elements (cuSPARSE refuses more), and numbers for
// all factors. Every third row has no self weight.
struct Graph {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;
  std::vector<float> row_scale;
  std::vector<float> col_scale;
  std::vector<float> self_weight;
  bool finite_first_row = false;

  explicit Graph(const std::vector<std::int64_t>& edges)
      : rows(static_cast<std::int64_t>(edges.size())),
        cols(2 * std::max(rows, *std::max_element(edges.begin(), edges.end()))) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      for (const std::int32_t c :
           random_integers(edges[i], static_cast<std::int32_t>(cols), 50 + i)) {
        col_idx.push_back(c % 3 == 0 ? (c + 1) % static_cast<std::int32_t>(cols) : c);
      }
      row_ptr.push_back(static_cast<std::int64_t>(col_idx.size()));
    }
    values = positive(static_cast<std::int64_t>(col_idx.size()), 1);
    row_scale = positive(rows, 2);
    col_scale = positive(cols, 3);
    self_weight = positive(rows, 4);
    for (std::size_t i = 0; i < self_weight.size(); i += 3) self_weight[i] = 0;
  }

  // Nothing cancels, so that f32 sums of thousands of edges are known to f32.
  static std::vector<float> positive(std::int64_t count, std::uint64_t seed) {
    std::vector<float> numbers = random_floats(count, seed);
    for (float& number : numbers) number = 1 + number / 2;
    return numbers;
  }

  // Edges of weight 1, as GCN has them, with factors of rows and columns.
  Graph without_edge_weights() const {
    Graph plain = *this;
    plain.values.clear();
    for (float& weight : plain.self_weight) weight = weight == 0 ? 0 : 1;
    return plain;
  }
  // Row factors alone, as GraphSAGE has them.
  Graph without_column_factors() const {
    Graph plain = without_edge_weights();
    plain.col_scale.clear();
    return plain;
  }
  Graph without_self_weights() const {
    Graph plain = *this;
    for (float& weight : plain.self_weight) weight = 0;
    return plain;
  }

  SparseOperator upload(Harness& h) const {
    SparseOperator op;
    op.rows = rows;
    op.cols = cols;
    op.row_ptr = h.input_span(row_ptr);
    op.col_idx = h.input_span(col_idx);
    if (!values.empty()) op.values = h.input_span(values);
    op.row_scale = h.input_span(row_scale);
    if (!col_scale.empty()) op.col_scale = h.input_span(col_scale);
    op.self_weight = h.input_span(self_weight);
    return op;
  }

  // Where cuSPARSE's ALG3 may run, which multiplies the first row of x by 0 and adds it to every
  // sum (seen of version 12.6).
  Graph with_finite_first_row() const {
    Graph other = *this;
    other.finite_first_row = true;
    return other;
  }

  // x of so many columns. Rows that no edge and no self weight asks for are NaN: reading them
  // shows.
  std::vector<float> features(std::int64_t columns) const {
    std::vector<bool> asked(static_cast<std::size_t>(cols), false);
    asked[0] = finite_first_row;
    for (const std::int32_t c : col_idx) asked[static_cast<std::size_t>(c)] = true;
    for (std::size_t i = 0; i < self_weight.size(); ++i) {
      if (self_weight[i] != 0) asked[i] = true;
    }
    std::vector<float> x = positive(cols * columns, 5);
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!asked[k / static_cast<std::size_t>(columns)])
        x[k] = std::numeric_limits<float>::quiet_NaN();
    }
    return x;
  }
};

// One spmm over two ranges, as the engine runs it.
struct Spmm {
  std::int64_t columns = 1;
  double beta = 0;
  bool prepared = true;
  bool tail = false;  // bias, relu and dropout

  // y. `kernels` gets the names of those that ran, one per range.
  std::vector<double> on(Harness& h, const Graph& graph,
                         std::vector<std::string>* kernels = nullptr) const {
    SparseOperator op = graph.upload(h);
    const std::vector<RowRange> ranges{{0, graph.rows / 2}, {graph.rows / 2, graph.rows}};
    const auto made =
        prepared ? h.backend().prepare_spmm(h.queue(), op, graph.row_ptr, ranges) : nullptr;
    op.prepared = made.get();
    const ConstMatrixView x = h.input(graph.cols, columns, graph.features(columns));
    // Values that are overwritten are not read.
    const std::vector<float> before =
        beta == 0 ? std::vector<float>(static_cast<std::size_t>(graph.rows * columns),
                                       std::numeric_limits<float>::quiet_NaN())
                  : Graph::positive(graph.rows * columns, 6);
    const MatrixView y = h.matrix(graph.rows, columns, Use::kInOut, before);
    const auto ids = h.input_span(row_ids(graph.rows));
    for (const RowRange range : ranges) {
      Epilogue epilogue;
      if (tail) {
        epilogue.beta = h.matrix<float>(1, columns, Use::kInput, random_floats(columns, 7));
        epilogue.function = ActivationFunction::kRelu;
        epilogue.dropout = {{9, RandomStream::kDropout, 1, 2},
                            dropout_threshold(0.25),
                            ids.subspan(static_cast<std::size_t>(range.begin),
                                        static_cast<std::size_t>(range.size()))};
      }
      h.backend().run(h.queue(), kernels::Spmm{op, range, x, beta, y, epilogue});
      if (kernels != nullptr) kernels->emplace_back(h.backend().last_kernel());
    }
    return h.download(y);
  }

  static std::vector<GlobalId> row_ids(std::int64_t rows) {
    std::vector<GlobalId> ids;
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(GlobalId{1000 - 3 * i});
    return ids;
  }
};

}  // namespace atl
