// Sums down the columns of matrices in double, in two stages whose order depends on the shape
// alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.cuh"

namespace atl::cuda {

// Blocks of a first stage, at most: twelve for each multiprocessor of an H200, so whole waves
// whether two, three or four fit one; but the same number everywhere.
inline constexpr std::int64_t kReductionBlocks = 1584;
// Bytes of the workspace for partial sums, and columns of one pass, of which they hold at least
// one chunk.
inline constexpr std::int64_t kPartialsBytes = std::int64_t{24} << 20;
inline constexpr std::int64_t kReductionCols = std::int64_t{1} << 20;
inline constexpr int kFinishThreads = 512;
inline constexpr int kFinishCols = 8;  // columns of a block of the second stage

// A base of an Op below that keeps nothing of its columns.
struct NoColumns {
  struct Columns {};
  __device__ Columns columns(std::int64_t) const { return {}; }
};

// First stage. Op says what is summed:
//   kSums, kUnit    sums per column, columns per thread
//   Columns         what a thread keeps of its columns; columns(col) makes it
//   load(row, col)  what a row contributes, as read
//   add(columns, row, col, loaded, sums)  adds it to double sums[kSums][kUnit]
// The last unit of a row may reach into its padding: what is summed there is dropped. partials
// [chunks, kSums, cols]. Two blocks on a multiprocessor suffice: with fewer registers the compiler
// would not start all loads of a batch before it uses the first.
template <typename Op>
__global__ void __launch_bounds__(kBlockThreads, 2)
    reduce_columns(Walk walk, Chunks chunks, std::int64_t rows, Op op, double* partials) {
  constexpr int kUnit = Op::kUnit;
  __shared__ double shared[kUnit * kBlockThreads];
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  double sums[Op::kSums][kUnit] = {};
  if (place.inside) {
    const auto columns = op.columns(place.col);
    const std::int64_t first = place.block * chunks.rows_per_chunk;
    const std::int64_t end = min(first + chunks.rows_per_chunk, rows);
    for_rows<Op::kBatch>(
        first + place.row, end, walk.rows,
        [&](std::int64_t row) { return op.load(row, place.col); },
        [&](std::int64_t row, const auto& loaded) {
          op.add(columns, row, place.col, loaded, sums);
        });
  }
  // The rows of the block as a tree.
  for (int k = 0; k < Op::kSums; ++k) {
#pragma unroll
    for (int j = 0; j < kUnit; ++j) shared[j * kBlockThreads + threadIdx.x] = sums[k][j];
    __syncthreads();
    for (int half = walk.half_rows; half > 0; half /= 2) {
      if (place.row < half && place.row + half < walk.rows) {
#pragma unroll
        for (int j = 0; j < kUnit; ++j) {
          double* sum = shared + j * kBlockThreads + threadIdx.x;
          sum[0] += sum[half * walk.lanes];
        }
      }
      __syncthreads();
    }
    if (place.inside && place.row == 0) {
      double* to = partials + (place.block * Op::kSums + k) * walk.cols + place.col;
#pragma unroll
      for (int j = 0; j < kUnit; ++j) {
        if (place.col + j < walk.cols) to[j] = shared[j * kBlockThreads + threadIdx.x];
      }
    }
    __syncthreads();
  }
}

// Second stage: finish(col, sums) for every column.
template <int kSums, typename Finish>
__global__ void __launch_bounds__(kFinishThreads, 1)
    finish_columns(std::int64_t chunks, std::int64_t cols, const double* partials, Finish finish) {
  constexpr int kLanes = kFinishThreads / kFinishCols;
  __shared__ double shared[kSums * kFinishThreads];
  const int lane = static_cast<int>(threadIdx.x) / kFinishCols;
  const std::int64_t col =
      std::int64_t{blockIdx.x} * kFinishCols + static_cast<int>(threadIdx.x) % kFinishCols;
  double sums[kSums] = {};
  if (col < cols) {
    struct Partial {
      double sums[kSums];
    };
    for_rows<8>(
        lane, chunks, kLanes,
        [&](std::int64_t chunk) {
          Partial partial;
#pragma unroll
          for (int k = 0; k < kSums; ++k) {
            partial.sums[k] = partials[(chunk * kSums + k) * cols + col];
          }
          return partial;
        },
        [&](std::int64_t, const Partial& partial) {
#pragma unroll
          for (int k = 0; k < kSums; ++k) sums[k] += partial.sums[k];
        });
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) shared[k * kFinishThreads + threadIdx.x] = sums[k];
  __syncthreads();
  for (int half = kLanes / 2; half > 0; half /= 2) {
    if (lane < half) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        double* sum = shared + k * kFinishThreads + threadIdx.x;
        sum[0] += sum[half * kFinishCols];
      }
    }
    __syncthreads();
  }
  if (lane == 0 && col < cols) {
#pragma unroll
    for (int k = 0; k < kSums; ++k) sums[k] = shared[k * kFinishThreads + threadIdx.x];
    finish(col, sums);
  }
}

template <int kSums, typename Finish>
void launch_finish(const Launch& where, std::int64_t chunks, std::int64_t cols,
                   const double* partials, const Finish& finish) {
  launch(where, ceil_divide(cols, kFinishCols), kFinishThreads, finish_columns<kSums, Finish>,
         chunks, cols, partials, finish);
}

// Both stages over columns 0 .. cols - 1 (at most kReductionCols) of `rows` rows. Partial sums are
// the first kPartialsBytes of the workspace.
template <typename Op, typename Finish>
void sum_columns(const Launch& where, std::int64_t rows, std::int64_t cols, const Op& op,
                 const Finish& finish) {
  auto* const partials = reinterpret_cast<double*>(where.workspace.data());
  const Walk walk = make_walk(cols, Op::kUnit);
  const std::int64_t held = kPartialsBytes / (Op::kSums * std::int64_t{sizeof(double)} * cols);
  ATOLL_ASSERT(held >= 1, "{} sums of {} columns", Op::kSums, cols);
  const std::int64_t most =
      std::max<std::int64_t>(std::min(kReductionBlocks / walk.tiles, held), 1);
  const Chunks chunks = make_chunks(rows, std::int64_t{walk.rows} * Op::kBatch, most);
  launch(where, walk.tiles * chunks.chunks, walk.threads(), reduce_columns<Op>, walk, chunks, rows,
         op, partials);
  launch_finish<Op::kSums>(where, chunks.chunks, cols, partials, finish);
}

// Second stage that stores sums as f32, or adds them to what is there.
struct StoreSum {
  float* out;
  bool accumulate;
  __device__ void operator()(std::int64_t col, const double (&sums)[1]) const {
    const double before = accumulate ? static_cast<double>(out[col]) : 0.0;
    out[col] = static_cast<float>(before + sums[0]);
  }
};

// Calls body(first, cols) for passes that cover all columns.
template <typename Body>
void for_column_passes(std::int64_t cols, const Body& body) {
  for (std::int64_t first = 0; first < cols; first += kReductionCols) {
    body(first, std::min(kReductionCols, cols - first));
  }
}

}  // namespace atl::cuda
