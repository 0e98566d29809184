#include "base/feature_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace atl {

namespace {

TEST(FeatureSource, ReadsWhatItWrites) {
  for (const char* text :
       {"degree", "constant", "edges", "random:1", "positional:16", "trained:4096"}) {
    EXPECT_EQ(to_string(parse_feature_source(text)), text);
  }
  EXPECT_EQ(parse_feature_source("random:32"), (FeatureSource{FeatureKind::kRandom, 32}));
  EXPECT_FALSE(parse_feature_source("trained:8").is_data());
  EXPECT_TRUE(parse_feature_source("degree").is_data());
  EXPECT_FALSE(FeatureSource().present());
}

TEST(FeatureSource, RefusesEverythingElse) {
  for (const char* text :
       {"", "Degree", "degree:3", "random", "random:", "random:0", "random:-1", "random:4097",
        "random:3x", "random:99999999999999999999", "trained: 8", ":8", "trained:8:8"}) {
    try {
      parse_feature_source(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      EXPECT_THAT(error.what(), testing::HasSubstr("allowed are degree, constant, random:D"));
    }
  }
}

}  // namespace

}  // namespace atl
