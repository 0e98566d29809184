// Pooling over in-edges: some columns at a time, whose maxima or sums stay in registers while the
// neighbours' rows go by. Softmax goes through them twice, the second time in the caches.
#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/exponential.hpp"
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

// exp(t (x - y)), of softmax; of the maximum 1 where they are equal or not to be compared, else 0.
template <int kBytes>
ATOLL_INLINE inline void weigh(const PoolSpec& spec, const typename Vectors<kBytes>::Floats& d,
                               typename Vectors<kBytes>::Floats& weight) {
  using Floats = typename Vectors<kBytes>::Floats;
  if (spec.kind == PoolKind::kSoftmax) return exponential<kBytes>(d, weight);
  weight = d < 0.0F ? Floats{} : Floats{} + 1.0F;
}

template <int kBytes, typename T>
ATOLL_INLINE inline void pool_row(const PoolSpec& spec, const Neighbours& of, ConstMatrixView x,
                                  T* to) {
  if (of.begin == of.end) {
    std::fill_n(to, x.cols, T{});
    return;
  }
  const bool softmax = spec.kind == PoolKind::kSoftmax;
  for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    // Below 0 temperatures weigh the least numbers most.
    const float factor = softmax ? spec.temperature : 1.0F;
    PoolColumns<kUnit> row, most, sum, weights;
    for (Floats& value : most.values) value += -std::numeric_limits<float>::infinity();
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        const Floats score = row.values[r] * factor;
        // Takes NaN, and keeps it.
        most.values[r] = score <= most.values[r]            ? most.values[r]
                         : most.values[r] == most.values[r] ? score
                                                            : most.values[r];
      }
    }
    if (!softmax) return most.store(to + c, part);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats weight;
        exponential<kUnit>(row.values[r] * factor - most.values[r], weight);
        weights.values[r] += weight;
        sum.values[r] += weight * row.values[r];
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) sum.values[r] /= weights.values[r];
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
  const float factor = spec.kind == PoolKind::kSoftmax ? spec.temperature : 1.0F;
  for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    PoolColumns<kUnit> row, own, gradient, shares;
    own.load(y + c, part);
    gradient.load(dy + c, part);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) of.fetch<T>(x, k);
      row.load(x.row<T>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        Floats weight;
        weigh<kUnit>(spec, (row.values[r] - own.values[r]) * factor, weight);
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
  const float factor = softmax ? spec.temperature : 1.0F;
  for_columns<kBytes>(0, y.cols, [&]<int kUnit>(std::int64_t c, auto part) ATOLL_INLINE {
    using Floats = typename Vectors<kUnit>::Floats;
    PoolColumns<kUnit> own, row, gradient, sum;
    own.load(x + c, part);
    for (std::int64_t k = of.begin; k < of.end; ++k) {
      if (c == 0) {
        of.fetch<T>(y, k);
        of.fetch<float>(g, k);
      }
      row.load(y.row<T>(of.rows[k]) + c, part);
      gradient.load(g.row<float>(of.rows[k]) + c, part);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        const Floats d = (own.values[r] - row.values[r]) * factor;
        Floats weight;
        weigh<kUnit>(spec, d, weight);
        const Floats term = gradient.values[r] * weight;
        sum.values[r] += softmax ? term + term * d : term;
      }
    }
    sum.store(to + c, part);
  });
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

void CpuBackend::do_pool(Queue&, const SparseOperator& op, RowRange rows, ConstMatrixView x,
                         const PoolSpec& spec, MatrixView y) {
  for_pooled_rows(op.row_ptr, op.col_idx, rows, x,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i)
                      ATOLL_INLINE { pool_row<kBytes, T>(spec, of, x, y.row<T>(i)); });
}

void CpuBackend::do_pool_backward_targets(Queue&, const SparseOperator& op, RowRange rows,
                                          ConstMatrixView x, ConstMatrixView y, ConstMatrixView dy,
                                          const PoolSpec& spec, MatrixView g) {
  for_pooled_rows(op.row_ptr, op.col_idx, rows, x,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t i) ATOLL_INLINE {
                    divide_gradient<kBytes, T>(spec, of, x, y.row<T>(i), dy.row<T>(i),
                                               g.row<float>(i));
                  });
}

void CpuBackend::do_pool_backward_sources(Queue&, const SparseOperator&, const SourceEdges& edges,
                                          RowRange sources, ConstMatrixView x, ConstMatrixView y,
                                          ConstMatrixView g, const PoolSpec& spec, MatrixView dx) {
  for_pooled_rows(edges.row_ptr, edges.targets, sources, y,
                  [&]<int kBytes, typename T>(const Neighbours& of, std::int64_t j) ATOLL_INLINE {
                    return_gradient<kBytes, T>(spec, of, x.row<T>(j), y, g,
                                               dx.row<T>(j - sources.begin));
                  });
}

}  // namespace atl
