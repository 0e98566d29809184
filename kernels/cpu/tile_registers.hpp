// Tile registers (AMX): their sizes, and how they are set up for products of bf16.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/simd.hpp"
#endif

namespace atl {

// A tile has so many rows of 64 bytes: of a right factor, each holds pairs of rows of 16 columns.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileInner = 32;
inline constexpr std::int64_t kTileEntries = kTileRows * kTileInner;
// Two by two tiles of a result are summed at a time, from two of each factor.
inline constexpr std::int64_t kTilePair = 2 * kTileRows;

inline std::int64_t inner_tiles(std::int64_t inner) {
  return (inner + kTileInner - 1) / kTileInner;
}
inline std::int64_t tile_pairs(std::int64_t cols) { return (cols + kTilePair - 1) / kTilePair; }

#if defined(__x86_64__)

#define ATOLL_TILES \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

// Tiles 0 to 3 are of the result, 4 and 5 of the left factor, 6 and 7 of the right one.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// For `rows` rows of the left factor and the result, at most kTilePair. A tile without a row can't
// be: where the second of a factor has none, the caller gives it another one to read, and does not
// read what came of it.
ATOLL_TILES inline void configure_tiles(std::int64_t rows) {
  TileConfiguration tiles;
  const auto first = static_cast<std::uint8_t>(rows < kTileRows ? rows : kTileRows);
  const auto second = static_cast<std::uint8_t>(rows > kTileRows ? rows - kTileRows : 1);
  const std::uint8_t counts[8] = {first, first,  second,    second,
                                  first, second, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    tiles.row_bytes[t] = 64;
    tiles.rows[t] = counts[t];
  }
  asm volatile("" ::"m"(tiles));  // which _tile_loadconfig does not say
  _tile_loadconfig(&tiles);
}

// The intrinsics don't tell the compiler that they read memory.
ATOLL_INLINE inline void memory_is_read() { asm volatile("" ::: "memory"); }

#endif

}  // namespace atl
