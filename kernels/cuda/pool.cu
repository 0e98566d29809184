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
  PoolKind kind;
  float sharpness;
  const float* trained;  // where it lies instead; may be null

  __device__ float by() const {
    return sharpness_of(kind, trained != nullptr ? *trained : sharpness);
  }
  // What scores are multiples of: x, or, of the power mean, log b. NaN stays.
  __device__ float number(float x) const {
    if (kind != PoolKind::kPowerMean) return x;
    return logf(x < kLeastBase ? kLeastBase : x > kMostBase ? kMostBase : x);
  }
  // exp(d); of the maximum 1 where x and y are equal or not to be compared.
  __device__ float weight(float d) const {
    if (kind != PoolKind::kMaximum) return expf(d);
    return d < 0 ? 0.0F : 1.0F;
  }
};

PoolArgs pool_args(std::span<const std::int64_t> row_ptr, std::span<const std::int32_t> neighbours,
                   RowRange rows, const PoolSpec& spec) {
  return {row_ptr.data(), neighbours.data(), rows.begin,
          spec.kind,      spec.sharpness,    static_cast<const float*>(spec.trained)};
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
    if (a.kind == PoolKind::kMaximum) {
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
    const float by = a.by();
    const auto edges = static_cast<float>(end - k);
    float weights = 0;
    float sum = 0;
    for (; k < end; ++k) {
      const float value = to_f32(*x.at(a.neighbours[k], c));
      const float score = by * a.number(value);
      const float more = score > most ? score : most;
      const float scale = expf(most - more);
      const float weight = expf(score - more);
      weights = fmaf(weights, scale, weight);
      sum = fmaf(sum, scale, weight * value);
      most = more;
    }
    if (a.kind == PoolKind::kSoftmax) return sum / weights;
    return expf((most + logf(weights / edges)) / by);
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
    const float own = a.number(to_f32(*y.at(i, c)));
    const float by = a.by();
    float shares = 0;
    for (std::int64_t k = a.row_ptr[i]; k < end; ++k) {
      shares += a.weight(by * (a.number(to_f32(*x.at(a.neighbours[k], c))) - own));
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
    const float given = to_f32(*x.at(j, c));
    const float own = a.number(given);
    const float by = a.by();
    const bool powers = a.kind == PoolKind::kPowerMean;
    float sum = 0;
    for (std::int64_t k = a.row_ptr[j]; k < end; ++k) {
      const std::int64_t i = a.neighbours[k];
      const float apart = own - a.number(to_f32(*y.at(i, c)));
      const float d = by * apart;
      // Of the power mean (b / y)^(p - 1).
      const float term = *g.at(i, c) * a.weight(powers ? d - apart : d);
      sum += a.kind == PoolKind::kSoftmax ? fmaf(term, d, term) : term;
    }
    // NaN is between the bounds.
    return powers && (given <= kLeastBase || given >= kMostBase) ? 0.0F : sum;
  }
};

template <typename T>
struct PoolSlopes {
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;
  __device__ float operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = a.first + row;
    const std::int64_t end = a.row_ptr[i + 1];
    std::int64_t k = a.row_ptr[i];
    if (k == end) return 0;
    const auto edges = static_cast<float>(end - k);
    const float pooled = to_f32(*y.at(i, c));
    const float own = a.number(pooled);
    const float by = a.by();
    float weights = 0;
    float first = 0;
    float second = 0;
    for (; k < end; ++k) {
      const float d = a.number(to_f32(*x.at(a.neighbours[k], c))) - own;
      const float weight = expf(by * d);
      weights += weight;
      first = fmaf(weight, d, first);
      second = fmaf(weight * d, d, second);
    }
    const float mean = first / weights;
    if (a.kind == PoolKind::kSoftmax) return second / weights - mean * mean;
    // y is rounded: log y is what it stands for, and this.
    return pooled / by * (mean - logf(weights / edges) / by);
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

void pool_slope(const Launch& where, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                ConstMatrixView y, const PoolSpec& spec, MatrixView slope) {
  const PoolArgs args = pool_args(op.row_ptr, op.col_idx, rows, spec);
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, slope.rows_in(rows), PoolSlopes<T>{args, rows_of<T>(x), rows_of<T>(y)});
  });
}

}  // namespace atl::cuda
