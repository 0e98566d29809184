// An epilogue with its factors as f32 arrays, and its loops over the columns of one row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "kernels/cpu/activation.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/random_blocks.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

// y = drop(f((x - mean) * scale + shift)) with one f32 factor per column.
struct ColumnEpilogue {
  const float* mean;
  const float* scale;
  const float* shift;
  ActivationFunction function;
  DropoutSpec dropout;  // with the key that counts now

  // True of a function that is neither none nor relu.
  bool curved() const {
    return function != ActivationFunction::kNone && function != ActivationFunction::kRelu;
  }
};

inline constexpr std::int64_t kColumnFactors = 3;

// The factors are put into `memory`, of kColumnFactors * cols entries.
ColumnEpilogue column_epilogue(const Epilogue& epilogue, std::int64_t cols,
                               std::span<float> memory);

static_assert(std::endian::native == std::endian::little,
              "half-words of a random block are read from memory low half first");

inline constexpr std::int64_t kColsPerBlock = 8;  // half-words of one block
// Columns whose random blocks are drawn at a time: four vectors, if there are the registers, or
// two.
template <int kBytes>
inline constexpr std::int64_t kColsPerDrop = (kBytes == 64 ? 4 : 2) * kBytes;

// halves[j] = the half-word of column first + j of the row of node `node`, j < count at least.
// first: a multiple of kColsPerBlock; count: at most kColsPerDrop.
template <int kBytes>
ATOLL_INLINE inline void draw_halves(const RandomKey& key, std::uint64_t node, std::int64_t first,
                                     std::int64_t count, std::uint16_t* halves) {
  const auto block = static_cast<std::uint32_t>(first / kColsPerBlock);
  if constexpr (kColsPerDrop<kBytes> == 4 * kBytes) {
    if (count > 2 * kBytes) return draw_vectors<kBytes, 4>(key, node, block, halves);
  }
  if (count > kBytes) {
    draw_vectors<kBytes, 2>(key, node, block, halves);
  } else {
    draw_vectors<kBytes, 1>(key, node, block, halves);
  }
}

// y = epilogue(x) for columns [first, first + count) of a row; x and y point to column 0 of it and
// may be the same. With kDrop `halves` belong to the columns from `first` on. kCurved: the function
// is neither none nor relu. Rounds once.
template <int kBytes, bool kCurved, bool kDrop, typename From, typename To>
ATOLL_INLINE inline void finish_columns(const ColumnEpilogue& epilogue, std::int64_t first,
                                        std::int64_t count, const std::uint16_t* halves,
                                        const From* x, To* y) {
  const float* const mean = epilogue.mean;
  const float* const scale = epilogue.scale;
  const float* const shift = epilogue.shift;
  const ActivationFunction function = epilogue.function;
  // NaN is not below anything and stays NaN.
  const float least =
      function == ActivationFunction::kRelu ? 0.0F : -std::numeric_limits<float>::infinity();
  const std::uint32_t threshold = kDrop ? epilogue.dropout.rate.threshold : 0;
  const float kept = kDrop ? epilogue.dropout.rate.scale : 1.0F;
  for_columns<kBytes>(first, first + count, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
    using Columns = Pair<kUnit>;
    typename Columns::Floats values[2];
    typename Columns::Floats means[2];
    typename Columns::Floats scales[2];
    typename Columns::Floats shifts[2];
    Columns::load(x + j, part, values);
    Columns::load(mean + j, part, means);
    Columns::load(scale + j, part, scales);
    Columns::load(shift + j, part, shifts);
    const typename Columns::Floats low = typename Columns::Floats{} + least;
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      values[r] = (values[r] - means[r]) * scales[r] + shifts[r];
      if constexpr (kCurved) {
        activate<kUnit>(function, values[r]);
      } else {
        values[r] = values[r] < low ? low : values[r];
      }
      if constexpr (kDrop) values[r] *= kept;
    }
    if constexpr (!kDrop) {
      Columns::store(values, part, y + j);
    } else if constexpr (std::is_same_v<To, Bf16>) {
      // All halves at once: of less than all columns those behind the last are drawn, too.
      typename Columns::HalfWords bits;
      typename Columns::HalfWords drawn;
      Columns::round(values, bits);
      std::memcpy(&drawn, halves + (j - first), kUnit);
      bits = drawn < static_cast<std::uint16_t>(threshold) ? bits : typename Columns::HalfWords{};
      Columns::store_bits(bits, part, y + j);
    } else {
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        typename Columns::Words words;
        Columns::load_words(halves + (j - first) + r * Columns::kLanes, words);
        values[r] = words < threshold ? values[r] : typename Columns::Floats{};
      }
      Columns::store(values, part, y + j);
    }
  });
}

// y = epilogue(x) for row i; kCurved: as of finish_columns().
template <int kBytes, bool kCurved, typename From, typename To>
ATOLL_INLINE inline void finish_row(const ColumnEpilogue& epilogue, std::int64_t i,
                                    std::int64_t cols, const From* x, To* y) {
  const DropoutSpec& dropout = epilogue.dropout;
  if (!dropout.active()) {
    return finish_columns<kBytes, kCurved, false>(epilogue, 0, cols, nullptr, x, y);
  }
  const auto node = static_cast<std::uint64_t>(to_index(dropout.row_ids[i]));
  std::uint16_t halves[kColsPerDrop<kBytes>];
  for (std::int64_t first = 0; first < cols; first += kColsPerDrop<kBytes>) {
    const std::int64_t count = std::min(kColsPerDrop<kBytes>, cols - first);
    draw_halves<kBytes>(dropout.key, node, first, count, halves);
    finish_columns<kBytes, kCurved, true>(epilogue, first, count, halves, x, y);
  }
}

}  // namespace atl
