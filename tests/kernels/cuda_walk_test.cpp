// How kernels of the cuda backend divide a matrix among threads: arithmetic that runs on any host.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "kernels/cuda/walk.hpp"

namespace atl::cuda {

namespace {

// How often each (row, first column of a unit) is visited by all threads of `down` blocks a tile.
std::map<std::pair<std::int64_t, std::int64_t>, int> visits(const Walk& walk, std::int64_t rows,
                                                            std::int64_t down) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> count;
  for (unsigned block = 0; block < walk.tiles * down; ++block) {
    for (unsigned thread = 0; thread < walk.threads(); ++thread) {
      const Place place = place_of(walk, block, thread);
      if (!place.inside) continue;
      for (std::int64_t row = place.block * walk.rows + place.row; row < rows;
           row += down * walk.rows) {
        ++count[{row, place.col}];
      }
    }
  }
  return count;
}

TEST(Walk, VisitsEveryUnitOnce) {
  for (const std::int64_t cols : {1, 3, 8, 47, 100, 256, 1000, 1028, 5000}) {
    for (const int unit : {1, 4, 8}) {
      for (const int group : {1, 2, 8}) {
        if (cols % unit != 0) continue;
        const Walk walk = make_walk(cols, unit, group);
        const std::int64_t rows = 37;
        const auto found = visits(walk, rows, 3);
        EXPECT_EQ(static_cast<std::int64_t>(found.size()), rows * cols / unit) << cols;
        for (const auto& [place, times] : found) {
          EXPECT_EQ(times, 1) << place.first << ", " << place.second << " of " << cols;
          EXPECT_EQ(place.second % unit, 0);
        }
      }
    }
  }
}

// Lanes that share a random block must lie in one warp and stand on one row and group of columns.
TEST(Walk, GroupsOfLanesStayTogether) {
  for (const std::int64_t cols : {1, 3, 8, 12, 100, 602, 2100}) {
    for (const int group : {2, 8}) {
      const int unit = 8 / group;
      const Walk walk = make_walk(cols, unit, group);
      EXPECT_EQ(walk.lanes % group, 0);
      for (unsigned thread = 0; thread < walk.threads(); ++thread) {
        const unsigned first = thread / static_cast<unsigned>(group) * static_cast<unsigned>(group);
        const Place place = place_of(walk, 5, thread);
        const Place leader = place_of(walk, 5, first);
        EXPECT_EQ(place.row, leader.row);
        EXPECT_EQ(place.col / 8, leader.col / 8);
      }
    }
  }
}

TEST(Walk, BlocksAreWholeWarpsOfAtMost256Threads) {
  for (std::int64_t cols = 1; cols < 3000; ++cols) {
    const Walk walk = make_walk(cols, 1);
    EXPECT_EQ(walk.threads() % 32, 0U);
    EXPECT_LE(walk.threads(), 256U);
    EXPECT_GE(static_cast<int>(walk.threads()), walk.lanes * walk.rows);
    EXPECT_GE(walk.tiles * walk.lanes, cols);
    // The tree over the rows of a block reaches all of them.
    EXPECT_GE(2 * walk.half_rows, walk.rows > 1 ? walk.rows : 0) << cols;
    EXPECT_LT(walk.half_rows, walk.rows) << cols;
  }
}

// Indices beyond 32 bits.
TEST(Walk, MatricesOfBillionsOfElements) {
  const Walk wide = make_walk(std::int64_t{5} << 30, 4);
  const Place last = place_of(wide, static_cast<unsigned>(wide.tiles - 1), wide.threads() - 1);
  EXPECT_LT(wide.tiles, std::int64_t{1} << 31);
  EXPECT_EQ(last.col, (std::int64_t{5} << 30) - 4);
  EXPECT_TRUE(last.inside);
  const Walk tall = make_walk(256, 4);
  EXPECT_EQ(blocks_down(tall, std::int64_t{1} << 33, 4, 3168), 3168);
}

TEST(Walk, NoMoreBlocksThanWorkAndAtLeastOne) {
  const Walk walk = make_walk(256, 4);  // 4 rows a block
  EXPECT_EQ(blocks_down(walk, 1, 4, 3168), 1);
  EXPECT_EQ(blocks_down(walk, 16, 4, 3168), 1);
  EXPECT_EQ(blocks_down(walk, 17, 4, 3168), 2);
  EXPECT_EQ(blocks_down(walk, 0, 4, 3168), 1);
  EXPECT_EQ(blocks_down(make_walk(1 << 20, 1), 1000000, 4, 100), 1);
}

}  // namespace

}  // namespace atl::cuda
