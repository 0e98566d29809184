#include "base/shell_words.hpp"

#include <algorithm>
#include <cctype>

namespace atl {

namespace {

constexpr std::string_view kPlainSigns = "/._-+,:@%=";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Takes the end of a quoted stretch, whose first quote is behind `line`'s beginning, into `word`.
bool take_quoted(char quote, std::string_view& line, std::string& word) {
  while (!line.empty() && line.front() != quote) {
    const bool escape =
        quote == '"' && line.size() > 1 && line[0] == '\\' && (line[1] == '"' || line[1] == '\\');
    if (escape) line.remove_prefix(1);
    word += line.front();
    line.remove_prefix(1);
  }
  if (line.empty()) return false;
  line.remove_prefix(1);
  return true;
}

bool take_word(std::string_view& line, std::string& word) {
  while (!line.empty() && !is_blank(line.front())) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == '\'' || c == '"') {
      if (!take_quoted(c, line, word)) return false;
    } else if (c == '\\') {
      if (line.empty()) return false;
      word += line.front();
      line.remove_prefix(1);
    } else {
      word += c;
    }
  }
  return true;
}

}  // namespace

std::string shell_word(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || kPlainSigns.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !text.empty()) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

std::optional<std::vector<std::string>> shell_words(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty()) return words;
    if (!take_word(line, words.emplace_back())) return std::nullopt;
  }
}

}  // namespace atl
