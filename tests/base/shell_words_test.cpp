#include "base/shell_words.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atl {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWords, AreReadAsAShellDoes) {
  EXPECT_EQ(shell_words(""), Words());
  EXPECT_EQ(shell_words(" \t"), Words());
  EXPECT_EQ(shell_words("mpirun -n  2 "), (Words{"mpirun", "-n", "2"}));
  EXPECT_EQ(shell_words("a'b c'd \"e f\"g"), (Words{"ab cd", "e fg"}));
  EXPECT_EQ(shell_words("'' \"\""), (Words{"", ""}));
  EXPECT_EQ(shell_words("a\\ b 'c\\d' \"e\\\"f\\g\""), (Words{"a b", "c\\d", "e\"f\\g"}));
  EXPECT_EQ(shell_words("$HOME # * ~"), (Words{"$HOME", "#", "*", "~"}));
}

TEST(ShellWords, AreNoneOfWhatIsNotClosed) {
  for (const char* line : {"'a", "a \"b", "a\\", "\"a\\\"", "'a' 'b"}) {
    EXPECT_FALSE(shell_words(line)) << line;
  }
}

TEST(ShellWords, AreQuotedWhereTheyNeedIt) {
  EXPECT_EQ(shell_word("runs/a-1.5,b:c=2%@+_"), "runs/a-1.5,b:c=2%@+_");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$x"), "'$x'");
}

TEST(ShellWords, SurviveALine) {
  const Words words = {"a", "", "b c", "it's", "\"x\"", "\\", "*", "ä", "new\nline"};
  EXPECT_EQ(shell_words(shell_line(words)), words);
}

}  // namespace
}  // namespace atl
