// How the cuda backend divides rows and edges among blocks: arithmetic that runs on any host.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/cuda/indexing.hpp"

namespace atl::cuda {

namespace {

// Row offsets for rows of these many edges, the first offset being `first`.
std::vector<std::int64_t> offsets(const std::vector<std::int64_t>& edges, std::int64_t first = 0) {
  std::vector<std::int64_t> row_ptr{first};
  for (const std::int64_t count : edges) row_ptr.push_back(row_ptr.back() + count);
  return row_ptr;
}

TEST(RowBins, EveryKindOfRowHasItsPlace) {
  const auto row_ptr = offsets({0, 31, 32, 255, 256, 1023, 1024, 1500, 3});
  const RowBins bins = bin_rows(row_ptr, {0, 9});
  EXPECT_FALSE(bins.natural);
  EXPECT_EQ(bins.long_rows, 2);
  EXPECT_EQ(bins.rows, (std::vector<std::int32_t>{4, 5, 2, 3, 0, 1, 8}));
  ASSERT_EQ(bins.split.size(), 2U);
  EXPECT_EQ(bins.split[0].row, 6);
  EXPECT_EQ(bins.split[0].first_piece, 0);
  EXPECT_EQ(bins.split[0].pieces, 2);
  EXPECT_EQ(bins.split[1].row, 7);
  EXPECT_EQ(bins.split[1].first_piece, 2);
  EXPECT_EQ(bins.split[1].pieces, 3);
  EXPECT_EQ(bins.pieces.size(), 5U);
}

TEST(RowBins, OnlyRowsOfTheRange) {
  const auto row_ptr = offsets({300, 5, 300, 40, 300});
  const RowBins bins = bin_rows(row_ptr, {1, 4});
  EXPECT_EQ(bins.long_rows, 1);
  EXPECT_EQ(bins.rows, (std::vector<std::int32_t>{2, 3, 1}));
  EXPECT_TRUE(bins.split.empty());
}

TEST(RowBins, RowsOfOneKindNeedNoList) {
  for (const std::int64_t edges : {0, 31, 32, 255}) {
    const RowBins bins = bin_rows(offsets({edges, edges, edges}), {0, 3});
    EXPECT_TRUE(bins.natural) << edges;
    EXPECT_TRUE(bins.rows.empty()) << edges;
  }
  EXPECT_TRUE(bin_rows(offsets({1, 2}), {1, 1}).natural);
  EXPECT_FALSE(bin_rows(offsets({31, 32}), {0, 2}).natural);
  EXPECT_FALSE(bin_rows(offsets({256}), {0, 1}).natural);
}

TEST(RowBins, PiecesCoverTheEdgesOfTheirRow) {
  constexpr std::int64_t kFirst = std::int64_t{5} << 31;  // offsets need 64 bits
  const std::vector<std::int64_t> edges{4096, 4097, 1000000, 7, 40000000};
  const auto row_ptr = offsets(edges, kFirst);
  const RowBins bins = bin_rows(row_ptr, {0, 5});
  ASSERT_EQ(bins.split.size(), 4U);
  std::int32_t next_piece = 0;
  for (const SplitRow& split : bins.split) {
    EXPECT_EQ(split.first_piece, next_piece);
    EXPECT_LE(split.pieces, kMostPieces);
    EXPECT_GE(split.pieces, 2);
    const auto row = static_cast<std::size_t>(split.row);
    std::int64_t next_edge = row_ptr[row];
    for (std::int32_t k = 0; k < split.pieces; ++k) {
      const RowPiece& piece = bins.pieces[static_cast<std::size_t>(next_piece + k)];
      EXPECT_EQ(piece.row, split.row);
      EXPECT_EQ(piece.first, k == 0 ? 1 : 0);
      EXPECT_EQ(piece.begin, next_edge);
      EXPECT_GE(piece.end, piece.begin);
      next_edge = piece.end;
    }
    EXPECT_EQ(next_edge, row_ptr[row + 1]);
    next_piece += split.pieces;
  }
  EXPECT_EQ(static_cast<std::size_t>(next_piece), bins.pieces.size());
}

TEST(RowPieces, LengthsFollowFromTheRowAlone) {
  EXPECT_EQ(pieces_of(1024), 2);
  EXPECT_EQ(pieces_of(1025), 3);
  EXPECT_EQ(pieces_of(std::int64_t{1} << 40), kMostPieces);
  const RowRange last = piece_edges(10, 20, 3, 2);  // 4 + 4 + 2
  EXPECT_EQ(last.begin, 18);
  EXPECT_EQ(last.end, 20);
  const RowRange beyond = piece_edges(0, 5, 4, 3);  // 2 + 2 + 1 + 0
  EXPECT_EQ(beyond.size(), 0);
}

TEST(Batches, HoldAsManyWholeRowsAsFit) {
  const std::vector<SplitRow> split{{0, 0, 3}, {1, 3, 2}, {2, 5, 9}, {3, 14, 1}};
  EXPECT_EQ(end_of_batch(split, 0, 5), 2U);
  EXPECT_EQ(end_of_batch(split, 0, 4), 1U);
  EXPECT_EQ(end_of_batch(split, 2, 5), 3U);  // alone, though too large
  EXPECT_EQ(end_of_batch(split, 3, 5), 4U);
  EXPECT_EQ(end_of_batch(split, 0, 15), 4U);
}

TEST(Walk, CoversEveryColumnOnce) {
  for (const std::int64_t cols : {1, 3, 8, 100, 256, 1000, 5000}) {
    for (const int unit : {1, 4, 8}) {
      if (cols % unit != 0) continue;
      const Walk walk = make_walk(cols, unit);
      ASSERT_LE(walk.threads(), static_cast<unsigned>(kBlockThreads));
      std::vector<int> seen(static_cast<std::size_t>(cols), 0);
      for (unsigned block = 0; block < static_cast<unsigned>(walk.tiles); ++block) {
        for (unsigned thread = 0; thread < walk.threads(); ++thread) {
          const Place place = place_of(walk, block, thread);
          if (!place.inside || place.row != 0) continue;
          for (int k = 0; k < unit; ++k) ++seen[static_cast<std::size_t>(place.col + k)];
        }
      }
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), cols) << cols << " by " << unit;
      EXPECT_EQ(*std::min_element(seen.begin(), seen.end()), 1) << cols << " by " << unit;
    }
  }
}

