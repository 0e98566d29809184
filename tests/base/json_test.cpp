#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

TEST(Json, RoundTripsInOrder) {
  const TempDir dir;
  const auto path = dir.path() / "a.json";
  write_json(path, {{"zebra", 1}, {"apple", {1.5, nullptr}}});
  EXPECT_EQ(read_text(path), "{\n  \"zebra\": 1,\n  \"apple\": [\n    1.5,\n    null\n  ]\n}\n");
  EXPECT_EQ(read_json(path)["zebra"], 1);
}

TEST(Json, NamesFileAndByteOfASyntaxError) {
  const TempDir dir;
  const auto path = dir.path() / "a.json";
  write_atomically(path, "{\"a\": 1,}");
  const Error error = thrown_error([&] { read_json(path); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("a.json: not valid JSON at byte 9"));
  write_atomically(path, "");
  EXPECT_THAT(thrown_error([&] { read_json(path); }).what(), HasSubstr("not valid JSON"));
}

TEST(JsonField, ReturnsTheValueOrNamesWhatIsWrong) {
  const Json object{{"nodes", 5}, {"name", "cora"}};
  EXPECT_EQ(json_field<int>(object, "nodes", "d.json"), 5);
  EXPECT_EQ(json_field<std::string>(object, "name", "d.json"), "cora");
  EXPECT_STREQ(thrown_error([&] { json_field<int>(object, "edges", "d.json"); }).what(),
               "d.json: field 'edges' is missing");
  const Error error = thrown_error([&] { json_field<int>(object, "name", "d.json"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_STREQ(error.what(), "d.json: field 'name' has the wrong type: found \"cora\"");
  EXPECT_STREQ(thrown_error([&] { json_field<int>(Json::array(), "nodes", "d.json"); }).what(),
               "d.json: field 'nodes' is missing");
}

}  // namespace

}  // namespace atl
