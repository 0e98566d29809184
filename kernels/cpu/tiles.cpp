#include "kernels/cpu/tiles.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/tile_registers.hpp"

#if defined(__x86_64__)
#include <dnnl.hpp>

#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#endif

namespace atl {

std::int64_t tiled_entries(std::int64_t inner, std::int64_t cols) {
  return inner_tiles(inner) * 2 * tile_pairs(cols) * kTileEntries;
}

namespace {

// Part of op(b): entry (k, n) at from[k * along + n * across].
struct TileSource {
  const Bf16* from;
  std::int64_t along;
  std::int64_t across;
  std::int64_t inner;  // kTileInner and kTileRows, or fewer at the edges
  std::int64_t cols;
};

// Word (p, n) of a tile has entries (2 p, n) and (2 p + 1, n).
void store_tile(const TileSource& source, std::uint32_t* words) {
  const Bf16* const from = source.from;
  const std::int64_t along = source.along;
  const std::int64_t across = source.across;
  if (source.inner < kTileInner || source.cols < kTileRows) {
    const auto entry = [&](std::int64_t k, std::int64_t n) {
      const bool there = k < source.inner && n < source.cols;
      return std::uint32_t{there ? from[k * along + n * across].bits : Bf16{}.bits};
    };
    for (std::int64_t k = 0; k < kTileInner; k += 2) {
      for (std::int64_t n = 0; n < kTileRows; ++n) *words++ = entry(k, n) | entry(k + 1, n) << 16U;
    }
  } else if (along == 1) {
    for (std::int64_t n = 0; n < kTileRows; ++n) {
      for (std::int64_t p = 0; p < kTileRows; ++p) {
        std::memcpy(words + p * kTileRows + n, from + n * across + 2 * p, sizeof(*words));
      }
    }
  } else {
    for (std::int64_t p = 0; p < kTileRows; ++p) {
      const Bf16* const lower = from + 2 * p * along;
      const Bf16* const upper = lower + along;
      for (std::int64_t n = 0; n < kTileRows; ++n) {
        words[p * kTileRows + n] = lower[n].bits | std::uint32_t{upper[n].bits} << 16U;
      }
    }
  }
}

}  // namespace

// Tiles of the same 16 columns lie one behind the other.
void store_as_tiles(Transpose transpose, ConstMatrixView b, Bf16* to) {
  const bool turned = transpose == Transpose::kYes;
  const auto [inner, cols] = factor_shape(transpose, b);
  TileSource tile{.from = nullptr,
                  .along = turned ? 1 : b.stride,
                  .across = turned ? b.stride : 1,
                  .inner = 0,
                  .cols = 0};
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t n = 0; n < 2 * tile_pairs(cols) * kTileRows; n += kTileRows) {
    for (std::int64_t k = 0; k < inner; k += kTileInner) {
      tile.inner = std::min(kTileInner, inner - k);
      tile.cols = std::clamp<std::int64_t>(cols - n, 0, kTileRows);
      tile.from = b.row<Bf16>(0) + (tile.cols > 0 ? k * tile.along + n * tile.across : 0);
      store_tile(tile, words);
      words += kTileEntries / 2;
    }
  }
}

#if defined(__x86_64__)

