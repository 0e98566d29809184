// Vectors of f32 as wide as an instruction set has them, loaded from and stored to f32 or bf16.
//
// For loops that must keep sums in registers, which a compiler that vectorises loops by itself does
// not promise. Everything here is inlined into functions of run_with_vectors (simd.hpp).
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/bf16.hpp"
#include "kernels/cpu/simd.hpp"

namespace atl {

// kBytes: 16 (SSE2), 32 (AVX2) or 64 (AVX-512).
template <int kBytes>
struct Vectors {
  static constexpr std::int64_t kLanes = kBytes / 4;
  // Written as typedefs: where the size depends on a template, GCC ignores it in alias
  // declarations.
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef std::uint32_t Words __attribute__((vector_size(kBytes)));
  typedef std::uint16_t Halves __attribute__((vector_size(kBytes / 2)));
  static_assert(sizeof(Floats) == kBytes && sizeof(Words) == kBytes &&
                2 * sizeof(Halves) == kBytes);
};

template <int kBytes>
ATOLL_INLINE inline void load_vector(const float* from, typename Vectors<kBytes>::Floats& vector) {
  std::memcpy(&vector, from, sizeof(vector));
}

template <int kBytes>
ATOLL_INLINE inline void load_vector(const Bf16* from, typename Vectors<kBytes>::Floats& vector) {
  typename Vectors<kBytes>::Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  const auto words = __builtin_convertvector(halves, typename Vectors<kBytes>::Words) << 16U;
  std::memcpy(&vector, &words, sizeof(vector));
}

template <int kBytes>
ATOLL_INLINE inline void store_vector(const typename Vectors<kBytes>::Floats& vector, float* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

// Rounds as to_bf16.
template <int kBytes>
ATOLL_INLINE inline void store_vector(const typename Vectors<kBytes>::Floats& vector, Bf16* to) {
  using Words = typename Vectors<kBytes>::Words;
  Words bits;
  std::memcpy(&bits, &vector, sizeof(bits));
  const Words rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const Words quiet = bits | 0x400000U;
  const auto is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const Words words = (is_nan ? quiet : rounded) >> 16U;
  const auto halves = __builtin_convertvector(words, typename Vectors<kBytes>::Halves);
  std::memcpy(static_cast<void*>(to), &halves, sizeof(halves));
}

}  // namespace atl
