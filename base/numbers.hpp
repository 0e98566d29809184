// Numbers and lists as users write them.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace atl {

// Allowed in a file where numbers are kept in single precision, in the words of errors.
inline constexpr const char* kFiniteFloats = "finite numbers that fit f32, up to 3.4e38";

// The number that all of `text` spells, as std::from_chars reads it; empty if it spells none, or
// one that a T does not hold.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && parsed == end ? std::optional<T>(value) : std::nullopt;
}

// The same, if it is one of `least` to `most`.
template <typename T>
std::optional<T> parse_number(std::string_view text, T least,
                              T most = std::numeric_limits<T>::max()) {
  const std::optional<T> value = parse_number<T>(text);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

// Ascending numbers as "0-3", "6": those that follow one another are one range.
template <typename T>
std::vector<std::string> number_ranges(const std::vector<T>& ascending) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    std::string range = std::to_string(ascending[i]);
    if (end - i > 1) range += "-" + std::to_string(ascending[end - 1]);
    ranges.push_back(std::move(range));
    i = end;
  }
  return ranges;
}

// The pieces between commas, which may be empty. One comma is between two of them.
std::vector<std::string> between_commas(std::string_view text);

}  // namespace atl
