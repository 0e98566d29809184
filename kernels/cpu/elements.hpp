// Rows of f32 or bf16 in loops that are written once: elements are read as f32, and rounded once
// when they are stored.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/vectors.hpp"
#include "kernels/views.hpp"

namespace atl {

// run_vectorised of body(float{}) or body(Bf16{}).
template <typename Body>
void run_vectorised(Isa isa, DType dtype, const Body& body) {
  with_element(dtype,
               [&](auto element) { run_vectorised(isa, [&]() ATOLL_INLINE { body(element); }); });
}

// run_with_vectors of body.template operator()<kBytes>(float{}) or (Bf16{}).
template <typename Body>
void run_with_vectors(Isa isa, DType dtype, const Body& body) {
  with_element(dtype, [&](auto element) {
    run_with_vectors(isa,
                     [&]<int kBytes>() ATOLL_INLINE { body.template operator()<kBytes>(element); });
  });
}

ATOLL_INLINE inline float load(const float* row, std::int64_t j) { return row[j]; }
ATOLL_INLINE inline float load(const Bf16* row, std::int64_t j) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(row[j].bits) << 16U);
}

ATOLL_INLINE inline void store(float* row, std::int64_t j, float value) { row[j] = value; }
// to_bf16 without a branch and in lanes of 32 bits. The instruction for it (vcvtneps2bf16) makes
// zeros of subnormal numbers, which no other backend does.
ATOLL_INLINE inline void store(Bf16* row, std::int64_t j, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = bits + 0x7FFFU + (bits >> 16U & 1U);
  const std::uint32_t quiet = bits | 0x400000U;
  row[j].bits = static_cast<std::uint16_t>((std::isnan(value) ? quiet : nearest) >> 16U);
}

template <typename From, typename To>
ATOLL_INLINE inline void convert_row(const From* __restrict x, std::int64_t cols,
                                     To* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < cols; ++j) store(y, j, load(x, j));
}

// `count` rows of f32 that start on lines of the cache: vectors that cross lines are slow, the more
// so where they are read soon after they were written.
class WideRows {
 public:
  WideRows(std::int64_t count, std::int64_t cols)
      : stride_((cols + kLine - 1) / kLine * kLine),
        memory_(static_cast<std::size_t>(count * stride_ + kLine)) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float);
    first_ = memory_.data() + (kLine - address % kLine) % kLine;
  }
  WideRows(const WideRows&) = delete;
  WideRows& operator=(const WideRows&) = delete;

  float* row(std::int64_t k) { return first_ + k * stride_; }

 private:
  static constexpr std::int64_t kLine = 16;  // floats

  std::int64_t stride_;
  std::vector<float> memory_;
  float* first_;
};

// For loops over a row in f32 that read it several times, or mix it with wider types, which costs
// more than converting it once.
// The row itself, or a copy in `memory`, a row of WideRows.
template <int kBytes>
ATOLL_INLINE inline const float* wide_row(const float* row, std::int64_t, float*) {
  return row;
}
template <int kBytes>
ATOLL_INLINE inline const float* wide_row(const Bf16* row, std::int64_t cols, float* memory) {
  convert_columns<kBytes>(row, cols, memory);
  return memory;
}
// Where to compute f32 numbers for `row`, which store_row then brings there.
ATOLL_INLINE inline float* row_to_compute(float* row, float*) { return row; }
ATOLL_INLINE inline float* row_to_compute(Bf16*, float* memory) { return memory; }
template <int kBytes>
ATOLL_INLINE inline void store_row(const float*, std::int64_t, float*) {}
template <int kBytes>
ATOLL_INLINE inline void store_row(const float* memory, std::int64_t cols, Bf16* row) {
  convert_columns<kBytes>(memory, cols, row);
}

// y = x in the type of y, by the calling thread.
void convert_rows(Isa isa, ConstMatrixView x, MatrixView y);

}  // namespace atl
