// Aggregates that read features of edges: a thread per row and column goes along all edges of the
// row, the threads of a warp read neighbouring columns.
#include "kernels/cuda/each_element.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/term_sums.cuh"

namespace atl::cuda {

namespace {

template <typename T>
struct EdgeArgs {
  const std::int64_t* row_ptr;
  const std::int32_t* col_idx;
  Rows<const T> x;
  Rows<const T> dy;
  const float* features;
  std::int64_t count;  // of features of an edge
  Rows<const float> weight;
  const float* bias;

  // Column c of what edge e from j carries.
  __device__ float carried(std::int64_t j, std::int64_t e, std::int64_t c) const {
    float sum = to_f32(*x.at(j, c)) + bias[c];
    for (std::int64_t k = 0; k < count; ++k) {
      sum = fmaf(features[e * count + k], *weight.at(k, c), sum);
    }
    return sum;
  }
};

template <typename T>
EdgeArgs<T> edge_args(const SparseOperator& op, ConstMatrixView x, ConstMatrixView dy,
                      const EdgeTerms& terms) {
  return {op.row_ptr.data(),
          op.col_idx.data(),
          rows_of<T>(x),
          rows_of<T>(dy),
          terms.features.data(),
          terms.weight.rows,
          rows_of<float>(terms.weight),
          static_cast<const float*>(terms.bias.data)};
}

template <typename T>
struct SumOfEdges {
  EdgeArgs<T> a;
  std::int64_t first;  // row
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = first + row;
    float sum = 0;
    for (std::int64_t e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
      const float value = a.carried(a.col_idx[e], e, c);
      sum += value < 0 ? 0.0F : value;
    }
    return sum;
  }
};

template <typename T>
struct SumOfTargets {
  EdgeArgs<T> a;
  const std::int64_t* row_ptr;
  const std::int32_t* targets;
  const std::int64_t* edges;
  std::int64_t first;  // source
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t j = first + row;
    float sum = 0;
    for (std::int64_t k = row_ptr[j]; k < row_ptr[j + 1]; ++k) {
      if (a.carried(j, edges[k], c) > 0) sum += to_f32(*a.dy.at(targets[k], c));
    }
    return sum;
  }
};

// Of rows `first_term` on of the weight, and of the bias as the row behind them.
template <typename T>
struct TermGradients {
  static constexpr int kSums = kTermSums;
  static constexpr int kUnit = 1;
  static constexpr int kBatch = 1;
  struct Columns {};
  struct Held {};
  EdgeArgs<T> a;
  std::int64_t first_row;
  std::int64_t first_col;
  std::int64_t first_term;

  __device__ Columns columns(std::int64_t) const { return {}; }
  __device__ Held load(std::int64_t, std::int64_t) const { return {}; }
  __device__ void add(const Columns&, std::int64_t row, std::int64_t col, const Held&,
                      double (&sums)[kSums][1]) const {
    const std::int64_t i = first_row + row;
    const std::int64_t c = first_col + col;
    float along[kSums] = {};
    for (std::int64_t e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
      if (!(a.carried(a.col_idx[e], e, c) > 0)) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        const std::int64_t k = first_term + s;
        along[s] += k < a.count ? a.features[e * a.count + k] : 1.0F;
      }
    }
    const float gradient = to_f32(*a.dy.at(i, c));
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      sums[s][0] += static_cast<double>(along[s]) * static_cast<double>(gradient);
    }
  }
};

}  // namespace

void aggregate_edges(const Launch& where, const SparseOperator& op, RowRange rows,
                     ConstMatrixView x, const EdgeTerms& terms, MatrixView y) {
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, y.rows_in(rows),
                    SumOfEdges<T>{edge_args<T>(op, x, {}, terms), rows.begin});
  });
}

void aggregate_edges_backward_sources(const Launch& where, const SparseOperator& op,
                                      const SourceEdges& edges, RowRange sources, ConstMatrixView x,
                                      const EdgeTerms& terms, ConstMatrixView dy, MatrixView dx) {
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, dx,
                    SumOfTargets<T>{edge_args<T>(op, x, dy, terms), edges.row_ptr.data(),
                                    edges.targets.data(), edges.edges.data(), sources.begin});
  });
}

void aggregate_edges_backward_terms(const Launch& where, const SparseOperator& op, RowRange rows,
                                    ConstMatrixView x, const EdgeTerms& terms, ConstMatrixView dy,
                                    MatrixView dweight, MatrixView dbias) {
  with_element_type(x.dtype, [&]<typename T>(T) {
    const EdgeArgs<T> a = edge_args<T>(op, x, dy, terms);
    sum_terms(where, rows.size(), dweight, dbias, [&](std::int64_t col, std::int64_t term) {
      return TermGradients<T>{a, rows.begin, col, term};
    });
  });
}

}  // namespace atl::cuda
