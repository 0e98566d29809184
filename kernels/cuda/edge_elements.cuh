// Matrices of which a thread makes one element from the edges of its row, so that a warp reads
// neighbouring columns of each neighbour's row. Rows of many edges are made in pieces.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/row_shares.cuh"

namespace atl::cuda {

// Op says how an element is made:
//   Numbers                     what edges leave, EdgeNumbers
//   start()                     those of no edges
//   add(i, c, begin, end, to)   takes in the edges [begin, end) of row i, column c
//   merge(to, from)             takes in the numbers of later edges
//   finish(i, c, edges, from)   the element of a row of so many edges
template <int kCount>
struct EdgeNumbers {
  static constexpr int kNumbers = kCount;
  float values[kCount];
};

// A base of an Op whose numbers are sums over edges; its element is the first, unless it says
// otherwise.
template <int kCount>
struct EdgeSums {
  using Numbers = EdgeNumbers<kCount>;

  __device__ Numbers start() const { return {}; }
  __device__ void merge(Numbers& to, const Numbers& from) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) to.values[k] += from.values[k];
  }
  __device__ float finish(std::int64_t, std::int64_t, std::int64_t, const Numbers& from) const {
    return from.values[0];
  }
};

template <typename T, typename Op>
__global__ void __launch_bounds__(kBlockThreads)
    edge_elements_kernel(RowShares shares, std::int64_t cols, Op op, Rows<T> y) {
  const std::int64_t index =
      std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x);
  const std::int64_t c = index % cols;
  const RowShare share = share_of(shares, index / cols);
  if (share.first >= share.end) return;
  const std::int64_t i = share.first;  // a chunk is one row
  const RowEdges edges = edges_of(shares, share, i, false);
  if (edges.count < 0) return;
  typename Op::Numbers numbers = op.start();
  op.add(i, c, edges.begin, edges.begin + edges.count, numbers);
  if (share.piece == nullptr) {
    const float element = op.finish(i, c, edges.count, numbers);
    store(y.at(i - shares.range.begin, c), narrow<T>(Packed<float, 1>{{element}}));
    return;
  }
  float* const to = shares.results + index / cols * shares.result_stride + c;
#pragma unroll
  for (int k = 0; k < Op::Numbers::kNumbers; ++k) to[k * cols] = numbers.values[k];
}

template <typename T, typename Op>
__global__ void __launch_bounds__(kMergeThreads)
    merge_elements_kernel(RowShares shares, SplitRows split, std::int64_t cols, Op op, Rows<T> y) {
  const std::int64_t c = std::int64_t{blockIdx.y} * kMergeThreads + threadIdx.x;
  if (c >= cols) return;
  for (std::int64_t r = blockIdx.x; r < split.count; r += kMergeBlocks) {
    const SplitRow row = split.rows[r];
    const float* from = split.results_of(row) + c;
    typename Op::Numbers numbers = op.start();
    for (std::int64_t piece = 0; piece < row.pieces; ++piece) {
      typename Op::Numbers of_piece;
#pragma unroll
      for (int k = 0; k < Op::Numbers::kNumbers; ++k) of_piece.values[k] = from[k * cols];
      op.merge(numbers, of_piece);
      from += split.result_stride;
    }
    const std::int64_t edges = shares.row_ptr[row.row + 1] - shares.row_ptr[row.row];
    const float element = op.finish(row.row, c, edges, numbers);
    store(y.at(row.row - shares.range.begin, c), narrow<T>(Packed<float, 1>{{element}}));
  }
}

// y: of the rows of `work`, whose edges row_ptr counts.
template <typename T, typename Op>
void for_edge_elements(const Launch& where, const SpmmWork& work,
                       std::span<const std::int64_t> row_ptr, MatrixView y, const Op& op) {
  const std::int64_t stride = Op::Numbers::kNumbers * y.cols;
  const SpmmWork fitting = divided(work, static_cast<std::int64_t>(where.workspace.size()), stride);
  for_share_batches(fitting, row_ptr, {1, work.range.size()}, where.workspace, stride,
                    [&](const RowShares& shares, const SplitRows& split) {
                      const std::int64_t elements =
                          (shares.piece_count + shares.chunks.chunks) * y.cols;
                      launch(where, ceil_divide(elements, kBlockThreads), kBlockThreads,
                             edge_elements_kernel<T, Op>, shares, y.cols, op, rows_of<T>(y));
                      if (split.count == 0) return;
                      launch(where, merge_grid(y.cols), kMergeThreads, merge_elements_kernel<T, Op>,
                             shares, split, y.cols, op, rows_of<T>(y));
                    });
}
}  // namespace atl::cuda
