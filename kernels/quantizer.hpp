// The arithmetic of the quantizer (kernels/wire.hpp) on a whole row, shared by the tuned backends:
// extremes, zero, range and step.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/philox.hpp"
#include "kernels/bf16.hpp"

namespace atl {

// An integer that orders floats as numbers are ordered, -0 before 0 and NaN beyond the infinities:
// extremes of integers depend on no order of comparison, and show NaN without a test of their own.
ATOLL_HOST_DEVICE constexpr std::int32_t order_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 31) >> 1U);
}
ATOLL_HOST_DEVICE constexpr float of_order_key(std::int32_t key) {
  return std::bit_cast<float>(
      key ^ static_cast<std::int32_t>(static_cast<std::uint32_t>(key >> 31) >> 1U));
}

ATOLL_HOST_DEVICE constexpr bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7F800000U) != 0x7F800000U;
}
ATOLL_HOST_DEVICE constexpr bool is_finite(Bf16 value) { return (value.bits & 0x7F80U) != 0x7F80U; }

// A bad row has zero 0 and range NaN, of which step_of makes 0, and so codes of 0.
struct QuantizerRange {
  Bf16 zero;
  float range = std::numeric_limits<float>::quiet_NaN();
  bool bad = true;
};

// least and most: of the scaled row; may be anything.
ATOLL_HOST_DEVICE constexpr QuantizerRange quantizer_range(float least, float most) {
  if (!is_finite(least) || !is_finite(most)) return {};
  // Sums with 0 have no negative zeros, whose bytes would depend on which zero was seen first.
  const Bf16 zero = to_bf16_down(least + 0.0F);
  const float range = (most + 0.0F) - to_float(zero);
  // The top code stands for at most range (1 + 2^-7), because step was rounded up; twice that is
  // allowed for, so that neither the product of code and step nor the sum can overflow.
  const float reach = range + range * 0x1p-6F;
  if (!is_finite(zero) || !is_finite(to_bf16_up(reach)) ||
      !is_finite(to_bf16_up(to_float(zero) + reach))) {
    return {};
  }
  return {zero, range, false};
}

// bits below 32.
ATOLL_HOST_DEVICE constexpr Bf16 step_of(const QuantizerRange& row, int bits) {
  if (row.bad) return {};
  return to_bf16_up(row.range / static_cast<float>((1U << static_cast<unsigned>(bits)) - 1U));
}

// Codes of a message stand for zero + code * step.
struct QuantizerLevels {
  Bf16 zero;
  Bf16 step;
};

// Rounding to the nearest: a value in steps of 16 bits above zero.
ATOLL_HOST_DEVICE constexpr std::int32_t nearest_place(float value, float zero, float step) {
  if (!(step > 0)) return 0;
  const auto place = static_cast<std::int32_t>((value - zero) / step + 0.5F);
  return place < 0xFFFF ? place : 0xFFFF;
}

// Sums over a row's `count` places: all, and those above the mean of all.
struct PlaceSums {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::int64_t above = 0;
  std::int64_t sum_above = 0;

  ATOLL_HOST_DEVICE constexpr std::int64_t mean() const { return sum / count; }
};

// bits below 32. Products are of a bf16 and at most 16 bits, so exact in double: whether a compiler
// joins them to the sums makes no difference.
ATOLL_HOST_DEVICE constexpr QuantizerLevels nearest_levels(const QuantizerRange& row, int bits,
                                                           const PlaceSums& places) {
  if (row.bad || bits > 4) return {row.zero, step_of(row, bits)};
  const int between = bits == 4 ? 5 : 1;
  const int below = bits == 1 ? 0 : between;
  const std::int64_t low = (places.sum - places.sum_above) / (places.count - places.above);
  const std::int64_t high = places.above > 0 ? places.sum_above / places.above : low;
  const auto unit = static_cast<double>(to_float(step_of(row, 16)));
  const Bf16 step = to_bf16(static_cast<float>(static_cast<double>(high - low) * unit / between));
  const double lowest = static_cast<double>(to_float(row.zero)) + static_cast<double>(low) * unit;
  const Bf16 zero =
      to_bf16(static_cast<float>(lowest - below * static_cast<double>(to_float(step))));
  // Codes beyond the two means stand for numbers beyond the row's.
  const double most =
      static_cast<double>(to_float(zero)) + ((1 << bits) - 1) * static_cast<double>(to_float(step));
  const double reach = static_cast<double>(row.range) + below * static_cast<double>(to_float(step));
  if (!is_finite(zero) || !is_finite(static_cast<float>(most)) ||
      !is_finite(static_cast<float>(reach)) ||
      !is_finite(static_cast<float>(most - static_cast<double>(to_float(zero))))) {
    return {row.zero, step_of(row, bits)};
  }
  return {zero, step};
}

// Zero and step as the first word of a message.
ATOLL_HOST_DEVICE constexpr std::uint32_t metadata_word(Bf16 zero, Bf16 step) {
  return static_cast<std::uint32_t>(zero.bits) | static_cast<std::uint32_t>(step.bits) << 16U;
}

}  // namespace atl