TEST(SpreadIndex, EveryPieceAndRowOncePiecesApart) {
  for (const auto [pieces, rows] : {std::pair{0, 5}, {1, 5}, {3, 10}, {10, 3}, {4, 0}, {7, 100}}) {
    std::vector<int> seen(static_cast<std::size_t>(pieces + rows), 0);
    std::int64_t last_piece = -1;
    for (std::int64_t place = 0; place < pieces + rows; ++place) {
      const std::int64_t index = spread_index(place, pieces, rows);
      ASSERT_TRUE(0 <= index && index < pieces + rows) << index;
      ++seen[static_cast<std::size_t>(index)];
      if (index >= pieces) continue;
      if (last_piece >= 0) {
        EXPECT_EQ(place - last_piece, (pieces + rows) / pieces);
      }
      last_piece = place;
    }
    EXPECT_EQ(std::ranges::count(seen, 1), pieces + rows) << pieces << " and " << rows;
  }
}

TEST(Chunks, CoverTheRowsWithinTheLimit) {
  for (const std::int64_t rows : {1, 31, 4096, 1000003}) {
    const Chunks chunks = make_chunks(rows, 16, 128);
    EXPECT_LE(chunks.chunks, 128);
    EXPECT_GE(chunks.chunks * chunks.rows_per_chunk, rows);
    EXPECT_LT((chunks.chunks - 1) * chunks.rows_per_chunk, rows);
    EXPECT_GE(chunks.rows_per_chunk, 16);
  }
}

TEST(Teams, AreThePowerOfTwoThatCoversARow) {
  EXPECT_EQ(team_lanes(1, 1, 1), 1);
  EXPECT_EQ(team_lanes(3, 1, 1), 4);
  EXPECT_EQ(team_lanes(64, 4, 1), 16);
  EXPECT_EQ(team_lanes(256, 4, 2), 32);
  EXPECT_EQ(team_lanes(100000, 4, 2), 32);
}

}  // namespace

}  // namespace atl::cuda
