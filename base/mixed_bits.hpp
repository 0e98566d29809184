// A hash of numbers, for orders and choices that are to look random and be the same everywhere.
#pragma once

#include <cstdint>

namespace atl {

// 64 bits that look random, others for each x (splitmix64; Steele, Lea and Flood, OOPSLA 2014).
inline std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t x) {
  x = (seed + 1) * 0x9E3779B97F4A7C15U + x;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

}  // namespace atl
