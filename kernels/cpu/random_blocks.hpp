// Random blocks for the lanes of vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/philox.hpp"
#include "kernels/cpu/simd.hpp"

namespace atl {

// Words of the random blocks first .. first + kCount - 1 of one row, in the order of columns:
// philox4x32 of base/philox.hpp, one block per vector lane. Words stand in lanes of 64 bits, as
// wide as their products, so that nothing moves between lanes before the end: with AVX-512 twice as
// fast as lanes of 32 bits, with AVX2 a tenth slower.
template <int kCount>
ATOLL_INLINE inline void draw_blocks(const RandomKey& key, std::uint64_t row, std::uint32_t first,
                                     std::uint32_t* words) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  const PhiloxBlock counter = philox_counter(key, row, first);
  std::uint64_t c0[kCount];
  std::uint64_t c1[kCount];
  std::uint64_t c2[kCount];
  std::uint64_t c3[kCount];
#pragma omp simd
  for (int lane = 0; lane < kCount; ++lane) {
    c0[lane] = counter[0] + static_cast<std::uint64_t>(lane);
    c1[lane] = counter[1];
    c2[lane] = counter[2];
    c3[lane] = counter[3];
  }
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32U);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kCount; ++lane) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c0[lane];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c2[lane];
      c0[lane] = (product1 >> 32U) ^ c1[lane] ^ key0;
      c1[lane] = product1 & kLow;
      c2[lane] = (product0 >> 32U) ^ c3[lane] ^ key1;
      c3[lane] = product0 & kLow;
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  std::uint64_t pairs[2 * kCount];
#pragma omp simd
  for (int lane = 0; lane < kCount; ++lane) {
    pairs[2 * lane] = c0[lane] | c1[lane] << 32U;
    pairs[2 * lane + 1] = c2[lane] | c3[lane] << 32U;
  }
  std::memcpy(words, pairs, sizeof(pairs));
}

}  // namespace atl
