#include "datasets/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

std::array<std::int64_t, 4> count(const std::vector<std::uint8_t>& split) {
  std::array<std::int64_t, 4> counts{};
  for (const std::uint8_t part : split) ++counts[part == 255 ? 3 : part];
  return counts;
}

TEST(Split, SharesAreOfTheLabelledNodes) {
  std::vector<std::uint8_t> labelled(100, 1);
  std::fill(labelled.begin(), labelled.begin() + 10, std::uint8_t{0});
  const auto split = make_split(parse_split("0.5,0.3,0.1"), labelled, {}, 1);
  EXPECT_EQ(count(split), (std::array<std::int64_t, 4>{45, 27, 9, 19}));
  EXPECT_TRUE(
      std::all_of(split.begin(), split.begin() + 10, [](auto part) { return part == 255; }));
  EXPECT_EQ(split, make_split(parse_split("0.5,0.3,0.1"), labelled, {}, 1));
  EXPECT_NE(split, make_split(parse_split("0.5,0.3,0.1"), labelled, {}, 2));
}

TEST(Split, PerClassTakesSoManyOfEachClass) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 90; ++i)
    labels.push_back(i % 3 == 2 ? 5 : i % 3);  // classes 2 to 4 are empty
  const std::vector<std::uint8_t> labelled(90, 1);
  const auto split = make_split(parse_split("per-class:4,10,20"), labelled, labels, 3);
  EXPECT_EQ(count(split), (std::array<std::int64_t, 4>{12, 10, 20, 48}));
  std::array<int, 6> train{};
  for (std::size_t i = 0; i < 90; ++i) train[labels[i]] += split[i] == 0 ? 1 : 0;
  EXPECT_EQ(train, (std::array<int, 6>{4, 4, 0, 0, 0, 4}));
}

TEST(Split, RefusesBadSpecifications) {
  for (const char* text :
       {"", "0.5", "0.5,0.5", "0.5,0.5,0.5", "a,b,c", "0,0.5,0.5", "-1,1,1", "0.1,0.1,0.1,0.1",
        "nan,0,0", "per-class:1,2", "per-class:1.5,2,3", "per-class:0,2,3", "0.5,,0.5"}) {
    const Error error = thrown_error([&] { parse_split(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption) << text;
    EXPECT_THAT(error.what(), HasSubstr("split '" + std::string(text) + "'"));
  }
  const std::vector<std::uint8_t> labelled(10, 1);
  const std::vector<std::int32_t> labels(10, 0);
  EXPECT_THAT(
      thrown_error([&] { make_split(parse_split("per-class:2,5,5"), labelled, labels, 0); }).what(),
      HasSubstr("only 8 labelled nodes are left"));
  EXPECT_THAT(
      thrown_error([&] { make_split(parse_split("per-class:2,1,1"), labelled, {}, 0); }).what(),
      HasSubstr("one label per node"));
}

}  // namespace
}  // namespace atl
