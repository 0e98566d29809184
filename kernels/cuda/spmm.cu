// SpMM: a block is one warp, so that no row waits for a longer one beside it. Its teams take a row
// each, all of them together a long one; a split one is taken by several blocks, whose partial sums
// are added in a fixed order.
#include <limits>

#include "kernels/cuda/spmm.hpp"
#include "kernels/cuda/spmm_rows.cuh"

namespace atl::cuda {

namespace {

constexpr int kColumnThreads = 128;  // of blocks with a column per thread

// The work of the blocks of one launch: first pieces of split rows, then long rows, then the rest.
struct Blocks {
  const RowPiece* pieces;
  std::int64_t piece_count;
  const std::int32_t* rows;
  std::int64_t long_rows;
  std::int64_t row_count;
  float* partial;  // sums of pieces, `partial_stride` elements each
  std::int64_t partial_stride;
};

// y[row, col ...] from the complete sums of kUnit neighbouring columns.
template <typename T, int kUnit>
__device__ void finish(const Arguments<T>& a, std::int64_t row, std::int64_t col,
                       const Packed<float, kUnit>& sums) {
  Packed<float, kUnit> sum = sums;
  T* to = a.y.at(row, col);
  const float scale = a.row_scale != nullptr ? a.row_scale[row] : 1.0F;
#pragma unroll
  for (float& value : sum.values) value *= scale;
  if (a.accumulate) {
    const auto before = widen(load<kUnit>(static_cast<const T*>(to)));
#pragma unroll
    for (int k = 0; k < kUnit; ++k) sum.values[k] += before.values[k];
  }
  store_finished(a.epilogue, to, row - a.first_row, col, a.cols, sum);
}

template <typename S>
__device__ void finish_row(const Arguments<typename S::Element>& a, const Lane<S>& at,
                           std::int64_t row, const typename S::Unit (&sums)[S::kPerLane]) {
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    if (at.col(v) < a.cols) finish(a, row, at.col(v), sums[v]);
  }
}

template <typename S>
__global__ void __launch_bounds__(kSpmmThreads, S::kBlocks)
    spmm_kernel(Arguments<typename S::Element> a, Blocks blocks) {
  const Lane<S> at;
  const std::int64_t block = blockIdx.x;
  const bool piece = block < blocks.piece_count;
  const std::int64_t whole = block - blocks.piece_count;
  const bool shared = whole < blocks.long_rows;  // by all teams of the block
  Neighbours of;
  if (piece) {
    const RowPiece edges = blocks.pieces[block];
    of = neighbours_of<S>(a, edges.row);
    of.begin = edges.begin;
    of.end = edges.end;
    if (edges.first == 0) of.self = false;
  } else {
    const std::int64_t few = whole - blocks.long_rows;
    const std::int64_t index = shared ? whole : blocks.long_rows + few * S::kTeams + at.team;
    if (index >= blocks.row_count) return;
    of = neighbours_of<S>(a, blocks.rows != nullptr ? blocks.rows[index] : a.first_row + index);
  }
  typename S::Unit sums[S::kPerLane];
  clear_units(sums);
  add_neighbours<S>(a, Source<S>(a, at), at, of, shared ? at.team * S::kTeam : 0,
                    shared ? kSpmmThreads : S::kTeam, sums);
  if (shared) {
    add_teams<S>(at, sums);
    if (at.team != 0) return;
  }
  if (!piece) return finish_row<S>(a, at, of.row, sums);
  float* to = blocks.partial + block * blocks.partial_stride;
#pragma unroll
  for (int v = 0; v < S::kPerLane; ++v) {
    if (at.col(v) < a.cols) store(to + at.col(v), sums[v]);
  }
}

// Adds the pieces of split rows, a thread per column.
template <typename T>
__global__ void __launch_bounds__(kColumnThreads)
    combine_kernel(Arguments<T> a, const SplitRow* split, std::int32_t first_piece,
                   const float* partial, std::int64_t partial_stride) {
  const SplitRow row = split[blockIdx.x];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x;
  if (col >= a.cols) return;
  const float* from = partial + (row.first_piece - first_piece) * partial_stride + col;
  float sum = 0;
  for (std::int32_t piece = 0; piece < row.pieces; ++piece) sum += from[piece * partial_stride];
  finish(a, row.row, col, Packed<float, 1>{{sum}});
}

template <typename T>
Arguments<T> make_arguments(const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
                            double beta, MatrixView y, const Epilogue& epilogue) {
  return {pointers_of(op),
          static_cast<const T*>(x.data),
          static_cast<unsigned>(x.stride * bytes_of(x.dtype)),
          rows_of<T>(y),
          x.cols,
          work.range.begin,
          beta != 0,
          epilogue_args(epilogue)};
}

template <typename S>
void launch_blocks(const Launch& where, const Arguments<typename S::Element>& a,
                   const Blocks& blocks) {
  const std::int64_t few_lanes = ceil_divide(blocks.row_count - blocks.long_rows, S::kTeams);
  const std::int64_t count = blocks.piece_count + blocks.long_rows + few_lanes;
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(count),
                  static_cast<unsigned>(ceil_divide(a.cols, S::kTile)));
  launch(where, grid, kSpmmThreads, spmm_kernel<S>, a, blocks);
}

