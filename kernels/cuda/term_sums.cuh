// Gradients of a weight that features of edges are multiplied by: sums down columns, a few of its
// rows at a time.
#pragma once

#include <algorithm>

#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/row_shares.cuh"

namespace atl::cuda {

inline constexpr int kTermSums = 8;  // rows of a weight whose gradients one pass sums

// Adds the sums of a pass to rows `first_term` on of a weight of `count` rows, and to a bias as the
// row behind them, unless that is null.
struct AddToTerms {
  std::int64_t first_col;
  std::int64_t first_term;
  std::int64_t count;
  Rows<float> weight;
  float* bias;
  __device__ void operator()(std::int64_t col, const double (&sums)[kTermSums]) const {
    const std::int64_t c = first_col + col;
#pragma unroll
    for (int s = 0; s < kTermSums; ++s) {
      const std::int64_t k = first_term + s;
      if (k > count || (k == count && bias == nullptr)) return;
      float* const to = k < count ? weight.at(k, c) : bias + c;
      *to = static_cast<float>(static_cast<double>(*to) + sums[s]);
    }
  }
};

// One pass of sum_terms(): over kTermSums rows of a weight from `first_term` on, in its columns
// from `first_col` on. A base of the operation that sums them.
struct TermPass : NoColumns {
  static constexpr int kSums = kTermSums;
  static constexpr int kUnit = 1;
  static constexpr int kBatch = 1;
  struct Held {};
  RowShares shares;  // the rows that are summed
  std::int64_t first_col;
  std::int64_t first_term;

  __device__ Held load(std::int64_t, std::int64_t) const { return {}; }
};

// Passes over all columns and rows of `weight`, and of `bias` where there is one. make(pass) gives
// the operation.
template <typename Make>
void sum_terms(const Launch& where, const RowShares& shares, MatrixView weight, MatrixView bias,
               const Make& make) {
  constexpr std::int64_t kPassCols = kReductionCols / 4;  // that the partial sums have room for
  const std::int64_t rows = shares.piece_count + shares.chunks.chunks;
  const std::int64_t terms = weight.rows + bias.rows;
  for (std::int64_t col = 0; col < weight.cols; col += kPassCols) {
    for (std::int64_t k = 0; k < terms; k += kTermSums) {
      sum_columns(
          where, rows, std::min(kPassCols, weight.cols - col), make(TermPass{{}, shares, col, k}),
          AddToTerms{col, k, weight.rows, rows_of<float>(weight), static_cast<float*>(bias.data)});
    }
  }
}

}  // namespace atl::cuda
