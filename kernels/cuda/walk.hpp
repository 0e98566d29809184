// How kernels divide a matrix among threads: plain arithmetic, so that the host compiler can test
// it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/philox.hpp"

namespace atl::cuda {

inline constexpr int kBlockThreads = 256;

constexpr std::int64_t ceil_divide(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit;
}

// A walk over the rows of a matrix in which every thread keeps one unit of columns, so that what
// belongs to a column stays in its registers. A block stands on one of `tiles` groups of `lanes`
// units and on `rows` rows at once; threads beyond lanes * rows rest. Blocks are numbered tile by
// tile, then down the rows.
struct Walk {
  int lanes = 1;
  int rows = 1;
  int half_rows = 0;  // where a tree over the rows starts: the largest power of 2 below `rows`
  std::int64_t tiles = 1;
  int unit = 1;           // elements
  std::int64_t cols = 0;  // elements

  unsigned threads() const { return static_cast<unsigned>(ceil_divide(lanes * rows, 32) * 32); }
};

// `group`: lanes are a multiple of it, so that groups of lanes share a row (a power of 2, at most
// 32).
inline Walk make_walk(std::int64_t cols, int unit, int group = 1) {
  const std::int64_t units = ceil_divide(ceil_divide(cols, unit), group) * group;
  Walk walk;
  walk.tiles = ceil_divide(units, kBlockThreads);
  walk.lanes = static_cast<int>(ceil_divide(ceil_divide(units, walk.tiles), group) * group);
  walk.rows = kBlockThreads / walk.lanes;
  walk.half_rows = static_cast<int>(std::bit_ceil(static_cast<unsigned>(walk.rows)) / 2);
  walk.unit = unit;
  walk.cols = cols;
  return walk;
}

// Where one thread of a walk stands.
struct Place {
  std::int64_t col = 0;    // its first column
  int row = 0;             // its row within the block's rows
  std::int64_t block = 0;  // which of the blocks down the rows
  bool inside = false;     // false: it has no column
};

ATOLL_HOST_DEVICE inline Place place_of(const Walk& walk, unsigned block, unsigned thread) {
  Place place;
  const auto tiles = static_cast<unsigned>(walk.tiles);
  const auto lanes = static_cast<unsigned>(walk.lanes);
  place.block = block / tiles;
  place.row = static_cast<int>(thread / lanes);
  place.col = (static_cast<std::int64_t>(block % tiles) * walk.lanes + thread % lanes) * walk.unit;
  place.inside = place.row < walk.rows && place.col < walk.cols;
  return place;
}

// Blocks down the rows of an operation element by element, whose threads take `batch` rows at once:
// as many as there is work for, at most `most` in all.
inline std::int64_t blocks_down(const Walk& walk, std::int64_t rows, int batch, std::int64_t most) {
  const std::int64_t needed = ceil_divide(rows, static_cast<std::int64_t>(walk.rows) * batch);
  return std::clamp<std::int64_t>(most / walk.tiles, 1, std::max<std::int64_t>(needed, 1));
}

// A reduction over rows in two stages: each of `chunks` blocks down the rows sums rows_per_chunk of
// them. A function of the shape alone, never of the device, so that sums are the same everywhere.
struct Chunks {
  std::int64_t rows_per_chunk = 1;
  std::int64_t chunks = 1;
};

inline Chunks make_chunks(std::int64_t rows, std::int64_t least_rows, std::int64_t most_chunks) {
  Chunks result;
  result.rows_per_chunk = std::max(ceil_divide(rows, most_chunks), least_rows);
  result.chunks = ceil_divide(rows, result.rows_per_chunk);
  return result;
}

// Lanes of a warp that together take one row of `cols` elements, `units_per_lane` units each where
// a whole warp suffices: a power of 2.
inline int team_lanes(std::int64_t cols, int unit, int units_per_lane) {
  const std::int64_t lanes = ceil_divide(ceil_divide(cols, unit), units_per_lane);
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(lanes, 1, 32))));
}

}  // namespace atl::cuda
