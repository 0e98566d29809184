#include "base/text.hpp"

#include <gtest/gtest.h>

#include "base/json.hpp"

namespace atl {

namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const char* text : {"", "data/sbm", "C:\\x", "Größe 97 %", "日本語", "naïve 🙂", "~"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[31mred"), "a\\x1b[31mred");
  EXPECT_EQ(printable("\a\b\r\n\t\x7f"), "\\x07\\x08\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");                                          // C1: another way to begin a code
  EXPECT_EQ(printable("\xe2\x80\xaegpj.exe"), "\\u202egpj.exe");  // right-to-left override
  EXPECT_EQ(printable("a\xe2\x81\xa6"
                      "b\xe2\x80\xa8\xef\xbb\xbf"),
            "a\\u2066b\\u2028\\ufeff");
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\x9b[2J"), "\\x9b[2J");     // C1 as one byte
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");  // overlong
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("x\xe2\x82"), "x\\xe2\\x82");  // cut off
  EXPECT_EQ(printable("\xf8\x88\x80\x80\x80"), "\\xf8\\x88\\x80\\x80\\x80");
}

// The judge is the library that writes JSON, which refuses all else.
TEST(IsUtf8, AsJsonMustBe) {
  const auto fits = [](const std::string& text) {
    try {
      return !Json(text).dump().empty();
    } catch (const Json::exception&) {
      return false;
    }
  };
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("Zürich 1995"));
  EXPECT_FALSE(is_utf8("Z\xfcrich"));
  int well = 0;
  // Beginnings of all kinds, with what may follow them or not.
  for (int first = 0; first < 256; ++first) {
    for (const int second : {0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0}) {
      for (const char* const rest : {"", "\x80", "\x80\x80", "\xbf\xbf", "a", "\x80z"}) {
        std::string text = "a";
        text += static_cast<char>(first);
        text += static_cast<char>(second);
        text += rest;
        EXPECT_EQ(is_utf8(text), fits(text)) << printable(text);
        well += fits(text) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(well, 500);
}

TEST(Printable, LinesStayWhereTheyAreAskedFor) {
  EXPECT_EQ(printable_lines("a\nb\x1b\r\n"), "a\nb\\x1b\\x0d\n");
}

TEST(Print, EscapesArgumentsButNotTheFormat) {
  ::testing::internal::CaptureStdout();
  print("{:>4} {:.1f} {} {}\n", "\x1b", 2.0, std::string("a\nb"), std::filesystem::path("p\a"));
  print_lines("one\ntwo\x1b\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "\\x1b 2.0 a\\x0ab p\\x07\none\ntwo\\x1b\n");
}

}  // namespace

}  // namespace atl
