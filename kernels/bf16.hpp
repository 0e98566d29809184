// bfloat16: the upper half of an f32, as storage.
#pragma once

#include <bit>
#include <cstdint>

namespace atl {

struct Bf16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

// Rounds to nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

}  // namespace atl
