// Loops over the rows of a walk with several rows of loads in flight.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.hpp"

namespace atl::cuda {

// use(row, load(row)) for row = first, first + step, ... below end. The loads of kBatch rows start
// before the first of them is used: memory answers after some 700 ns, and only bytes under way hide
// that.
template <int kBatch, typename Load, typename Use>
__device__ inline void for_rows(std::int64_t first, std::int64_t end, std::int64_t step,
                                const Load& load, const Use& use) {
  std::int64_t row = first;
  for (; row + (kBatch - 1) * step < end; row += kBatch * step) {
    decltype(load(row)) held[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) held[b] = load(row + b * step);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) use(row + b * step, held[b]);
  }
  for (; row < end; row += step) use(row, load(row));
}

// The same for the rows of a matrix that belong to the calling thread when `down` blocks share
// them.
template <int kBatch, typename Load, typename Use>
__device__ inline void for_rows(const Walk& walk, const Place& place, std::int64_t down,
                                std::int64_t rows, const Load& load, const Use& use) {
  if (!place.inside) return;
  for_rows<kBatch>(place.block * walk.rows + place.row, rows, down * walk.rows, load, use);
}

// The blocks of a kernel that walks over rows, which it is told first: its walk, and how many
// blocks share the rows.
struct Grid {
  Walk walk;
  std::int64_t down;

  std::int64_t blocks() const { return walk.tiles * down; }
};

// As make_walk() and blocks_down(), for blocks of the whole device.
inline Grid make_grid(const Launch& where, std::int64_t rows, std::int64_t cols, int unit,
                      int batch, int group = 1) {
  const Walk walk = make_walk(cols, unit, group);
  return {walk, blocks_down(walk, rows, batch, where.most_blocks())};
}

template <typename... Parameters, typename... Arguments>
void launch(const Launch& where, const Grid& grid, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  launch(where, grid.blocks(), grid.walk.threads(), kernel, grid.walk, grid.down,
         std::forward<Arguments>(arguments)...);
}

}  // namespace atl::cuda
