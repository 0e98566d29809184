#include "base/numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/paths.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;

TEST(Numbers, AreAllOfTheText) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1.5e3"), 1500);
  for (const char* text : {"", " ", "12 ", " 12", "+12", "1.5", "0x10", "12a", "99999999999"}) {
    EXPECT_FALSE(parse_number<int>(text)) << text;
  }
  EXPECT_EQ(parse_number<std::int64_t>("99999999999"), 99999999999);
  EXPECT_FALSE(parse_number<unsigned>("-1"));
}

TEST(Numbers, LieBetweenTheirLimits) {
  EXPECT_EQ(parse_number<int>("1", 1, 3), 1);
  EXPECT_EQ(parse_number<int>("3", 1, 3), 3);
  EXPECT_FALSE(parse_number<int>("0", 1, 3));
  EXPECT_FALSE(parse_number<int>("4", 1, 3));
  EXPECT_EQ(parse_number<int>("2147483647", 0), 2147483647);
  EXPECT_FALSE(parse_number<double>("nan", 0));
  EXPECT_FALSE(parse_number<double>("inf", 0));
}

TEST(Numbers, ThatFollowOneAnotherAreARange) {
  EXPECT_THAT(number_ranges(std::vector<int>{0, 1, 2, 6, 8, 9}), ElementsAre("0-2", "6", "8-9"));
  EXPECT_THAT(number_ranges(std::vector<std::int64_t>{3, 3, 4}), ElementsAre("3", "3-4"));
  EXPECT_TRUE(number_ranges(std::vector<int>{}).empty());
}

TEST(Commas, AreBetweenPieces) {
  EXPECT_THAT(between_commas("a"), ElementsAre("a"));
  EXPECT_THAT(between_commas("a,b,,c"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(between_commas(",a,"), ElementsAre("", "a", ""));
  EXPECT_THAT(between_commas(""), ElementsAre(""));
}

TEST(Paths, LoseTheirLastSlash) {
  EXPECT_EQ(without_slash("data/cora/"), "data/cora");
  EXPECT_EQ(without_slash("data/cora"), "data/cora");
  EXPECT_EQ(without_slash("cora/"), "cora");
  EXPECT_EQ(without_slash("data/cora//").filename(), "cora");
  EXPECT_EQ(without_slash(".."), "..");
}

}  // namespace
}  // namespace atl
