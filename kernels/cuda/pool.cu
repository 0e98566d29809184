// Pooling over in-edges: a thread per element, so that a warp reads neighbouring columns of each
// neighbour's row. A row stays with its threads however many neighbours it has.
#include <math.h>

#include "kernels/cuda/each_element.cuh"
#include "kernels/cuda/operations.hpp"

namespace atl::cuda {

namespace {

// What all elements share.
struct PoolArgs {
  const std::int64_t* row_ptr;
  const std::int32_t* neighbours;
  std::int64_t first;  // row of the first element
  bool softmax;
  float t;

  // exp(d) of softmax, else 1 where x and y are equal or not to be compared.
  __device__ float weight(float d) const {
    if (softmax) return expf(d);
    return d < 0 ? 0.0F : 1.0F;
  }
};

PoolArgs pool_args(std::span<const std::int64_t> row_ptr, std::span<const std::int32_t> neighbours,
                   RowRange rows, const PoolSpec& spec) {
  const bool softmax = spec.kind == PoolKind::kSoftmax;
  return {row_ptr.data(), neighbours.data(), rows.begin, softmax, softmax ? spec.temperature : 1};
}

template <typename T>
struct PooledRows {
  PoolArgs a;
  Rows<const T> x;
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = a.first + row;
    const std::int64_t end = a.row_ptr[i + 1];
    std::int64_t k = a.row_ptr[i];
    if (k == end) return 0;
    if (!a.softmax) {
      float most = to_f32(*x.at(a.neighbours[k], c));
      for (++k; k < end; ++k) {
        const float value = to_f32(*x.at(a.neighbours[k], c));
        // Takes NaN, and keeps it.
        most = value <= most || most != most ? most : value;
      }
      return most;
    }
    // The greatest score so far, and sums of what is relative to it.
    float most = -INFINITY;
    float weights = 0;
    float sum = 0;
    for (; k < end; ++k) {
      const float value = to_f32(*x.at(a.neighbours[k], c));
      const float score = a.t * value;
      const float more = score > most ? score : most;
      const float scale = expf(most - more);
      const float weight = expf(score - more);
      weights = fmaf(weights, scale, weight);
      sum = fmaf(sum, scale, weight * value);
      most = more;
    }
    return sum / weights;
  }
};

template <typename T>
struct DividedGradients {
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;
  Rows<const T> dy;
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = a.first + row;
    const std::int64_t end = a.row_ptr[i + 1];
    const float own = to_f32(*y.at(i, c));
    float shares = 0;
    for (std::int64_t k = a.row_ptr[i]; k < end; ++k) {
      shares += a.weight(a.t * (to_f32(*x.at(a.neighbours[k], c)) - own));
    }
    return a.row_ptr[i] == end ? 0.0F : to_f32(*dy.at(i, c)) / shares;
  }
};

template <typename T>
struct ReturnedGradients {
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;
  Rows<const float> g;
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t j = a.first + row;
    const std::int64_t end = a.row_ptr[j + 1];
    const float own = to_f32(*x.at(j, c));
    float sum = 0;
    for (std::int64_t k = a.row_ptr[j]; k < end; ++k) {
      const std::int64_t i = a.neighbours[k];
      const float d = a.t * (own - to_f32(*y.at(i, c)));
      const float term = *g.at(i, c) * a.weight(d);
      sum += a.softmax ? fmaf(term, d, term) : term;
    }
    return sum;
  }
};

}  // namespace

void pool(const Launch& where, const SparseOperator& op, RowRange rows, ConstMatrixView x,
          const PoolSpec& spec, MatrixView y) {
  const PoolArgs args = pool_args(op.row_ptr, op.col_idx, rows, spec);
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, y.rows_in(rows), PooledRows<T>{args, rows_of<T>(x)});
  });
}

void pool_backward_targets(const Launch& where, const SparseOperator& op, RowRange rows,
                           ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                           const PoolSpec& spec, MatrixView g) {
  const PoolArgs args = pool_args(op.row_ptr, op.col_idx, rows, spec);
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<float>(where, g.rows_in(rows),
                        DividedGradients<T>{args, rows_of<T>(x), rows_of<T>(y), rows_of<T>(dy)});
  });
}

void pool_backward_sources(const Launch& where, const SparseOperator&, const SourceEdges& edges,
                           RowRange sources, ConstMatrixView x, ConstMatrixView y,
                           ConstMatrixView g, const PoolSpec& spec, MatrixView dx) {
  const PoolArgs args = pool_args(edges.row_ptr, edges.targets, sources, spec);
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, dx,
                    ReturnedGradients<T>{args, rows_of<T>(x), rows_of<T>(y), rows_of<float>(g)});
  });
}

}  // namespace atl::cuda
