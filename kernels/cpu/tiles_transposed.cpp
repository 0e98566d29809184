// Rows of both matrices are packed as tiles, 128 at a time: those of b in pairs, those of a
// transposed. Each 32 by 32 of the result are then summed over these rows, while the next ones
// come from memory.
#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/bf16.hpp"
#include "kernels/cpu/tile_registers.hpp"
#include "kernels/cpu/tiles.hpp"

#if defined(__x86_64__)
#include "kernels/cpu/row_prefetch.hpp"
#endif

namespace atl {

namespace {

constexpr std::int64_t kPairSums = kTilePair * kTilePair;

// Packed at a time. With more, fewer sums are loaded and stored, but less of what is fetched ahead
// is still in the cache: 512 rows took 1.3 times as long. Fetching every second line only was
// slower.
constexpr std::int64_t kPackedRows = 128;

std::int64_t packed_entries(std::int64_t cols) {
  return tile_pairs(cols) * kTilePair * kPackedRows;
}

}  // namespace

bool transposes_in_tiles(std::int64_t a_cols, std::int64_t b_cols) {
  constexpr std::int64_t kMostSums = 3 << 16;  // 768 KB
  return tile_pairs(a_cols) * tile_pairs(b_cols) * kPairSums <= kMostSums && multiplies_in_tiles();
}

std::int64_t transposed_tiles_floats(std::int64_t a_cols, std::int64_t b_cols) {
  return tile_pairs(a_cols) * tile_pairs(b_cols) * kPairSums +
         (packed_entries(a_cols) + packed_entries(b_cols)) / 2;
}

#if defined(__x86_64__)

namespace {

// Up to 32 rows of up to 32 columns.
struct Corner {
  const Bf16* from;
  std::int64_t stride;
};

// The corner of `x` at (row, col), filled up with zeros in `memory` if it is not whole.
Corner whole_corner(ConstMatrixView x, std::int64_t row, std::int64_t col, Bf16* memory) {
  const std::int64_t rows = std::min(kTileInner, x.rows - row);
  const std::int64_t cols = std::min(kTilePair, x.cols - col);
  if (rows == kTileInner && cols == kTilePair) return {x.row<Bf16>(row) + col, x.stride};
  std::memset(static_cast<void*>(memory), 0, kTileInner * kTilePair * sizeof(Bf16));
  for (std::int64_t k = 0; k < rows; ++k) {
    std::memcpy(static_cast<void*>(memory + k * kTilePair), x.row<Bf16>(row + k) + col,
                static_cast<std::size_t>(cols) * sizeof(Bf16));
  }
  return {memory, kTilePair};
}

// Word (p, n) of a tile has entries (2 p, n) and (2 p + 1, n). Of eight groups of four columns the
// first tile has the even ones, the second one the odd ones: as one instruction puts them.
ATOLL_TILES void pack_pairs(const Corner& corner, Bf16* tiles) {
  for (std::int64_t p = 0; p < kTileRows; ++p) {
    const Bf16* const row = corner.from + 2 * p * corner.stride;
    const __m512i even = _mm512_loadu_si512(row);
    const __m512i odd = _mm512_loadu_si512(row + corner.stride);
    _mm512_storeu_si512(tiles + p * kTileInner, _mm512_unpacklo_epi16(even, odd));
    _mm512_storeu_si512(tiles + kTileEntries + p * kTileInner, _mm512_unpackhi_epi16(even, odd));
  }
}

// Eight columns of `corner` as rows of a tile. Each 128 bits of a register hold eight columns of
// one row before, and eight rows of one column afterwards.
ATOLL_TILES inline void transpose_eight(const Corner& corner, Bf16* rows) {
  __m512i x[8];
  __m512i y[8];
  const auto part = [&](std::int64_t k) ATOLL_INLINE {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(corner.from + k * corner.stride));
  };
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    x[k] = _mm512_castsi128_si512(part(k));
    x[k] = _mm512_inserti32x4(x[k], part(k + 8), 1);
    x[k] = _mm512_inserti32x4(x[k], part(k + 16), 2);
    x[k] = _mm512_inserti32x4(x[k], part(k + 24), 3);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 8; k += 2) {
    y[k] = _mm512_unpacklo_epi16(x[k], x[k + 1]);
    y[k + 1] = _mm512_unpackhi_epi16(x[k], x[k + 1]);
  }
#pragma GCC unroll 2
  for (int k = 0; k < 8; k += 4) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      x[k + 2 * half] = _mm512_maskz_unpacklo_epi32(0xFFFF, y[k + half], y[k + 2 + half]);
      x[k + 2 * half + 1] = _mm512_maskz_unpackhi_epi32(0xFFFF, y[k + half], y[k + 2 + half]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    _mm512_storeu_si512(rows + 2 * k * kTileInner,
                        _mm512_maskz_unpacklo_epi64(0xFF, x[k], x[k + 4]));
    _mm512_storeu_si512(rows + (2 * k + 1) * kTileInner,
                        _mm512_maskz_unpackhi_epi64(0xFF, x[k], x[k + 4]));
  }
}

