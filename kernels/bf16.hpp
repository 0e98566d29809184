// bfloat16: the upper half of an f32, as storage; and the choice of a storage type at run time.
#pragma once

#include <bit>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/views.hpp"

namespace atl {

struct Bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

// Rounds to nearest, ties to even; NaN stays NaN. Integer arithmetic, on every machine: AVX512-BF16
// flushes subnormal numbers to zero, and messages would depend on the processor.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

// The nearest bf16 number away from zero if `away`, else towards it; NaN stays NaN.
constexpr Bf16 to_bf16_directed(float value, bool away) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return to_bf16(value);
  return {static_cast<std::uint16_t>((bits + (away ? 0xFFFFU : 0U)) >> 16U)};
}

// The greatest bf16 number that is not above `value`: -infinity below the least finite one.
constexpr Bf16 to_bf16_down(float value) {
  return to_bf16_directed(value, std::bit_cast<std::uint32_t>(value) >> 31U != 0);
}

// The least bf16 number that is not below `value`: infinity above the greatest finite one.
constexpr Bf16 to_bf16_up(float value) {
  return to_bf16_directed(value, std::bit_cast<std::uint32_t>(value) >> 31U == 0);
}

// Calls body(float{}) or body(Bf16{}).
template <typename Body>
void with_element(DType dtype, const Body& body) {
  if (dtype == DType::kBf16) return body(Bf16{});
  ATOLL_ASSERT(dtype == DType::kF32, "dtype {}", static_cast<int>(dtype));
  body(float{});
}

}  // namespace atl
