// Pooling over in-edges: a thread per element (edge_elements.cuh).
#include <math.h>

#include "kernels/cuda/edge_elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/operations/pool.hpp"

namespace atl::cuda {

namespace {

// Arguments that all elements share.
struct PoolArgs {
  const std::int32_t* neighbours;
  PoolKind kind;
  float sharpness;
  const float* trained;  // where it lies instead; may be null

  __device__ float by() const {
    return sharpness_of(kind, trained != nullptr ? *trained : sharpness);
  }
  // The number that scores are multiples of: x, or log b for the power mean. NaN stays.
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

PoolArgs pool_args(std::span<const std::int32_t> neighbours, const PoolSpec& spec) {
  return {neighbours.data(), spec.kind, spec.sharpness, static_cast<const float*>(spec.trained)};
}

template <typename T>
struct PooledRows {
  // The greatest score so far, and sums of what is relative to it: of weights and of numbers. Of
  // the maximum the greatest number alone.
  using Numbers = EdgeNumbers<3>;
  PoolArgs a;
  Rows<const T> x;

  __device__ Numbers start() const { return {{-INFINITY, 0, 0}}; }
  // Takes NaN, and keeps it.
  __device__ static float greater(float most, float value) {
    return value <= most || most != most ? most : value;
  }
  __device__ void add(std::int64_t, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    if (a.kind == PoolKind::kMaximum) {
      float most = to.values[0];
      for (std::int64_t k = begin; k < end; ++k) {
        most = greater(most, to_f32(*x.at(a.neighbours[k], c)));
      }
      to.values[0] = most;
      return;
    }
    float most = to.values[0];
    const float by = a.by();
    float weights = 0;
    float sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const float value = to_f32(*x.at(a.neighbours[k], c));
      const float score = by * a.number(value);
      const float more = score > most ? score : most;
      const float scale = expf(most - more);
      const float weight = expf(score - more);
      weights = fmaf(weights, scale, weight);
      sum = fmaf(sum, scale, weight * value);
      most = more;
    }
    to = {{most, weights, sum}};
  }
  __device__ void merge(Numbers& to, const Numbers& from) const {
    const float most = to.values[0];
    const float other = from.values[0];
    if (a.kind == PoolKind::kMaximum) {
      to.values[0] = greater(most, other);
      return;
    }
    const float more = other > most ? other : most;
    const float scale = expf(most - more);
    const float other_scale = expf(other - more);
    to.values[0] = more;
#pragma unroll
    for (int k = 1; k < Numbers::kNumbers; ++k) {
      to.values[k] = fmaf(to.values[k], scale, from.values[k] * other_scale);
    }
  }
  __device__ float finish(std::int64_t, std::int64_t, std::int64_t edges,
                          const Numbers& from) const {
    const auto [most, weights, sum] = from.values;
    if (edges == 0) return 0;
    if (a.kind == PoolKind::kMaximum) return most;
    if (a.kind == PoolKind::kSoftmax) return sum / weights;
    return expf((most + logf(weights / static_cast<float>(edges))) / a.by());
  }
};

template <typename T>
struct DividedGradients : EdgeSums<1> {
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;
  Rows<const T> dy;

  __device__ void add(std::int64_t i, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    const float own = a.number(to_f32(*y.at(i, c)));
    const float by = a.by();
    float shares = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      shares += a.weight(by * (a.number(to_f32(*x.at(a.neighbours[k], c))) - own));
    }
    to.values[0] = shares;
  }
  __device__ float finish(std::int64_t i, std::int64_t c, std::int64_t edges,
                          const Numbers& from) const {
    return edges == 0 ? 0.0F : to_f32(*dy.at(i, c)) / from.values[0];
  }
};

template <typename T>
struct ReturnedGradients : EdgeSums<1> {
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;
  Rows<const float> g;

  __device__ void add(std::int64_t j, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    const float own = a.number(to_f32(*x.at(j, c)));
    const float by = a.by();
    const bool powers = a.kind == PoolKind::kPowerMean;
    float sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t i = a.neighbours[k];
      const float apart = own - a.number(to_f32(*y.at(i, c)));
      const float d = by * apart;
      // (b / y)^(p - 1) for the power mean.
      const float term = *g.at(i, c) * a.weight(powers ? d - apart : d);
      sum += a.kind == PoolKind::kSoftmax ? fmaf(term, d, term) : term;
    }
    to.values[0] = sum;
  }
  __device__ float finish(std::int64_t j, std::int64_t c, std::int64_t, const Numbers& from) const {
    if (a.kind != PoolKind::kPowerMean) return from.values[0];
    // NaN is between the bounds.
    const float given = to_f32(*x.at(j, c));
    return given <= kLeastBase || given >= kMostBase ? 0.0F : from.values[0];
  }
};

template <typename T>
struct PoolSlopes : EdgeSums<3> {  // of weights, and of first and second moments
  PoolArgs a;
  Rows<const T> x;
  Rows<const T> y;

  __device__ void add(std::int64_t i, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    const float own = a.number(to_f32(*y.at(i, c)));
    const float by = a.by();
    float weights = 0;
    float first = 0;
    float second = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const float d = a.number(to_f32(*x.at(a.neighbours[k], c))) - own;
      const float weight = expf(by * d);
      weights += weight;
      first = fmaf(weight, d, first);
      second = fmaf(weight * d, d, second);
    }
    to = {{weights, first, second}};
  }
  __device__ float finish(std::int64_t i, std::int64_t c, std::int64_t edges,
                          const Numbers& from) const {
    const auto [weights, first, second] = from.values;
    if (edges == 0) return 0;
    const float mean = first / weights;
    if (a.kind == PoolKind::kSoftmax) return second / weights - mean * mean;
    // y is rounded: log y is what it stands for, and this.
    const float by = a.by();
    const float rest = logf(weights / static_cast<float>(edges)) / by;
    return to_f32(*y.at(i, c)) / by * (mean - rest);
  }
};

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::Pool& call) {
  const auto& [op, rows, x, spec, y] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  const PoolArgs args = pool_args(op.col_idx, spec);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<T>(where, work, op.row_ptr, y.rows_in(work.range),
                         PooledRows<T>{args, rows_of<T>(x)});
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::PoolBackwardTargets& call) {
  const auto& [op, rows, x, y, dy, spec, g] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  const PoolArgs args = pool_args(op.col_idx, spec);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<float>(
        where, work, op.row_ptr, g.rows_in(work.range),
        DividedGradients<T>{{}, args, rows_of<T>(x), rows_of<T>(y), rows_of<T>(dy)});
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::PoolBackwardSources& call) {
  const auto& [op, edges, sources, x, y, g, spec, dx] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(edges.prepared, sources);
  const PoolArgs args = pool_args(edges.targets, spec);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<T>(
        where, work, edges.row_ptr, dx,
        ReturnedGradients<T>{{}, args, rows_of<T>(x), rows_of<T>(y), rows_of<float>(g)});
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::PoolSlope& call) {
  const auto& [op, rows, x, y, spec, slope] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  const PoolArgs args = pool_args(op.col_idx, spec);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<T>(where, work, op.row_ptr, slope.rows_in(work.range),
                         PoolSlopes<T>{{}, args, rows_of<T>(x), rows_of<T>(y)});
  });
}

}  // namespace atl::cuda
