// How what goes along the edges of rows is divided where a few rows have most of the edges: the
// pieces of SpmmWork beside whole rows, and their results, which are merged in the order of pieces.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <span>

#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/spmm.hpp"
#include "kernels/cuda/walk.hpp"

namespace atl::cuda {

// The shares of the rows of one launch: first pieces of split rows, then chunks of the whole rows.
struct RowShares {
  const std::int64_t* row_ptr;
  RowRange range;
  Chunks chunks;
  std::int64_t split_at;  // edges of rows that are split
  const RowPiece* pieces;
  std::int64_t piece_count;
  float* results;              // of pieces
  std::int64_t result_stride;  // floats of one
};

// The rows [first, end), or a piece of row `first`.
struct RowShare {
  std::int64_t first = 0;
  std::int64_t end = 0;
  const RowPiece* piece = nullptr;
  std::int64_t chunk = 0;
};

__device__ inline RowShare share_of(const RowShares& shares, std::int64_t index) {
  RowShare share;
  if (index < shares.piece_count) {
    share.piece = shares.pieces + index;
    share.first = share.piece->row;
    share.end = share.first + 1;
  } else {
    share.chunk = index - shares.piece_count;
    if (share.chunk >= shares.chunks.chunks) return share;
    share.first = shares.range.begin + share.chunk * shares.chunks.rows_per_chunk;
    share.end = min(share.first + shares.chunks.rows_per_chunk, shares.range.end);
  }
  return share;
}

// The same in an order for sums over all rows, whose threads take neighbouring shares: pieces stand
// far apart.
__device__ inline RowShare spread_share_of(const RowShares& shares, std::int64_t index) {
  return share_of(shares, spread_index(index, shares.piece_count, shares.chunks.chunks));
}

// Edges of a row or of its piece, the row itself first where it counts.
struct RowEdges {
  std::int64_t row;
  std::int64_t begin;
  std::int64_t count;  // -1: the row is done in pieces
  bool self;

  // The place among all edges of the k-th.
  __device__ std::int64_t edge(std::int64_t k) const { return begin + k - (self ? 1 : 0); }
  __device__ bool is_self(std::int64_t k) const { return self && k == 0; }
};

__device__ inline RowEdges edges_of(const RowShares& shares, const RowShare& share,
                                    std::int64_t row, bool self) {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  if (share.piece != nullptr) {
    begin = share.piece->begin;
    end = share.piece->end;
    self = self && share.piece->first != 0;
  } else {
    begin = shares.row_ptr[row];
    end = shares.row_ptr[row + 1];
    if (end - begin >= shares.split_at) return {row, begin, -1, false};
  }
  return {row, begin, end - begin + (self ? 1 : 0), self};
}

// Split rows of one launch, and where results of their pieces are.
struct SplitRows {
  const SplitRow* rows;
  std::int64_t count;
  std::int32_t first_piece;
  const float* results;
  std::int64_t result_stride;
  bool first;  // batch

  __device__ const float* results_of(const SplitRow& row) const {
    return results + (row.first_piece - first_piece) * result_stride;
  }
};

inline constexpr unsigned kMergeThreads = 128;  // a column each
inline constexpr unsigned kMergeBlocks = 128;  // down the split rows, always: who sums what depends
                                               // on the rows alone
inline dim3 merge_grid(std::int64_t cols) {
  return {kMergeBlocks, static_cast<unsigned>(ceil_divide(cols, kMergeThreads))};
}

// All pieces of split rows, which are sums of their own, and then all rows.
inline RowShares all_shares(const SpmmWork& work, std::span<const std::int64_t> row_ptr) {
  RowShares shares{};
  shares.row_ptr = row_ptr.data();
  shares.range = work.range;
  shares.chunks = {1, work.range.size()};
  shares.split_at = work.host_split.empty() ? std::numeric_limits<std::int64_t>::max() : kSplitRow;
  if (work.host_split.empty()) return shares;
  shares.pieces = work.pieces;
  shares.piece_count = work.host_split.back().first_piece + work.host_split.back().pieces;
  return shares;
}

// Calls body(shares, split): split rows in batches whose results fit `results`, the rest of the
// rows, in `chunks`, with the first. split.count may be 0.
template <typename Body>
void for_share_batches(const SpmmWork& work, std::span<const std::int64_t> row_ptr,
                       const Chunks& chunks, std::span<std::byte> results,
                       std::int64_t result_stride, const Body& body) {
  RowShares shares = all_shares(work, row_ptr);
  shares.chunks = chunks;
  SplitRows split{};
  split.first = true;
  if (work.host_split.empty()) return body(shares, split);
  shares.results = reinterpret_cast<float*>(results.data());
  shares.result_stride = result_stride;
  split.results = shares.results;
  split.result_stride = result_stride;
  const std::int64_t most = static_cast<std::int64_t>(results.size_bytes()) /
                            (result_stride * std::int64_t{sizeof(float)});
  for (std::size_t first = 0; first < work.host_split.size();) {
    const std::size_t end = end_of_batch(work.host_split, first, most);
    const SplitRow& last = work.host_split[end - 1];
    split.first_piece = work.host_split[first].first_piece;
    split.rows = work.split + first;
    split.count = static_cast<std::int64_t>(end - first);
    shares.pieces = work.pieces + split.first_piece;
    shares.piece_count = last.first_piece + last.pieces - split.first_piece;
    body(shares, split);
    shares.chunks.chunks = 0;
    split.first = false;
    first = end;
  }
}

// The division of rows if results of each row's pieces fit, else whole rows.
inline SpmmWork divided(const SpmmWork& work, std::int64_t result_bytes,
                        std::int64_t result_stride) {
  const std::int64_t most = result_bytes / (result_stride * std::int64_t{sizeof(float)});
  for (const SplitRow& row : work.host_split) {
    if (row.pieces > most) return undivided(work.range);
  }
  return work;
}

}  // namespace atl::cuda