ATOLL_TILES void pack_transposed(const Corner& corner, Bf16* tiles) {
  for (std::int64_t m = 0; m < kTilePair; m += 8) {
    transpose_eight({corner.from + m, corner.stride}, tiles + m * kTileInner);
  }
}

// x as pairs of tiles, those of the same columns one behind the other.
template <typename Pack>
void pack_columns(ConstMatrixView x, Bf16* tiles, const Pack& pack) {
  alignas(64) Bf16 corner[kTileInner * kTilePair];
  const std::int64_t panel = inner_tiles(x.rows) * 2 * kTileEntries;
  for (std::int64_t row = 0; row < x.rows; row += kTileInner) {
    Bf16* to = tiles + row / kTileInner * 2 * kTileEntries;
    for (std::int64_t col = 0; col < x.cols; col += kTilePair) {
      pack(whole_corner(x, row, col, corner), to);
      to += panel;
    }
  }
}

// sums (32 x 32, four tiles) += the rows packed in `a` times those in `b`; `add`: to what they are,
// else to zeros.
ATOLL_TILES void add_pair(const Bf16* a, const Bf16* b, std::int64_t inner, bool add, RowsAhead& x,
                          RowsAhead& y, float* sums) {
  constexpr std::int64_t kTileSums = kTileRows * kTileRows;
  memory_is_read();
  if (add) {
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + kTileSums, 64);
    _tile_loadd(2, sums + 2 * kTileSums, 64);
    _tile_loadd(3, sums + 3 * kTileSums, 64);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < inner; ++k) {
    x.fetch();
    y.fetch();
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTileEntries, 64);
    _tile_loadd(5, a + kTileEntries, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += 2 * kTileEntries;
    b += 2 * kTileEntries;
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTileSums, 64);
  _tile_stored(2, sums + 2 * kTileSums, 64);
  _tile_stored(3, sums + 3 * kTileSums, 64);
}

// The sums from (m, n) on as part of c, its columns in their order again: see pack_pairs.
ATOLL_TILES void store_pair(const float* sums, std::int64_t m, std::int64_t n, MatrixView c) {
  const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const std::int64_t rows = std::min(kTilePair, c.rows - m);
  const std::int64_t cols = std::min(kTilePair, c.cols - n);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* const from = sums + (i / kTileRows * kTilePair + i % kTileRows) * kTileRows;
    const __m512 even = _mm512_loadu_ps(from);
    const __m512 odd = _mm512_loadu_ps(from + kTileRows * kTileRows);
    float row[kTilePair];
    _mm512_storeu_ps(row, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(row + kTileRows, _mm512_permutex2var_ps(even, second, odd));
    std::copy(row, row + cols, c.row<float>(m + i) + n);
  }
}

}  // namespace

ATOLL_TILES void multiply_transposed_tiles(ConstMatrixView a, ConstMatrixView b, float* memory,
                                           MatrixView c) {
  ATOLL_ASSERT(c.dtype == DType::kF32 && a.rows == b.rows);
  const std::int64_t b_pairs = tile_pairs(b.cols);
  const std::int64_t pairs = tile_pairs(a.cols) * b_pairs;
  float* const sums = memory;
  auto* const a_tiles = reinterpret_cast<Bf16*>(sums + pairs * kPairSums);
  Bf16* const b_tiles = a_tiles + packed_entries(a.cols);
  configure_tiles(kTilePair);
  // Once also where there is no row: the sums are zeros then.
  for (std::int64_t begin = 0; begin == 0 || begin < a.rows; begin += kPackedRows) {
    const RowRange rows{begin, std::min(begin + kPackedRows, a.rows)};
    const RowRange next{rows.end, std::min(rows.end + kPackedRows, a.rows)};
    const std::int64_t inner = inner_tiles(rows.size());
    const std::int64_t panel = inner * 2 * kTileEntries;
    const std::int64_t steps = std::max<std::int64_t>(1, pairs * inner);
    pack_columns(a.rows_in(rows), a_tiles, pack_transposed);
    pack_columns(b.rows_in(rows), b_tiles, pack_pairs);
    RowsAhead a_ahead(a.rows_in(next), steps);
    RowsAhead b_ahead(b.rows_in(next), steps);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      add_pair(a_tiles + pair / b_pairs * panel, b_tiles + pair % b_pairs * panel, inner, begin > 0,
               a_ahead, b_ahead, sums + pair * kPairSums);
    }
  }
  _tile_release();
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    store_pair(sums + pair * kPairSums, pair / b_pairs * kTilePair, pair % b_pairs * kTilePair, c);
  }
}

#else

void multiply_transposed_tiles(ConstMatrixView, ConstMatrixView, float*, MatrixView) {
  ATOLL_ASSERT(multiplies_in_tiles());
}

#endif

}  // namespace atl
