#include "base/suggest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace atl {
namespace {

TEST(EditDistance, KnownValues) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("trian", "train"), 1);  // one swap
  EXPECT_EQ(edit_distance("ca", "abc"), 3);       // optimal string alignment edits nothing twice
}

TEST(DidYouMean, SuggestsOnlySlips) {
  const std::vector<std::string> names = {"train", "partition", "info"};
  EXPECT_EQ(did_you_mean("trian", names), " (did you mean 'train'?)");
  EXPECT_EQ(did_you_mean("partitoin", names), " (did you mean 'partition'?)");
  EXPECT_EQ(did_you_mean("TRAIN", names), " (did you mean 'train'?)");
  EXPECT_EQ(did_you_mean("benchmark", names), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

}  // namespace
}  // namespace atl
