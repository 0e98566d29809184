// Command lines as a shell reads and writes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

// `text` as one word of a command line, in quotes where it needs them.
std::string shell_word(std::string_view text);
// The words with blanks between them, each as shell_word().
std::string shell_line(std::span<const std::string> words);
// The words of a line: blanks separate them, quotes and backslashes keep what they hold, and no
// other sign means anything. Empty if a quote is not closed, or nothing follows a backslash.
std::optional<std::vector<std::string>> shell_words(std::string_view line);

}  // namespace atl