// The narrowest team that covers a row, or the widest.
template <typename T, int kUnit, bool kWeights>
void launch_units(const Launch& where, const Arguments<T>& a, const Blocks& blocks) {
  const std::int64_t units = ceil_divide(a.cols, kUnit);
  if constexpr (kUnit > 1) {
    if (units <= 4) return launch_blocks<Shape<T, kUnit, 4, 1, kWeights>>(where, a, blocks);
    if (units > 8 && units <= 16) {
      return launch_blocks<Shape<T, kUnit, 16, 1, kWeights>>(where, a, blocks);
    }
    if (units > 16 && units <= 32) {
      return launch_blocks<Shape<T, kUnit, 32, 1, kWeights>>(where, a, blocks);
    }
  }
  if (units <= 8) return launch_blocks<Shape<T, kUnit, 8, 1, kWeights>>(where, a, blocks);
  launch_blocks<Shape<T, kUnit, 32, 2, kWeights>>(where, a, blocks);
}

template <typename T>
void launch_rows(const Launch& where, const Arguments<T>& a, const Blocks& blocks,
                 ConstMatrixView x, ConstMatrixView y) {
  const bool weighted = a.values != nullptr || a.col_scale != nullptr || a.self_weight != nullptr;
  if (!fits_padded(kVector<T>, {x, y})) return launch_units<T, 1, true>(where, a, blocks);
  if (weighted) return launch_units<T, kVector<T>, true>(where, a, blocks);
  launch_units<T, kVector<T>, false>(where, a, blocks);
}

// Split rows in batches whose partial sums fit the workspace; the rest of the rows with the first.
template <typename T>
void run(const Launch& where, const SpmmWork& work, const Arguments<T>& a, ConstMatrixView x,
         ConstMatrixView y) {
  Blocks blocks{};
  blocks.rows = work.rows;
  blocks.long_rows = work.long_rows;
  blocks.row_count = work.row_count;
  blocks.partial = reinterpret_cast<float*>(where.workspace.data());
  blocks.partial_stride = padded_columns(a.cols);
  if (work.host_split.empty()) return launch_rows(where, a, blocks, x, y);
  const std::int64_t most =
      static_cast<std::int64_t>(where.workspace.size_bytes()) / (blocks.partial_stride * 4);
  for (std::size_t first = 0; first < work.host_split.size();) {
    const std::size_t end = end_of_batch(work.host_split, first, most);
    const SplitRow& last = work.host_split[end - 1];
    const std::int32_t first_piece = work.host_split[first].first_piece;
    blocks.pieces = work.pieces + first_piece;
    blocks.piece_count = last.first_piece + last.pieces - first_piece;
    launch_rows(where, a, blocks, x, y);
    const dim3 grid(static_cast<unsigned>(end - first),
                    static_cast<unsigned>(ceil_divide(a.cols, kColumnThreads)));
    launch(where, grid, kColumnThreads, combine_kernel<T>, a, work.split + first, first_piece,
           static_cast<const float*>(blocks.partial), blocks.partial_stride);
    blocks.long_rows = 0;
    blocks.row_count = 0;
    first = end;
  }
}

}  // namespace

void spmm(const Launch& where, const SpmmWork& work, const SparseOperator& op, ConstMatrixView x,
          double beta, MatrixView y, const Epilogue& epilogue) {
  ATOLL_ASSERT(x.stride * bytes_of(x.dtype) <= std::numeric_limits<std::uint32_t>::max(),
               "rows of {} columns", x.stride);
  // Partial sums of one row must fit the workspace; rows this wide give a block enough to do.
  const bool divided = kMostPieces * (x.cols + 8) * 4 <= kWorkspaceBytes;
  with_element(x.dtype, [&]<typename T>(T) {
    run(where, divided ? work : undivided(work.range),
        make_arguments<T>(work, op, x, beta, y, epilogue), x, y);
  });
}

}  // namespace atl::cuda
