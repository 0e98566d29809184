// Aggregates that read features of edges. Rows are gone through a few columns at a time, which stay
// in registers along all edges of the row; what an edge carries is made there again in each pass.
#include <algorithm>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/edge_chunks.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

namespace {

// The most bytes for partial sums of the gradients of weights: their chunks get larger instead.
constexpr std::int64_t kTermPartialBytes = std::int64_t{16} << 20;

// m += the features of edge e times W, in two registers of columns from c on.
template <int kBytes, typename Columns>
ATOLL_INLINE inline void add_edge_terms(const EdgeTerms& terms, std::int64_t e, std::int64_t c,
                                        Columns columns, typename Vectors<kBytes>::Floats* m) {
  const std::int64_t count = terms.weight.rows;
  const float* const features = terms.features.data() + e * count;
  for (std::int64_t k = 0; k < count; ++k) {
    typename Vectors<kBytes>::Floats weight[2];
    Pair<kBytes>::load(terms.weight.row<float>(k) + c, columns, weight);
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) m[r] += weight[r] * features[k];
  }
}

// x_j + b in two registers of columns from c on.
template <int kBytes, typename T, typename Columns>
ATOLL_INLINE inline void load_with_bias(const T* row, const float* bias, std::int64_t c,
                                        Columns columns, typename Vectors<kBytes>::Floats* m) {
  typename Vectors<kBytes>::Floats b[2];
  Pair<kBytes>::load(row + c, columns, m);
  Pair<kBytes>::load(bias + c, columns, b);
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) m[r] += b[r];
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::AggregateEdges& call) {
  const auto& [op, rows, x, terms, y] = call;
  const float* const bias = terms.bias.row<float>(0);
  const std::int64_t cost = cost_of_rows(op.row_ptr, rows);
  backend.for_chunks(cost, kCostPerChunk, cost * x.cols, [&](RowRange costs, int) {
    const RowRange range = rows_of_chunk(op.row_ptr, rows, costs);
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes>(auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto columns) ATOLL_INLINE {
          using Floats = typename Vectors<kUnit>::Floats;
          Floats sums[2] = {};
          for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
            Floats m[2];
            load_with_bias<kUnit>(x.row<T>(op.col_idx[e]), bias, c, columns, m);
            add_edge_terms<kUnit>(terms, e, c, columns, m);
#pragma GCC unroll 2
            for (int r = 0; r < 2; ++r) sums[r] += m[r] < 0.0F ? Floats{} : m[r];
          }
          Pair<kUnit>::store(sums, columns, y.row<T>(i) + c);
        });
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::AggregateEdgesBackwardSources& call) {
  const auto& [op, edges, sources, x, terms, dy, dx] = call;
  const float* const bias = terms.bias.row<float>(0);
  const std::int64_t cost = cost_of_rows(edges.row_ptr, sources);
  backend.for_chunks(cost, kCostPerChunk, cost * x.cols, [&](RowRange costs, int) {
    const RowRange range = rows_of_chunk(edges.row_ptr, sources, costs);
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes>(auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto columns) ATOLL_INLINE {
          using Floats = typename Vectors<kUnit>::Floats;
          Floats source[2];
          Floats sums[2] = {};
          load_with_bias<kUnit>(x.row<T>(j), bias, c, columns, source);
          for (std::int64_t k = edges.row_ptr[j]; k < edges.row_ptr[j + 1]; ++k) {
            Floats m[2] = {source[0], source[1]};
            Floats gradient[2];
            add_edge_terms<kUnit>(terms, edges.edges[k], c, columns, m);
            Pair<kUnit>::load(dy.row<T>(edges.targets[k]) + c, columns, gradient);
#pragma GCC unroll 2
            for (int r = 0; r < 2; ++r) sums[r] += m[r] > 0.0F ? gradient[r] : Floats{};
          }
          Pair<kUnit>::store(sums, columns, dx.row<T>(j - sources.begin) + c);
        });
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::AggregateEdgesBackwardTerms& call) {
  const auto& [op, rows, x, terms, dy, dweight, dbias] = call;
  constexpr std::int64_t kMostColumns = 32;  // of a Pair
  constexpr auto kFloats = static_cast<std::int64_t>(sizeof(double) / sizeof(float));
  const float* const bias = terms.bias.row<float>(0);
  const std::int64_t count = terms.weight.rows;
  const std::int64_t size = (count + 1) * x.cols;  // the bias comes last
  const std::int64_t each = (count + 1) * kMostColumns;
  // How many chunks there are follows from sizes alone.
  const std::int64_t most = std::clamp<std::int64_t>(kTermPartialBytes / (8 * size), 1, 256);
  const std::int64_t cost = cost_of_rows(op.row_ptr, rows);
  const std::int64_t chunk = std::max(kCostPerChunk, (cost + most - 1) / most);
  const std::int64_t chunks = (cost + chunk - 1) / chunk;
  const std::int64_t slots = backend.workers().threads() * each;
  float* const memory = backend.scratch<float>(slots + chunks * size * kFloats).data();
  auto* const partials = reinterpret_cast<double*>(memory + slots);
  backend.for_chunks(cost, chunk, cost * x.cols, [&](RowRange costs, int slot) {
    const RowRange range = rows_of_chunk(op.row_ptr, rows, costs);
    float* const own = memory + slot * each;
    double* const partial = partials + costs.begin / chunk * size;
    std::fill_n(partial, size, 0.0);
    run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes>(auto element) ATOLL_INLINE {
      using T = decltype(element);
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        for_columns<kBytes>(0, x.cols, [&]<int kUnit>(std::int64_t c, auto columns) ATOLL_INLINE {
          using Floats = typename Vectors<kUnit>::Floats;
          constexpr std::int64_t kColumns = Pair<kUnit>::kColumns;
          static_assert(kColumns <= kMostColumns);
          std::fill_n(own, (count + 1) * kColumns, 0.0F);
          Floats gradient[2];
          Floats bias_sums[2] = {};
          Pair<kUnit>::load(dy.row<T>(i) + c, columns, gradient);
          for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
            const float* const features = terms.features.data() + e * count;
            Floats m[2];
            load_with_bias<kUnit>(x.row<T>(op.col_idx[e]), bias, c, columns, m);
            add_edge_terms<kUnit>(terms, e, c, columns, m);
#pragma GCC unroll 2
            for (int r = 0; r < 2; ++r) {
              m[r] = m[r] > 0.0F ? gradient[r] : Floats{};
              bias_sums[r] += m[r];
            }
            for (std::int64_t k = 0; k < count; ++k) {
              Floats sums[2];
              Pair<kUnit>::load(own + k * kColumns, Whole{}, sums);
#pragma GCC unroll 2
              for (int r = 0; r < 2; ++r) sums[r] += m[r] * features[k];
              Pair<kUnit>::store(sums, Whole{}, own + k * kColumns);
            }
          }
          Pair<kUnit>::store(bias_sums, Whole{}, own + count * kColumns);
          const std::int64_t there = std::min(kColumns, x.cols - c);
          for (std::int64_t k = 0; k <= count; ++k) {
            for (std::int64_t l = 0; l < there; ++l) {
              partial[k * x.cols + c + l] += static_cast<double>(own[k * kColumns + l]);
            }
          }
        });
      }
    });
  });
  for (std::int64_t k = 0; k <= count; ++k) {
    float* const to = k < count ? dweight.row<float>(k) : dbias.row<float>(0);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      auto sum = static_cast<double>(to[c]);
      for (std::int64_t p = 0; p < chunks; ++p) sum += partials[p * size + k * x.cols + c];
      to[c] = static_cast<float>(sum);
    }
  }
}

}  // namespace atl
