#include "base/json_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class JsonLinesTest : public ::testing::Test {
 protected:
  JsonLines read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_json_lines(path_);
  }
  std::string refusal(const std::string& text) {
    const Error error = thrown_error([&] { read(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  TempDir folder_;
  std::filesystem::path path_ = folder_.path() / "m.jsonl";
};

TEST_F(JsonLinesTest, ReadsWholeLinesWithTheirPlaces) {
  const JsonLines read_lines = read("{\"epoch\": 1}\n{\"epoch\": 2}\n");
  ASSERT_EQ(read_lines.lines.size(), 2U);
  EXPECT_EQ(read_lines.lines[1].object.at("epoch"), 2);
  EXPECT_THAT(read_lines.lines[1].place, EndsWith("m.jsonl:2"));
  EXPECT_EQ(read_lines.cut_off, "");
  EXPECT_TRUE(read("").lines.empty());
}

TEST_F(JsonLinesTest, AKilledWriterLeavesALastLineThatIsCutOff) {
  for (const std::string tail : {"{\"epo", "{\"epoch\": 2}x", "1e999", "12"}) {
    const JsonLines read_lines = read("{\"epoch\": 1}\n" + tail);
    EXPECT_EQ(read_lines.lines.size(), 1U) << tail;
    EXPECT_THAT(read_lines.cut_off, EndsWith("m.jsonl:2")) << tail;
  }
  // Blocks that were allocated, but not written, before the machine stopped.
  EXPECT_THAT(read("{\"epoch\": 1}\n" + std::string(512, '\0')).cut_off, EndsWith("m.jsonl:2"));
  // Only the newline is missing.
  EXPECT_EQ(read("{\"epoch\": 1}\n{\"epoch\": 2}").lines.size(), 2U);
  EXPECT_EQ(read("{\"epoch\": 1}\n{\"epoch\": 2}").cut_off, "");
}

TEST_F(JsonLinesTest, NamesTheLineOfOtherDamage) {
  EXPECT_THAT(refusal("{\"epoch\": 1}\n{\"epoch\": 2,,}\n{\"epoch\": 3}\n"),
              HasSubstr("m.jsonl:2: not valid JSON at byte 13"));
  EXPECT_THAT(refusal("{\"epoch\": 1}\n\n{\"epoch\": 3}"), HasSubstr("m.jsonl:2: not valid JSON"));
  EXPECT_THAT(refusal("[1]\n"), HasSubstr("m.jsonl:1: found [1]; expected an object"));
  EXPECT_THAT(refusal("{\"loss\": 1e999}\n"), HasSubstr("m.jsonl:1: not valid JSON"));
  const std::string deep = "{\"a\": " + std::string(200000, '[') + std::string(200000, ']') + "}\n";
  EXPECT_THAT(refusal(deep), HasSubstr("m.jsonl:1: byte 105: nested more than 100 deep"));
}

}  // namespace

}  // namespace atl
