// Counts of a rank where messages are rows, and where some are partial sums.
#include "engine/placement/rank_counts.hpp"

#include <gtest/gtest.h>

namespace atl {
namespace {

// Three parts; matrices are [to * 3 + from].
PartitionQuality counted_parts() {
  PartitionQuality quality;
  for (const std::int64_t nodes : {100, 200, 300}) {
    quality.parts.push_back({.nodes = nodes, .central = nodes / 2, .edges = 10 * nodes});
  }
  quality.forward_rows = {0, 10, 20, 30, 0, 40, 50, 60, 0};
  quality.backward_rows = {0, 11, 21, 31, 0, 41, 51, 61, 0};
  quality.forward_cover = {{0, 7, 12, 18, 0, 40, 33, 41, 0}, {0, 2, 5, 8, 0, 0, 10, 13, 0}};
  quality.backward_cover = {{0, 8, 13, 19, 0, 41, 34, 42, 0}, {0, 3, 6, 9, 0, 1, 11, 14, 0}};
  return quality;
}

TEST(RankCounts, RowsTravel) {
  const RankCounts counts = rank_counts(counted_parts(), 0, /*covers=*/false);
  EXPECT_EQ(counts.sent_forward.rows, 30 + 50);
  EXPECT_EQ(counts.sent_forward.packets, 2);
  EXPECT_EQ(counts.sent_backward.rows, 31 + 51);
  EXPECT_EQ(counts.shape.rows.forward_halo, 10 + 20);
  EXPECT_EQ(counts.shape.rows.backward_halo, 11 + 21);
  EXPECT_EQ(counts.shape.rows.sums(Direction::kForward), 0);
}

TEST(RankCounts, SumsLieBehindHaloRows) {
  const RankCounts counts = rank_counts(counted_parts(), 0, /*covers=*/true);
  EXPECT_EQ(counts.sent_forward.rows, 18 + 33);
  EXPECT_EQ(counts.sent_backward.rows, 19 + 34);
  EXPECT_EQ(counts.shape.rows.sums(Direction::kForward), 8 + 10);
  EXPECT_EQ(counts.shape.rows.sums(Direction::kBackward), 9 + 11);
  EXPECT_EQ(counts.shape.rows.forward_halo, 7 + 12 + 8 + 10);
  EXPECT_EQ(counts.shape.rows.backward_halo, 8 + 13 + 9 + 11);
}

TEST(RankCounts, PairsWithComputedRowsKeepRows) {
  Recomputation recomputation(3);
  recomputation.set(1, 0);
  const RankCounts owner = rank_counts(counted_parts(), 0, /*covers=*/true, &recomputation);
  EXPECT_EQ(owner.sent_forward.rows, 30 + 33);
  EXPECT_EQ(owner.sent_rest.rows, 33);
  EXPECT_EQ(owner.shape.rows.computed, 0);
  EXPECT_EQ(owner.shape.rows.forward_halo, 10 + 12 + 10);
  const RankCounts reader = rank_counts(counted_parts(), 1, /*covers=*/true, &recomputation);
  EXPECT_EQ(reader.shape.rows.computed, 30);
  EXPECT_EQ(reader.shape.rows.forward_halo, 30 + 40 + 13);
}

TEST(RankCounts, RowsWhereNothingElseWasCounted) {
  PartitionQuality quality = counted_parts();
  quality.forward_cover = {};
  EXPECT_EQ(rank_counts(quality, 0, /*covers=*/true).sent_forward.rows, 30 + 50);
}

}  // namespace
}  // namespace atl
