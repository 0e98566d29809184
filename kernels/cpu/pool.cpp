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

// Two registers of neighbouring columns.
template <int kBytes>
struct PoolColumns {
  using Floats = typename Vectors<kBytes>::Floats;
  Floats values[2] = {};

  template <typename T, typename Part>
  ATOLL_INLINE void load(const T* from, Part part) {
    Pair<kBytes>::load(from, part, values);
  }
  template <typename T, typename Part>
  ATOLL_INLINE void store(T* to, Part part) const {
    Pair<kBytes>::store(values, part, to);
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
    PoolColumns<kUnit> row, most, sum, weights;
    for (Floats& value : most.values) value += -std::numeric_limits<float>::infinity();
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number;
        pooled_number<kUnit>(spec, row.values[r], number);
        const Floats score = number * factor;
        // Takes NaN, and keeps it.
        most.values[r] = score <= most.values[r]            ? most.values[r]
                         : most.values[r] == most.values[r] ? score
                                                            : most.values[r];
      }
    }
    if (spec.kind == PoolKind::kMaximum) return most.store(to + c, part);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row.values[r], number);
        exponential<kUnit>(number * factor - most.values[r], weight);
        weights.values[r] += weight;
        sum.values[r] += weight * row.values[r];
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      if (spec.kind == PoolKind::kSoftmax) {
        sum.values[r] /= weights.values[r];
        continue;
      }
      Floats mean;
      logarithm<kUnit>(weights.values[r] / edges, mean);
      exponential<kUnit>((most.values[r] + mean) / factor, sum.values[r]);
    }
    sum.store(to + c, part);
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
    PoolColumns<kUnit> row, own, gradient, shares;
    own.load(y + c, part);
#pragma GCC unroll 2
    for (Floats& value : own.values) pooled_number<kUnit>(spec, value, value);
    gradient.load(dy + c, part);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row.values[r], number);
        weigh<kUnit>(spec, (number - own.values[r]) * factor, weight);
        shares.values[r] += weight;
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) gradient.values[r] /= shares.values[r];
    gradient.store(to + c, part);
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
    PoolColumns<kUnit> own, row, gradient, sum, given;
    own.load(x + c, part);
    given = own;
#pragma GCC unroll 2
    for (Floats& value : own.values) pooled_number<kUnit>(spec, value, value);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) {
        of.fetch<T>(y, k);
        of.fetch<float>(g, k);
      }
      row.load(y.row<T>(of.rows[k]) + c, part);
      gradient.load(g.row<float>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row.values[r], number);
        const Floats apart = own.values[r] - number;
        const Floats d = apart * factor;
        // (b / y)^(p - 1), of b^p / y^p.
        weigh<kUnit>(spec, powers ? d - apart : d, weight);
        const Floats term = gradient.values[r] * weight;
        sum.values[r] += softmax ? term + term * d : term;
      }
    }
    if (powers) {
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        // NaN is between the bounds.
        const Floats below = given.values[r] >= kMostBase ? Floats{} : sum.values[r];
        sum.values[r] = given.values[r] <= kLeastBase ? Floats{} : below;
      }
    }
    sum.store(to + c, part);
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
    PoolColumns<kUnit> row, pooled, own, weights, first, second;
    pooled.load(y + c, part);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) pooled_number<kUnit>(spec, pooled.values[r], own.values[r]);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats number, weight;
        pooled_number<kUnit>(spec, row.values[r], number);
        const Floats d = number - own.values[r];
        exponential<kUnit>(d * factor, weight);
        weights.values[r] += weight;
        first.values[r] += weight * d;
        second.values[r] += weight * d * d;
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const Floats mean = first.values[r] / weights.values[r];
      if (powers) {
        // y is rounded: log y is what it stands for, and this.
        Floats rest;
        logarithm<kUnit>(weights.values[r] / edges, rest);
        second.values[r] = pooled.values[r] / factor * (mean - rest / factor);
      } else {
        second.values[r] = second.values[r] / weights.values[r] - mean * mean;
      }
    }
    second.store(to + c, part);
  });
}

// With the sharpness that counts as a number.
PoolSpec known(PoolSpec spec) {
  if (spec.trained != nullptr) spec.sharpness = *static_cast<const float*>(spec.trained);
  spec.sharpness = sharpness_of(spec.kind, spec.sharpness);
  spec.trained = nullptr;
  return spec;
}

}  // namespace

// Calls body.template operator()<kBytes, T>(neighbours, i) for all i of `rows`, where row_ptr and
// `neighbours` are the edges by these rows and x is gathered.
template <typename Body>
void CpuBackend::for_pooled_rows(std::span<const std::int64_t> row_ptr,
                                 std::span<const std::int32_t> neighbours, RowRange rows,
                                 ConstMatrixView x, const Body& body) {
  const std::int64_t cost = cost_of_rows(row_ptr, rows);
  const Prefetching ahead = prefetching(x.cols * bytes_of(x.dtype));
  const auto last = static_cast<std::int64_t>(neighbours.size()) - 1;
  for_chunks(cost, kCostPerChunk, cost * x.cols, [&](RowRange costs, int) {
    const RowRange range = rows_of_chunk(row_ptr, rows, costs);
    run_with_vectors(isa_, x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Neighbours of{neighbours.data(), row_ptr[i], row_ptr[i + 1], last, ahead};
        body.template operator()<kBytes, T>(of, i);
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::Pool& call) {
  const auto& [op, rows, x, given, y] = call;
  const PoolSpec spec = known(given);
  backend.for_pooled_rows(op.row_ptr, op.col_idx, rows, x,
                          [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i)
                              ATOLL_INLINE { pool_row<kBytes, T>(spec, of, x, y.row<T>(i)); });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolBackwardTargets& call) {
  const auto& [op, rows, x, y, dy, given, g] = call;
  const PoolSpec spec = known(given);
  backend.for_pooled_rows(
      op.row_ptr, op.col_idx, rows, x,
      [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i) ATOLL_INLINE {
        divide_gradient<kBytes, T>(spec, of, x, y.row<T>(i), dy.row<T>(i), g.row<float>(i));
      });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolBackwardSources& call) {
  const auto& [op, edges, sources, x, y, g, given, dx] = call;
  const PoolSpec spec = known(given);
  backend.for_pooled_rows(
      edges.row_ptr, edges.targets, sources, y,
      [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t j) ATOLL_INLINE {
        return_gradient<kBytes, T>(spec, of, x.row<T>(j), y, g, dx.row<T>(j - sources.begin));
      });
}

void kernel(CpuBackend& backend, Queue&, const kernels::PoolSlope& call) {
  const auto& [op, rows, x, y, given, slope] = call;
  const PoolSpec spec = known(given);
  backend.for_pooled_rows(
      op.row_ptr, op.col_idx, rows, x,
      [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i)
          ATOLL_INLINE { slope_row<kBytes, T>(spec, of, x, y.row<T>(i), slope.row<T>(i)); });
}

}  // namespace atl
