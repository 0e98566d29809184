#include "datasets/node_ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace atl {
namespace {

TEST(NodeIds, NumbersKeepTheirOrder) {
  NodeIds ids("list");
  for (const char* id : {"1033", "35", "-7", "35.0", "1e+05", "1099511627776"}) ids.add(id);
  ids.add(std::int64_t{1033});
  ids.finish();
  EXPECT_TRUE(ids.are_numbers());
  ASSERT_EQ(ids.count(), 5);
  const std::vector<std::string> expected = {"-7", "35", "1033", "100000", "1099511627776"};
  for (std::int64_t node = 0; node < ids.count(); ++node) {
    EXPECT_EQ(ids[node], expected[static_cast<std::size_t>(node)]);
    EXPECT_EQ(ids.find(ids[node]), node);
  }
  EXPECT_EQ(ids.find("1033.0"), 2);
  EXPECT_EQ(ids.find(std::int64_t{35}), 1);
  EXPECT_EQ(ids.find("36"), -1);
  EXPECT_EQ(ids.find("ann"), -1);
}

// The first word makes text of the numbers before it.
TEST(NodeIds, WordsAreInTheOrderOfTheirBytes) {
  NodeIds ids("list");
  for (const char* id : {"10", "9", "7", "ann", "007", "9.0", "Ann"}) ids.add(id);
  ids.finish();
  EXPECT_FALSE(ids.are_numbers());
  const std::vector<std::string> expected = {"007", "10", "7", "9", "Ann", "ann"};
  ASSERT_EQ(ids.count(), 6);
  for (std::int64_t node = 0; node < ids.count(); ++node) {
    EXPECT_EQ(ids[node], expected[static_cast<std::size_t>(node)]);
    EXPECT_EQ(ids.find(ids[node]), node);
  }
  EXPECT_EQ(ids.find(std::int64_t{9}), 3);
  EXPECT_EQ(ids.find("bob"), -1);
}

TEST(NodeIds, ManyIds) {
  constexpr std::int64_t kCount = 100000;
  std::mt19937_64 random(3);
  std::vector<std::int64_t> values(kCount);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random() >> 1U);
  for (const bool words : {false, true}) {
    NodeIds ids("list");
    for (const std::int64_t value : values) {
      words ? ids.add("n" + std::to_string(value)) : ids.add(value);
    }
    ids.finish();
    ASSERT_EQ(ids.count(), kCount);
    for (std::int64_t node = 0; node < kCount; ++node) ASSERT_EQ(ids.find(ids[node]), node);
  }
}

TEST(NodeIds, NumbersOfAllSizes) {
  std::mt19937_64 random(5);
  std::vector<std::int64_t> values = {0, 63, 64, SmallNumbers::kEnd - 1, SmallNumbers::kEnd, -1};
  for (int k = 0; k < 20000; ++k) {
    const auto number = static_cast<std::int64_t>(random() >> (1 + random() % 60));
    values.push_back(k % 5 == 0 ? -number : number);
  }
  NodeIds ids("list");
  for (const std::int64_t value : values) ids.add(value);
  ids.finish();
  std::vector<std::int64_t> sorted = values;
  std::ranges::sort(sorted);
  sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
  ASSERT_EQ(ids.count(), std::ssize(sorted));
  for (std::int64_t node = 0; node < ids.count(); ++node) {
    const std::int64_t value = sorted[static_cast<std::size_t>(node)];
    ASSERT_EQ(ids[node], std::to_string(value));
    ASSERT_EQ(ids.find(value), node);
    const std::int64_t next = value + 1;
    if (!std::ranges::binary_search(sorted, next)) {
      ASSERT_EQ(ids.find(next), -1);
    }
  }
}

TEST(NodeIds, NoneAndWhatIsNoText) {
  NodeIds none("list");
  none.finish();
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.find("a"), -1);
  EXPECT_EQ(none.find(std::int64_t{1}), -1);
  NodeIds wrong("list");
  wrong.add("caf\xe9");
  EXPECT_THROW(wrong.finish(), Error);
}

}  // namespace
}  // namespace atl
