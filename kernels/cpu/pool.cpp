// Pooling over in-edges: some columns at a time, whose maxima or sums stay in registers while the
// neighbours' rows go by. Softmax and power means go through them twice, the second time in the
// caches.
#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/exponential.hpp"
#include "kernels/cpu/logarithm.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

namespace {

// Neighbours of one row: of a target its sources, of a source its targets.
struct Neighbours {
  const std::int32_t* rows;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t last;  // edge of the operator
  Prefetching ahead;

  template <typename T>
  ATOLL_INLINE void fetch(ConstMatrixView x, std::int64_t k) const {
    const std::int64_t bytes = x.cols * bytes_of(x.dtype);
    prefetch<2>(x.row<T>(rows[std::min(k + ahead.far, last)]), bytes);
    prefetch<3>(x.row<T>(rows[std::min(k + ahead.near, last)]), bytes);
  }
};

// The numbers that scores are multiples of: x, or, of the power mean, log b.
template <int kBytes>
ATOLL_INLINE inline void pooled_number(const PoolSpec& spec,
                                       const typename Vectors<kBytes>::Floats& x,
                                       typename Vectors<kBytes>::Floats& number) {
  using Floats = typename Vectors<kBytes>::Floats;
  if (spec.kind != PoolKind::kPowerMean) {
    number = x;
    return;
  }
  // NaN stays.
  const Floats raised = x < kLeastBase ? Floats{} + kLeastBase : x;
  const Floats base = raised > kMostBase ? Floats{} + kMostBase : raised;
  logarithm<kBytes>(base, number);
}

// exp(d) of softmax and power means; of the maximum 1 where x and y are equal or not to be
// compared, else 0.
template <int kBytes>
ATOLL_INLINE inline void weigh(const PoolSpec& spec, const typename Vectors<kBytes>::Floats& d,
                               typename Vectors<kBytes>::Floats& weight) {
  using Floats = typename Vectors<kBytes>::Floats;
  if (spec.kind != PoolKind::kMaximum) return exponential<kBytes>(d, weight);
  weight = d < 0.0F ? Floats{} : Floats{} + 1.0F;
}

template <int kBytes, typename T>
ATOLL_INLINE inline void pool_row(const PoolSpec& spec, const Neighbours& of, ConstMatrixView x,
                                  T* to) {
  if (of.begin == of.end) {
    std::fill_n(to, x.cols, T{});
    return;
  }
  const float factor = spec.sharpness;  // below 0 the least numbers weigh most
  const auto edges = static_cast<float>(of.end - of.begin);
  for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    Floats row[2];
    Floats most[2];
    Floats sum[2] = {};
    Floats weights[2] = {};
    for (Floats& value : most) value = Floats{} - std::numeric_limits<float>::infinity();
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      Pair<kUnit>::load(x.row<T>(of.rows[k]) + c, part, row);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number;
        pooled_number<kUnit>(spec, row[r], number);
        const Floats score = number * factor;
        // Takes NaN, and keeps it.
        most[r] = score <= most[r] ? most[r] : most[r] == most[r] ? score : most[r];
      }
    }
    if (spec.kind == PoolKind::kMaximum) return Pair<kUnit>::store(most, part, to + c);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      Pair<kUnit>::load(x.row<T>(of.rows[k]) + c, part, row);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row[r], number);
        exponential<kUnit>(number * factor - most[r], weight);
        weights[r] += weight;
        sum[r] += weight * row[r];
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      if (spec.kind == PoolKind::kSoftmax) {
        sum[r] /= weights[r];
        continue;
      }
      Floats mean;
      logarithm<kUnit>(weights[r] / edges, mean);
      exponential<kUnit>((most[r] + mean) / factor, sum[r]);
    }
    Pair<kUnit>::store(sum, part, to + c);
  });
}

template <int kBytes, typename T>
ATOLL_INLINE inline void divide_gradient(const PoolSpec& spec, const Neighbours& of,
                                         ConstMatrixView x, const T* y, const T* dy, float* to) {
  if (of.begin == of.end) {
    std::fill_n(to, x.cols, 0.0F);
    return;
  }
  const float factor = spec.sharpness;
  for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    Floats row[2];
    Floats own[2];
    Floats gradient[2];
    Floats shares[2] = {};
    Pair<kUnit>::load(y + c, part, own);
#pragma GCC unroll 2
    for (Floats& value : own) pooled_number<kUnit>(spec, value, value);
    Pair<kUnit>::load(dy + c, part, gradient);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      Pair<kUnit>::load(x.row<T>(of.rows[k]) + c, part, row);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row[r], number);
        weigh<kUnit>(spec, (number - own[r]) * factor, weight);
        shares[r] += weight;
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) gradient[r] /= shares[r];
    Pair<kUnit>::store(gradient, part, to + c);
  });
}

