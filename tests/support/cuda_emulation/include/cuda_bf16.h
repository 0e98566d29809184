// bfloat16 numbers with CUDA's names and rounding; stands in for the toolkit's header.
#pragma once

#include <bit>
#include <cstdint>

#include "vector_types.h"

struct alignas(2) __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

// To the nearest, ties to even; every NaN becomes 0x7fff.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  if ((wide & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }
inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) {
  return __floats2bfloat162_rn(value.x, value.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 value) {
  return {__bfloat162float(value.x), __bfloat162float(value.y)};
}
inline float __low2float(__nv_bfloat162 value) { return __bfloat162float(value.x); }
inline float __high2float(__nv_bfloat162 value) { return __bfloat162float(value.y); }
inline std::uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(std::uint16_t bits) { return {bits}; }
