// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11): a number is a pure function of (seed, stream, epoch, layer, row, column), so it
// does not depend on ranks, threads or backends. The bit layout of the counter is part of the file
// formats (docs/formats.md).
#pragma once

#include <array>
#include <cstdint>

namespace atl {

enum class RandomStream : std::uint8_t {
  kInit = 1,               // row, column of a weight; layer = index of the parameter
  kDropout = 2,            // row = global node id
  kInputDropout = 3,       // row = global node id
  kRoundForward = 4,       // row = global node id
  kRoundBackward = 5,      // row = global node id
  kSplit = 6,              // row = node
  kGenerator = 7,          // meaning of row and column: the generator's
  kPartition = 8,          // row = position in the permutation
  kMessageBits = 9,        // row = message of the sender, column = 2 * sender + direction
  kAttentionDropout = 10,  // see kernels/attention.hpp
  kLinkNegatives = 11,     // row = edge to be predicted, column = negative: see random_node
  kDecoderDropout = 12,  // row = pair: edge to be predicted times pairs of each, and which of them
  kMessageSample = 13,   // row = message of a pair of ranks, column = 2 * pair + direction
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// A backend whose compiler marks functions for its device defines this on its command line.
#ifndef ATOLL_HOST_DEVICE
#define ATOLL_HOST_DEVICE
#endif

// Ten rounds of Philox4x32 on one counter.
ATOLL_HOST_DEVICE constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// Identifies one random matrix: everything but row and column.
struct RandomKey {
  std::uint64_t seed = 0;
  RandomStream stream = RandomStream::kInit;
  std::uint8_t layer = 0;
  std::uint32_t epoch = 0;
};

// Counter of block `block` of row `row` (row < 2^48): see docs/formats.md.
ATOLL_HOST_DEVICE constexpr PhiloxBlock philox_counter(const RandomKey& key, std::uint64_t row,
                                                       std::uint32_t block) {
  return {block, key.epoch, static_cast<std::uint32_t>(row),
          static_cast<std::uint32_t>(row >> 32U) << 16U |
              static_cast<std::uint32_t>(key.layer) << 8U | static_cast<std::uint32_t>(key.stream)};
}

ATOLL_HOST_DEVICE constexpr PhiloxBlock random_block(const RandomKey& key, std::uint64_t row,
                                                     std::uint32_t block) {
  return philox4x32(philox_counter(key, row, block), key.seed);
}

// 32 random bits of (row, column): word column % 4 of block column / 4.
ATOLL_HOST_DEVICE constexpr std::uint32_t random_bits(const RandomKey& key, std::uint64_t row,
                                                      std::uint32_t column) {
  return random_block(key, row, column / 4)[column % 4];
}

// Uniform in [0, 1) with 24 bits, exact in f32.
ATOLL_HOST_DEVICE constexpr float random_uniform(const RandomKey& key, std::uint64_t row,
                                                 std::uint32_t column) {
  return static_cast<float>(random_bits(key, row, column) >> 8U) * 0x1p-24F;
}

// Uniform over nodes 0 .. nodes - 1, to 2^-32 of each one's share: 64 bits, words 2 (column % 2)
// and the next of block column / 2, the first one low, times the nodes, divided by 2^64.
ATOLL_HOST_DEVICE constexpr std::int64_t random_node(const RandomKey& key, std::uint64_t row,
                                                     std::uint32_t column, std::int64_t nodes) {
  const PhiloxBlock block = random_block(key, row, column / 2);
  const std::uint64_t low =
      std::uint64_t{block[column % 2 * 2]} * static_cast<std::uint64_t>(nodes);
  const std::uint64_t high =
      std::uint64_t{block[column % 2 * 2 + 1]} * static_cast<std::uint64_t>(nodes);
  return static_cast<std::int64_t>((high + (low >> 32U)) >> 32U);
}

// Dropout draws 16 bits per element: element (row, column) uses half-word column % 8 (low half
// first) of block column / 8 and is kept when its value is below `threshold`. A keep probability is
// thus rounded to a multiple of 2^-16 and the scale is the exact inverse of the rounded one, so the
// expectation is exact.
struct DropoutThreshold {
  std::uint32_t threshold;  // in 1 .. 65536; 65536 keeps everything
  float scale;              // 65536 / threshold
};
// drop_probability in [0, 1).
DropoutThreshold dropout_threshold(double drop_probability);

ATOLL_HOST_DEVICE constexpr std::uint32_t dropout_half_word(const PhiloxBlock& block,
                                                            std::uint32_t lane) {
  return (block[lane / 2] >> (16U * (lane % 2))) & 0xFFFFU;
}

ATOLL_HOST_DEVICE constexpr bool dropout_keeps(const RandomKey& key, std::uint64_t row,
                                               std::uint32_t column, std::uint32_t threshold) {
  return dropout_half_word(random_block(key, row, column / 8), column % 8) < threshold;
}

}  // namespace atl