template <int kBytes, typename T>
ATOLL_INLINE inline void return_gradient(const PoolSpec& spec, const Neighbours& of, const T* x,
                                         ConstMatrixView y, ConstMatrixView g, T* to) {
  const bool softmax = spec.kind == PoolKind::kSoftmax;
  const bool powers = spec.kind == PoolKind::kPowerMean;
  const float factor = spec.sharpness;
  for_columns<kBytes>(0, y.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    Floats given[2];
    Floats own[2];
    Floats row[2];
    Floats gradient[2];
    Floats sum[2] = {};
    Pair<kUnit>::load(x + c, part, given);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) pooled_number<kUnit>(spec, given[r], own[r]);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) {
        of.fetch<T>(y, k);
        of.fetch<float>(g, k);
      }
      Pair<kUnit>::load(y.row<T>(of.rows[k]) + c, part, row);
      Pair<kUnit>::load(g.row<float>(of.rows[k]) + c, part, gradient);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row[r], number);
        const Floats apart = own[r] - number;
        const Floats d = apart * factor;
        // (b / y)^(p - 1), of b^p / y^p.
        weigh<kUnit>(spec, powers ? d - apart : d, weight);
        const Floats term = gradient[r] * weight;
        sum[r] += softmax ? term + term * d : term;
      }
    }
    if (powers) {
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        // NaN is between the bounds.
        const Floats below = given[r] >= kMostBase ? Floats{} : sum[r];
        sum[r] = given[r] <= kLeastBase ? Floats{} : below;
      }
    }
    Pair<kUnit>::store(sum, part, to + c);
  });
}

template <int kBytes, typename T>
ATOLL_INLINE inline void slope_row(const PoolSpec& spec, const Neighbours& of, ConstMatrixView x,
                                   const T* y, T* to) {
  if (of.begin == of.end) {
    std::fill_n(to, x.cols, T{});
    return;
  }
  const bool powers = spec.kind == PoolKind::kPowerMean;
  const float factor = spec.sharpness;
  const auto edges = static_cast<float>(of.end - of.begin);
  for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    Floats row[2];
    Floats pooled[2];
    Floats own[2];
    Floats weights[2] = {};
    Floats first[2] = {};
    Floats second[2] = {};
    Pair<kUnit>::load(y + c, part, pooled);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) pooled_number<kUnit>(spec, pooled[r], own[r]);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      Pair<kUnit>::load(x.row<T>(of.rows[k]) + c, part, row);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row[r], number);
        const Floats d = number - own[r];
        exponential<kUnit>(d * factor, weight);
        weights[r] += weight;
        first[r] += weight * d;
        second[r] += weight * d * d;
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const Floats mean = first[r] / weights[r];
      if (powers) {
        // y is rounded: log y is what it stands for, and this.
        Floats rest;
        logarithm<kUnit>(weights[r] / edges, rest);
        second[r] = pooled[r] / factor * (mean - rest / factor);
      } else {
        second[r] = second[r] / weights[r] - mean * mean;
      }
    }
    Pair<kUnit>::store(second, part, to + c);
  });
}

// With the sharpness that counts as a number.
PoolSpec known(PoolSpec spec) {
  if (spec.trained != nullptr) spec.sharpness = *static_cast<const float*>(spec.trained);
  spec.sharpness = sharpness_of(spec.kind, spec.sharpness);
  spec.trained = nullptr;
  return spec;
}

// Calls body.template operator()<kBytes, T>(neighbours, i) for all i of `rows`, where row_ptr and
// `neighbours` are the edges by these rows and x is gathered.
template <typename Body>
void for_pooled_rows(CpuBackend& backend, std::span<const std::int64_t> row_ptr,
                     std::span<const std::int32_t> neighbours, RowRange rows, ConstMatrixView x,
                     const Body& body) {
  const std::int64_t cost = cost_of_rows(row_ptr, rows);
  const Prefetching ahead = prefetching(x.cols * bytes_of(x.dtype));
  const auto last = static_cast<std::int64_t>(neighbours.size()) - 1;
  backend.for_chunks(cost, kCostPerChunk, cost * x.cols, [&](RowRange costs, int) {
    const RowRange range = rows_of_chunk(row_ptr, rows, costs);
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Neighbours of{neighbours.data(), row_ptr[i], row_ptr[i + 1], last, ahead};
        body.template operator()<kBytes, T>(of, i);
      }
    });
  });
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::Pool& call) {
  const auto& [op, rows, x, given, y] = call;
  const PoolSpec spec = known(given);
  for_pooled_rows(backend, op.row_ptr, op.col_idx, rows, x,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i)
                      ATOLL_INLINE { pool_row<kBytes, T>(spec, of, x, y.row<T>(i)); });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolBackwardTargets& call) {
  const auto& [op, rows, x, y, dy, given, g] = call;
  const PoolSpec spec = known(given);
  for_pooled_rows(backend, op.row_ptr, op.col_idx, rows, x,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i) ATOLL_INLINE {
                    divide_gradient<kBytes, T>(spec, of, x, y.row<T>(i), dy.row<T>(i),
                                               g.row<float>(i));
                  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolBackwardSources& call) {
  const auto& [op, edges, sources, x, y, g, given, dx] = call;
  const PoolSpec spec = known(given);
  for_pooled_rows(backend, edges.row_ptr, edges.targets, sources, y,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t j) ATOLL_INLINE {
                    return_gradient<kBytes, T>(spec, of, x.row<T>(j), y, g,
                                               dx.row<T>(j - sources.begin));
                  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolSlope& call) {
  const auto& [op, rows, x, y, given, slope] = call;
  const PoolSpec spec = known(given);
  for_pooled_rows(backend, op.row_ptr, op.col_idx, rows, x,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i) ATOLL_INLINE {
                    slope_row<kBytes, T>(spec, of, x, y.row<T>(i), slope.row<T>(i));
                  });
}

}  // namespace atl
