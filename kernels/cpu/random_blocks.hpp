// Random blocks for the lanes of vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/philox.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/vectors.hpp"

namespace atl {

// product = the lower 32 bits of each lane of a times factor, which has no more.
template <int kBytes>
ATOLL_INLINE inline void multiply_lower(const typename Vectors<kBytes>::LongWords& a,
                                        std::uint64_t factor,
                                        typename Vectors<kBytes>::LongWords& product) {
  using LongWords = typename Vectors<kBytes>::LongWords;
  // One instruction that no expression stands for to GCC, which multiplies 64 by 64 bits, with
  // three of them before AVX-512 and with a slower one from there on.
  const LongWords factors = LongWords{} + factor;
  if constexpr (kInstructionsByName && kBytes == 16) {
    asm("pmuludq %2, %0" : "=x"(product) : "0"(a), "x"(factors));
  } else if constexpr (kInstructionsByName) {
    asm("vpmuludq %2, %1, %0" : "=v"(product) : "v"(a), "v"(factors));
  } else {
    product = (a & std::uint64_t{0xFFFFFFFFU}) * factors;
  }
}

// Words of the random blocks first, first + 1, ... of one row, kVectors * kBytes / 8 of them, in
// the order of columns: philox4x32 of base/philox.hpp. Each block has its own lanes of 64 bits, as
// wide as products, so that nothing moves between lanes before the end, and all stay in registers
// over the rounds. Upper halves are never cleared, for a product does not see them. Of the counters
// only the first word differs between blocks, so that half of two rounds is done once for all.
template <int kBytes, int kVectors>
ATOLL_INLINE inline void draw_vectors(const RandomKey& key, std::uint64_t row, std::uint32_t first,
                                      void* words) {
  using LongWords = typename Vectors<kBytes>::LongWords;
  constexpr int kLanes = kBytes / 8;
  constexpr std::uint64_t kFactor0 = 0xD2511F53U;
  constexpr std::uint64_t kFactor1 = 0xCD9E8D57U;
  constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  const auto key0 = [&](std::uint64_t round)
                        ATOLL_INLINE { return (key.seed + round * 0x9E3779B9U) & kLow; };
  const auto key1 = [&](std::uint64_t round)
                        ATOLL_INLINE { return ((key.seed >> 32U) + round * 0xBB67AE85U) & kLow; };
  // Even lanes have the blocks of the first half of what a vector stores, odd ones of the second:
  // interleaving the words of two vectors, which does not cross 16 bytes, puts them in order.
  LongWords lane;
  for (int k = 0; k < kLanes; ++k) {
    lane[k] = static_cast<std::uint64_t>(k / 2 + k % 2 * (kLanes / 2));
  }
  const PhiloxBlock counter = philox_counter(key, row, first);
  // Words of all blocks: the first two after one round, the last after two.
  const std::uint64_t common1 = kFactor1 * counter[2];
  const std::uint64_t common0 = kFactor0 * ((common1 >> 32U) ^ counter[1] ^ key0(0));
  LongWords c0[kVectors];
  LongWords c1[kVectors];
  LongWords c2[kVectors];
  LongWords c3[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    LongWords product0;
    LongWords product1;
    multiply_lower<kBytes>(lane + (counter[0] + static_cast<std::uint64_t>(v * kLanes)), kFactor0,
                           product0);
    multiply_lower<kBytes>((product0 >> 32U) ^ (counter[3] ^ key1(0)), kFactor1, product1);
    c0[v] = (product1 >> 32U) ^ ((common1 & kLow) ^ key0(1));
    c2[v] = product0 ^ ((common0 >> 32U) ^ key1(1));
    multiply_lower<kBytes>(c0[v], kFactor0, product0);
    c1[v] = product1;
    multiply_lower<kBytes>(c2[v], kFactor1, product1);
    c0[v] = (product1 >> 32U) ^ c1[v] ^ key0(2);
    c1[v] = product1;
    c2[v] = (product0 >> 32U) ^ ((common0 & kLow) ^ key1(2));
    c3[v] = product0;
  }
#pragma GCC unroll 10
  for (std::uint64_t round = 3; round < 10; ++round) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      LongWords product0;
      LongWords product1;
      multiply_lower<kBytes>(c0[v], kFactor0, product0);
      multiply_lower<kBytes>(c2[v], kFactor1, product1);
      c0[v] = (product1 >> 32U) ^ c1[v] ^ key0(round);
      c1[v] = product1;
      c2[v] = (product0 >> 32U) ^ c3[v] ^ key1(round);
      c3[v] = product0;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const LongWords upper = (c0[v] & kLow) | (c1[v] << 32U);
    const LongWords lower = (c2[v] & kLow) | (c3[v] << 32U);
    LongWords stored0;
    LongWords stored1;
    shuffle(
        upper, lower, [](int k) { return k % 2 == 0 ? k : kLanes + k - 1; }, stored0);
    shuffle(
        upper, lower, [](int k) { return k % 2 == 0 ? k + 1 : kLanes + k; }, stored1);
    std::memcpy(static_cast<char*>(words) + (2 * v) * kBytes, &stored0, kBytes);
    std::memcpy(static_cast<char*>(words) + (2 * v + 1) * kBytes, &stored1, kBytes);
  }
}

}  // namespace atl
