// Standard normal numbers of a counter. Internal to datasets/.
#pragma once

#include <array>
#include <cmath>
#include <numbers>

#include "base/philox.hpp"

namespace atl {

// Four standard normal numbers from one block (Box, Muller, 1958).
inline std::array<float, 4> normals(const PhiloxBlock& bits) {
  std::array<float, 4> values;
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const float u = (static_cast<float>(bits[2 * pair] >> 8U) + 1) * 0x1p-24F;
    const float angle =
        2 * std::numbers::pi_v<float> * (static_cast<float>(bits[2 * pair + 1] >> 8U) * 0x1p-24F);
    const float radius = std::sqrt(-2 * std::log(u));
    values[2 * pair] = radius * std::cos(angle);
    values[2 * pair + 1] = radius * std::sin(angle);
  }
  return values;
}

}  // namespace atl
