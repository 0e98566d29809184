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

TEST(JsonField, RefusesNumbersThatDoNotFit) {
  const Json object = parse_json(
      R"({"half": 0.5, "large": 4294967297, "huge": 18446744073709551615, "list": [1, 2.5],
          "negative": -1, "text": "x"})",
      "d.json");
  const auto refusal = [](const auto& read) { return std::string(thrown_error(read).what()); };
  EXPECT_THAT(refusal([&] { json_field<int>(object, "half", "d.json"); }),
              HasSubstr("wrong type: found 0.5"));
  EXPECT_THAT(refusal([&] { json_field<int>(object, "large", "d.json"); }),
              HasSubstr("'large' is 4294967297; allowed are -2147483648 to 2147483647"));
  EXPECT_THAT(refusal([&] { json_field<std::int64_t>(object, "huge", "d.json"); }),
              HasSubstr("'huge' is 18446744073709551615"));
  EXPECT_THAT(refusal([&] { json_field<std::uint64_t>(object, "negative", "d.json"); }),
              HasSubstr("'negative' is -1"));
  EXPECT_THAT(refusal([&] { json_field<std::vector<std::int64_t>>(object, "list", "d.json"); }),
              HasSubstr("wrong type: found [1,2.5]"));
  EXPECT_EQ(json_field<std::uint64_t>(object, "huge", "d.json"), 18446744073709551615U);
  EXPECT_EQ(json_field_or<int>(object, "absent", "d.json", 7), 7);
  EXPECT_THAT(refusal([&] { json_field_or<int>(object, "text", "d.json", 7); }),
              HasSubstr("wrong type"));
  EXPECT_THAT(refusal([&] { json_field_or<int>(Json(3), "text", "d.json", 7); }),
              HasSubstr("missing"));
}

TEST(ParseJson, RefusesWhatTheLibraryWouldThrowOrOverflowAt) {
  const auto refusal = [](const std::string& text) {
    const Error error = thrown_error([&] { parse_json(text, "x.json:7"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal("{\"a\": 1e999}"), HasSubstr("x.json:7: not valid JSON: "));
  EXPECT_THAT(refusal(std::string(200000, '[')), HasSubstr("x.json:7: byte 100: nested"));
  EXPECT_THAT(refusal("{\"a\": \"\xff\"}"), HasSubstr("x.json:7: not valid JSON at byte"));
  EXPECT_EQ(parse_json("[\"[[[[\"]", "x").size(), 1U);
}

TEST(ReadJson, RefusesFilesBeyondItsLimit) {
  const TempDir dir;
  write_atomically(dir.path() / "a.json", "[1, 2, 3]");
  EXPECT_EQ(read_json(dir.path() / "a.json", 9).size(), 3U);
  EXPECT_THAT(thrown_error([&] { read_json(dir.path() / "a.json", 8); }).what(),
              HasSubstr("a.json: 9 bytes of JSON; allowed are up to 8"));
}

TEST(JsonText, IsPlainAscii) {
  EXPECT_EQ(json_text("\x1b\x7f\xc2\x9b\xff"), "\"\\u001b\\u007f\\u009b\\ufffd\"\n");
}

}  // namespace

}  // namespace atl
