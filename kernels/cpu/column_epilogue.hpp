// An epilogue with its factors as f32 arrays, and its loops over the columns of one row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/random_blocks.hpp"

namespace atl {

// y = drop(relu((x - mean) * scale + shift)) with one f32 factor per column.
struct ColumnEpilogue {
  const float* mean;
  const float* scale;
  const float* shift;
  bool relu;
  DropoutSpec dropout;  // with the key that counts now
};

inline constexpr std::int64_t kColumnFactors = 3;

// The factors are put into `memory`, of kColumnFactors * cols entries.
ColumnEpilogue column_epilogue(const Epilogue& epilogue, std::int64_t cols,
                               std::span<float> memory);

static_assert(std::endian::native == std::endian::little,
              "half-words of a random block are read from memory low half first");

inline constexpr int kDropLanes = 16;             // random blocks drawn at a time
inline constexpr std::int64_t kColsPerBlock = 8;  // half-words of one block
inline constexpr std::int64_t kColsPerDrop = kColsPerBlock * kDropLanes;

// y[j] = kept(first + j) ? y[j] * scale : 0 for columns [first, first + count) of the row of node
// `node`. first: a multiple of kColsPerBlock; count: at most kColsPerDrop.
ATOLL_INLINE inline void drop_columns(const DropoutSpec& dropout, std::uint64_t node,
                                      std::int64_t first, std::int64_t count, float* __restrict y) {
  const std::uint32_t threshold = dropout.rate.threshold;
  const float scale = dropout.rate.scale;
  std::uint32_t words[kColsPerDrop / 2];
  std::uint16_t halves[kColsPerDrop];
  const auto block = static_cast<std::uint32_t>(first / kColsPerBlock);
  if (count > 4 * kColsPerBlock) {
    draw_blocks<kDropLanes>(dropout.key, node, block, words);
  } else {
    draw_blocks<4>(dropout.key, node, block, words);
  }
  std::memcpy(halves, words, sizeof(halves));
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    y[j] = halves[j] < threshold ? y[j] * scale : 0.0F;
  }
}

// Without dropout.
template <typename From, typename To>
ATOLL_INLINE inline void affine_columns(const ColumnEpilogue& epilogue, std::int64_t first,
                                        std::int64_t count, const From* x, To* y) {
  const float* mean = epilogue.mean + first;
  const float* scale = epilogue.scale + first;
  const float* shift = epilogue.shift + first;
  // x may be y, element by element, so neither is restrict. NaN stays NaN.
  if (epilogue.relu) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      const float value = (load(x, j) - mean[j]) * scale[j] + shift[j];
      store(y, j, value < 0.0F ? 0.0F : value);
    }
  } else {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      store(y, j, (load(x, j) - mean[j]) * scale[j] + shift[j]);
    }
  }
}

// y = epilogue(x) for columns [first, first + count) of row i; x and y point to the first of them,
// a multiple of kColsPerBlock. y may be x. Rounds once.
template <typename From, typename To>
ATOLL_INLINE inline void finish_columns(const ColumnEpilogue& epilogue, std::int64_t i,
                                        std::int64_t first, std::int64_t count, const From* x,
                                        To* y) {
  const DropoutSpec& dropout = epilogue.dropout;
  if (!dropout.active()) return affine_columns(epilogue, first, count, x, y);
  const auto node = static_cast<std::uint64_t>(to_index(dropout.row_ids[i]));
  float values[kColsPerDrop];
  for (std::int64_t done = 0; done < count; done += kColsPerDrop) {
    const std::int64_t part = std::min(kColsPerDrop, count - done);
    float* const to = row_to_compute(y + done, values);
    affine_columns(epilogue, first + done, part, x + done, to);
    drop_columns(dropout, node, first + done, part, to);
    store_row(to, part, y + done);
  }
}

}  // namespace atl
