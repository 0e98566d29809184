// Sums over rows for each column of matrices, in double and in the order of the rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/cpu/vectors.hpp"
#include "kernels/cpu/write_rows.hpp"
#include "kernels/views.hpp"

namespace atl {

inline constexpr std::int64_t kSumBlockBytes = 16384;  // of the rows of a block; fits any L1 cache

// Prefetches rows of a matrix, one piece after another from the first column to the last: only such
// a stream comes at the speed of memory, and tiles of columns are none. Into the L2 cache, which
// waits for more lines at a time than L1.
struct RowStream {
  const char* row;
  std::int64_t stride;  // bytes
  std::int64_t bytes;   // of one row
  std::int64_t at;
  std::int64_t left;  // rows

  template <std::int64_t kPiece>
  ATOLL_INLINE void advance() {
    if (left == 0) return;
#pragma GCC unroll 8
    for (std::int64_t b = 0; b < kPiece; b += 64) __builtin_prefetch(row + at + b, 0, 2);
    at += kPiece;
    if (at < bytes) return;
    at = 0;
    row += stride;
    --left;
  }
};

// found[s] of kCount vectors of columns from `first` on: sums[s] and what `term` adds over `rows`.
template <int kBytes, int kCount, typename T, std::size_t kInputs, std::size_t kSums, typename Term>
ATOLL_INLINE inline void sum_tile(RowRange rows, std::int64_t first,
                                  const std::array<double*, kSums>& sums,
                                  std::array<RowStream, kInputs>& streams, const Term& term) {
  constexpr std::int64_t kLanes = kBytes / 8;
  constexpr auto kPiece = static_cast<std::int64_t>(kCount * kLanes * sizeof(T));
  typename Vectors<kBytes>::Doubles found[kCount][kSums];
#pragma GCC unroll 16
  for (int k = 0; k < kCount; ++k) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kSums; ++s) {
      std::memcpy(&found[k][s], sums[s] + first + k * kLanes, kBytes);
    }
  }
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    if constexpr (kCount > 1) {
#pragma GCC unroll 4
      for (std::size_t n = 0; n < kInputs; ++n) streams[n].template advance<kPiece>();
    }
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) {
      term.template operator()<kBytes>(i, first + k * kLanes, found[k]);
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < kCount; ++k) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kSums; ++s) {
      std::memcpy(sums[s] + first + k * kLanes, &found[k][s], kBytes);
    }
  }
}

struct NoPreparation {
  ATOLL_INLINE void operator()(RowRange) const {}
};

// For every row i of `rows` and sum s: sums[s][j] += term s of columns j.
// term.template operator()<kUnit>(i, j, found) adds those of columns [j, j + kUnit / 8) to the
// vectors found[s]. Blocks of rows that stay in the L1 cache are gone over in tiles of columns, so
// that sums stay in registers; prepare(block) comes before a block's terms. `inputs` are the
// matrices of T that both read from memory, all of one shape.
template <int kBytes, typename T, std::size_t kInputs, std::size_t kSums, typename Term,
          typename Prepare = NoPreparation>
ATOLL_INLINE inline void sum_columns(const std::array<ConstMatrixView, kInputs>& inputs,
                                     RowRange rows, const std::array<double*, kSums>& sums,
                                     const Term& term, const Prepare& prepare = {}) {
  // As many as fit the registers, 32 with AVX-512 and 16 else, beside the terms.
  constexpr int kCount = kBytes == 64 ? 8 : 4;
  constexpr std::int64_t kLanes = kBytes / 8;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t cols = inputs[0].cols;
  const std::int64_t step =
      std::max<std::int64_t>(4, kSumBlockBytes / static_cast<std::int64_t>(kInputs) /
                                    std::max<std::int64_t>(1, cols * kSize));
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += step) {
    const RowRange block{begin, std::min(begin + step, rows.end)};
    std::array<RowStream, kInputs> streams;
    for (std::size_t n = 0; n < kInputs; ++n) {
      streams[n] = {reinterpret_cast<const char*>(
                        inputs[n].template row<T>(std::min(block.end, rows.end - 1))),
                    inputs[n].stride * kSize, cols * kSize, 0,
                    std::min(step, rows.end - block.end)};
    }
    prepare(block);
    std::int64_t j = 0;
    for (; j + kCount * kLanes <= cols; j += kCount * kLanes) {
      sum_tile<kBytes, kCount, T>(block, j, sums, streams, term);
    }
    for (; j + kLanes <= cols; j += kLanes) sum_tile<kBytes, 1, T>(block, j, sums, streams, term);
    if constexpr (kBytes > 16) {
      for (; j + 2 <= cols; j += 2) sum_tile<16, 1, T>(block, j, sums, streams, term);
    }
    for (; j < cols; ++j) sum_tile<8, 1, T>(block, j, sums, streams, term);
  }
}

// sum_columns for terms that read gradients of activation.dx, which is computed from dy block by
// block, or of dy where there is no activation; and `beside`, matrices of the same shape.
template <int kBytes, typename T, std::size_t kSums, typename Term, typename... Beside>
ATOLL_INLINE inline void sum_gradients(ConstMatrixView dy, const ActivationGradient& activation,
                                       RowRange rows, const std::array<double*, kSums>& sums,
                                       const Term& term, const Beside&... beside) {
  if (activation.absent()) {
    return sum_columns<kBytes, T>(std::array{dy, beside...}, rows, sums, term);
  }
  sum_columns<kBytes, T>(
      std::array{activation.from, dy, beside...}, rows, sums, term,
      [&](RowRange block) ATOLL_INLINE { relu_gradient_rows<kBytes, T>(activation, dy, block); });
}

// Adds sums of columns to `row` [1, sums.size()], f32, each rounded once.
inline void add_to_row(std::span<const double> sums, MatrixView row) {
  float* const to = row.row<float>(0);
  for (std::size_t j = 0; j < sums.size(); ++j) {
    to[j] = static_cast<float>(static_cast<double>(to[j]) + sums[j]);
  }
}

}  // namespace atl
