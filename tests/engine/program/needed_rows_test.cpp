// Which rows a program needs for the results of some nodes, by what its rules say of themselves.
#include "engine/program/needed_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Rule kLeaf{.name = "leaf", .is_leaf = true};
constexpr Rule kNear{.name = "near", .reach = Reach::kHalo};

// Between two operations that read rows of neighbours.
NeededRows needed_with(const Rule& rule) {
  Program program;
  program.operations = {{.rule = &kLeaf},
                        {.rule = &kNear, .inputs = {0}},
                        {.rule = &rule, .inputs = {1}},
                        {.rule = &kNear, .inputs = {2}}};
  return needed_rows(program);
}

TEST(NeededRows, GrowWithEveryOperationThatReadsNeighbours) {
  static constexpr Rule kOfRows{.name = "of rows"};
  const NeededRows needed = needed_with(kOfRows);
  EXPECT_THAT(needed.hops, ElementsAre(2, 1, 1, 0));
  EXPECT_EQ(needed.most, 2);
  EXPECT_FALSE(needed.counts_out_edges);
}

TEST(NeededRows, AreAllBelowARuleThatMovesThem) {
  static constexpr Rule kMoves{.name = "moves", .reach = Reach::kWhole, .moves_rows = true};
  const NeededRows needed = needed_with(kMoves);
  EXPECT_THAT(needed.hops, ElementsAre(kAllRows, kAllRows, kAllRows, 0));
  EXPECT_EQ(needed.most, 2);
}

TEST(NeededRows, OfARuleThatReadsDegreesOutEdgesAreCounted) {
  static constexpr Rule kScales{.name = "scales", .reads = [](const Operation&, GraphData data) {
                                  return data == GraphData::kDegrees;
                                }};
  EXPECT_TRUE(needed_with(kScales).counts_out_edges);
}

TEST(NeededRows, OfARuleThatNeedsAllAtOnceAreRefused) {
  static constexpr Rule kSums{.name = "sums all", .reach = Reach::kWhole};
  EXPECT_THAT(thrown_error([] { needed_with(kSums); }).what(), HasSubstr("'sums all'"));
}

}  // namespace
}  // namespace atl
