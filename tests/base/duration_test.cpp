#include "base/duration.hpp"

#include <gtest/gtest.h>

namespace atl {

namespace {

TEST(Duration, ReadsUnits) {
  EXPECT_EQ(parse_duration("45s"), 45);
  EXPECT_EQ(parse_duration("10m"), 600);
  EXPECT_EQ(parse_duration("1h30m"), 5400);
  EXPECT_EQ(parse_duration("0.5s"), 0.5);
  EXPECT_EQ(parse_duration("2d1h1m1s"), 2 * 86400 + 3661);
}

TEST(Duration, RefusesEverythingElse) {
  for (const char* text :
       {"", "10", "m", "-1s", "30m1h", "1h1h", "1x", "infs", "nans", "1e3s", " 1s", "1s "}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Duration, IsWrittenAsUsersReadIt) {
  EXPECT_EQ(format_duration(0.44), "0.4 s");
  EXPECT_EQ(format_duration(125), "2:05");
  EXPECT_EQ(format_duration(3725), "1:02:05");
}

}  // namespace

}  // namespace atl
