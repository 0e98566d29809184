// Vectors of f32 as wide as an instruction set has them, loaded from and stored to rows of f32 or
// bf16.
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
  static_assert(sizeof(Floats) == kBytes && sizeof(Words) == kBytes);
};

// As many columns of a row of T as one vector register holds in memory, as kRegisters of f32.
template <int kBytes, typename T>
struct Unit;

template <int kBytes>
struct Unit<kBytes, float> {
  using Floats = typename Vectors<kBytes>::Floats;
  static constexpr int kRegisters = 1;
  static constexpr std::int64_t kColumns = Vectors<kBytes>::kLanes;

  static ATOLL_INLINE void load(const float* from, Floats* registers) {
    std::memcpy(registers, from, kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, float* to) {
    std::memcpy(to, registers, kBytes);
  }
};

// The first register holds the even columns, the second the odd ones: so both are one operation
// away from what is in memory.
template <int kBytes>
struct Unit<kBytes, Bf16> {
  using Floats = typename Vectors<kBytes>::Floats;
  using Words = typename Vectors<kBytes>::Words;
  static constexpr int kRegisters = 2;
  static constexpr std::int64_t kLanes = Vectors<kBytes>::kLanes;
  static constexpr std::int64_t kColumns = 2 * kLanes;

  static ATOLL_INLINE void load(const Bf16* from, Floats* registers) {
    Words pairs;
    std::memcpy(&pairs, from, kBytes);
    const Words even = pairs << 16U;
    const Words odd = pairs & 0xFFFF0000U;
    std::memcpy(&registers[0], &even, kBytes);
    std::memcpy(&registers[1], &odd, kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, Bf16* to) {
    Words even;
    Words odd;
    round(registers[0], even);
    round(registers[1], odd);
    const Words pairs = (even >> 16U) | (odd & 0xFFFF0000U);
    std::memcpy(static_cast<void*>(to), &pairs, kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, float* to) {
    Words low;
    Words high;
    constexpr auto kCount = static_cast<std::uint32_t>(kLanes);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      low[i] = i / 2 + (i % 2) * kCount;
      high[i] = low[i] + kCount / 2;
    }
    const Floats first = __builtin_shuffle(registers[0], registers[1], low);
    const Floats second = __builtin_shuffle(registers[0], registers[1], high);
    std::memcpy(to, &first, kBytes);
    std::memcpy(to + kLanes, &second, kBytes);
  }

 private:
  // As to_bf16, into the upper halves of `bits`.
  static ATOLL_INLINE void round(const Floats& values, Words& bits) {
    std::memcpy(&bits, &values, kBytes);
    const Words rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
    const Words quiet = bits | 0x400000U;
    const auto is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    bits = is_nan ? quiet : rounded;
  }
};

}  // namespace atl
