// Numbers and lists as users write them.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace atl {

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

// The pieces between commas, which may be empty. One comma is between two of them.
std::vector<std::string> between_commas(std::string_view text);

}  // namespace atl