namespace {

// The operands of one block of rows.
struct TileBlock {
  ConstMatrixView a;   // at most kTilePair rows
  const Bf16* rest;    // the last tiles of them, if `inner` is no multiple of kTileInner, else null
  std::int64_t inner;  // in tiles
  RowsAhead& next_a;   // of the next block
  RowsAhead& next_c;
};

// sums, kTilePair to a row, = the block times the `pair`th kTilePair columns of the factor.
ATOLL_TILES void multiply_pair(const TileBlock& block, std::int64_t pair, const Bf16* tiles,
                               float* sums) {
  const std::int64_t inner = block.inner;
  const Bf16* const left = tiles + 2 * pair * inner * kTileEntries;
  const Bf16* const right = left + inner * kTileEntries;
  const bool both = block.a.rows > kTileRows;
  const Bf16* const upper = block.a.row<Bf16>(0);
  const Bf16* const lower = both ? block.a.row<Bf16>(kTileRows) : upper;
  const std::int64_t stride = block.a.stride * static_cast<std::int64_t>(sizeof(Bf16));
  constexpr std::int64_t kRowBytes = kTilePair * static_cast<std::int64_t>(sizeof(float));
  memory_is_read();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t k = 0; k < inner; ++k) {
    block.next_a.fetch();
    block.next_c.fetch();
    if (block.rest != nullptr && k == inner - 1) {
      _tile_loadd(4, block.rest, 64);
      _tile_loadd(5, block.rest + (both ? kTileEntries : 0), 64);
    } else {
      _tile_loadd(4, upper + k * kTileInner, stride);
      _tile_loadd(5, lower + k * kTileInner, stride);
    }
    _tile_loadd(6, left + k * kTileEntries, 64);
    _tile_loadd(7, right + k * kTileEntries, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kTileRows, kRowBytes);
  _tile_stored(2, sums + kTileRows * kTilePair, kRowBytes);
  _tile_stored(3, sums + kTileRows * kTilePair + kTileRows, kRowBytes);
}

// c = sums + beta c, for the columns of c from `first` on; added in f32.
template <typename T>
ATOLL_TILES void store_sums(const float* sums, std::int64_t first, double beta, MatrixView c) {
  const std::int64_t count = std::min(kTilePair, c.cols - first);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const float* const from = sums + i * kTilePair;
    T* const to = c.row<T>(i) + first;
    if (beta == 0) {
      convert_columns<64>(from, count, to);
      continue;
    }
    for_columns<64>(0, count, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
      typename Vectors<kUnit>::Floats values[2];
      typename Vectors<kUnit>::Floats before[2];
      Pair<kUnit>::load(from + j, part, values);
      Pair<kUnit>::load(to + j, part, before);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) values[r] += before[r];
      Pair<kUnit>::store(values, part, to + j);
    });
  }
}

// The last inner % kTileInner columns of a, as two tiles filled up with zeros.
void copy_rest(ConstMatrixView a, Bf16* rest) {
  const std::int64_t first = a.cols / kTileInner * kTileInner;
  std::fill(rest, rest + 2 * kTileEntries, Bf16{});
  for (std::int64_t i = 0; i < a.rows; ++i) {
    std::copy(a.row<Bf16>(i) + first, a.row<Bf16>(i) + a.cols, rest + i * kTileInner);
  }
}

}  // namespace

bool multiplies_in_tiles() {
  static const bool known = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_amx;
  return known;
}

ATOLL_TILES void multiply_tiles(ConstMatrixView a, const Bf16* tiles, double beta, MatrixView c) {
  alignas(64) float sums[kTilePair * kTilePair];
  alignas(64) Bf16 rest[2 * kTileEntries];
  const std::int64_t pairs = tile_pairs(c.cols);
  const std::int64_t inner = inner_tiles(a.cols);
  const std::int64_t steps = std::max<std::int64_t>(1, pairs * inner);
  const bool whole = a.cols % kTileInner == 0;
  std::int64_t configured = 0;
  for (std::int64_t begin = 0; begin < c.rows; begin += kTilePair) {
    const RowRange rows{begin, std::min(begin + kTilePair, c.rows)};
    if (rows.size() != configured) configure_tiles(configured = rows.size());
    const RowRange next{rows.end, std::min(rows.end + kTilePair, c.rows)};
    RowsAhead next_a(a.rows_in(next), steps);
    RowsAhead next_c(c.rows_in(next), steps);
    const TileBlock block{a.rows_in(rows), whole ? nullptr : rest, inner, next_a, next_c};
    if (!whole) copy_rest(block.a, rest);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t first = pair * kTilePair;
      const MatrixView out = c.rows_in(rows);
      multiply_pair(block, pair, tiles, sums);
      if (c.dtype == DType::kBf16) {
        store_sums<Bf16>(sums, first, beta, out);
      } else {
        store_sums<float>(sums, first, beta, out);
      }
    }
  }
  _tile_release();
}

#else

bool multiplies_in_tiles() { return false; }

void multiply_tiles(ConstMatrixView, const Bf16*, double, MatrixView) {
  ATOLL_ASSERT(multiplies_in_tiles());
}

#endif

}  // namespace atl
