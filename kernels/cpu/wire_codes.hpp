// Codes of messages below 8 bits in memory: a byte each while they are computed, packed on the
// wire.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/simd.hpp"
#include "kernels/wire.hpp"

namespace atl {

static_assert(std::endian::native == std::endian::little, "codes are little-endian");

// Columns worked on at once: what belongs to them stays in the first cache, and their codes fill
// whole words at every width.
inline constexpr std::int64_t kWireTile = 256;
inline constexpr std::int64_t kWireUnit = 64;  // of them, in vectors

// Eight codes of kBits bits, one per byte, moved together; and back.
template <int kBits>
ATOLL_INLINE inline std::uint64_t join_codes(std::uint64_t codes) {
  if constexpr (kBits == 1) {
    codes = (codes | codes >> 7U) & 0x0003000300030003U;
    codes = (codes | codes >> 14U) & 0x0000000F0000000FU;
    return (codes | codes >> 28U) & 0xFFU;
  } else if constexpr (kBits == 2) {
    codes = (codes | codes >> 6U) & 0x000F000F000F000FU;
    codes = (codes | codes >> 12U) & 0x000000FF000000FFU;
    return (codes | codes >> 24U) & 0xFFFFU;
  } else {
    codes = (codes | codes >> 4U) & 0x00FF00FF00FF00FFU;
    codes = (codes | codes >> 8U) & 0x0000FFFF0000FFFFU;
    return (codes | codes >> 16U) & 0xFFFFFFFFU;
  }
}
template <int kBits>
ATOLL_INLINE inline std::uint64_t part_codes(std::uint64_t codes) {
  if constexpr (kBits == 1) {
    codes = (codes | codes << 28U) & 0x0000000F0000000FU;
    codes = (codes | codes << 14U) & 0x0003000300030003U;
    return (codes | codes << 7U) & 0x0101010101010101U;
  } else if constexpr (kBits == 2) {
    codes = (codes | codes << 24U) & 0x000000FF000000FFU;
    codes = (codes | codes << 12U) & 0x000F000F000F000FU;
    return (codes | codes << 6U) & 0x0303030303030303U;
  } else {
    codes = (codes | codes << 16U) & 0x0000FFFF0000FFFFU;
    codes = (codes | codes << 8U) & 0x00FF00FF00FF00FFU;
    return (codes | codes << 4U) & 0x0F0F0F0F0F0F0F0FU;
  }
}

// Eight codes of kBits bits.
template <int kBits>
using Eight = std::conditional_t<kBits == 1, std::uint8_t,
                                 std::conditional_t<kBits == 2, std::uint16_t, std::uint32_t>>;

// Bytes that hold the codes of `count` columns of one tile, filled up to words.
constexpr std::size_t tile_bytes(int bits, std::int64_t count) {
  return static_cast<std::size_t>(wire_code_bytes(bits, count));
}

template <int kBits>
ATOLL_INLINE inline void pack_units(const std::uint8_t* codes, std::int64_t units,
                                    std::byte* packed) {
  std::uint64_t apart[kWireTile / 8];
  Eight<kBits> joined[kWireTile / 8];
  std::memcpy(apart, codes, sizeof(apart));
  for (std::int64_t k = 0; k < units * (kWireUnit / 8); ++k) {
    joined[k] = static_cast<Eight<kBits>>(join_codes<kBits>(apart[k]));
  }
  std::memcpy(packed, joined, sizeof(joined));
}

template <int kBits>
ATOLL_INLINE inline void unpack_tile(const std::byte* packed, std::int64_t count,
                                     std::uint8_t* codes) {
  Eight<kBits> joined[kWireTile / 8] = {};
  std::uint64_t apart[kWireTile / 8];
  std::memcpy(joined, packed, tile_bytes(kBits, count));
  for (std::int64_t k = 0; k < kWireTile / 8; ++k) apart[k] = part_codes<kBits>(joined[k]);
  std::memcpy(codes, apart, sizeof(apart));
}

}  // namespace atl
