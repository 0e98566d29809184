#include "base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace atl {

namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The code point at the beginning of `text`, which is not empty. Overlong forms, surrogates and
// values beyond Unicode are not UTF-8.
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {};
  char32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLeast[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

// Direction marks and overrides, line and paragraph separators, characters without a width.
bool reorders_or_hides(char32_t c) {
  return c == 0x061C || c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2069) || c == 0xFEFF;
}

std::string escape(std::string_view text, bool keep_newlines) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.bytes == 0) {
      safe += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    const auto value = static_cast<std::uint32_t>(point.value);
    if (is_control(point.value) && !(keep_newlines && value == '\n')) {
      safe += fmt::format("\\x{:02x}", value);
    } else if (reorders_or_hides(point.value)) {
      safe += fmt::format("\\u{:04x}", value);
    } else {
      safe += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return safe;
}

}  // namespace

std::string printable(std::string_view text) { return escape(text, false); }
std::string printable_lines(std::string_view text) { return escape(text, true); }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.bytes == 0) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

void print_lines(std::string_view text) { fmt::print("{}", printable_lines(text)); }

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

}  // namespace atl
