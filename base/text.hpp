// Text of files, folders and command lines made safe to print: no byte of it controls a terminal.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace atl {

// `text` with everything escaped that a terminal would obey rather than show: control characters
// (C0, DEL, C1) as \x1b, marks that reorder or hide text and line separators as \u202e, and bytes
// that are not UTF-8 as \xff. Everything else, backslashes included, stays as it is.
std::string printable(std::string_view text);

// The same, but newlines stay: for text of several lines that this program has laid out itself.
std::string printable_lines(std::string_view text);

// Whether all of `text` is UTF-8, as JSON must be: no overlong forms, no surrogates.
bool is_utf8(std::string_view text);

template <typename T>
inline constexpr bool kIsText = std::is_convertible_v<const T&, std::string_view>;

// The substitute for an argument of print(): text escaped, everything else as it is.
template <typename T>
auto to_printable(const T& value) {
  if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return printable(value.string());
  } else if constexpr (kIsText<T>) {
    return printable(value);
  } else {
    return value;
  }
}

// The words of a line, which blanks separate.
std::vector<std::string> words_of(std::string_view line);

// fmt::print to standard output with every argument that is text made printable. It throws
// std::system_error where not all can be written: later nobody knows why.
template <typename... Args>
void print(fmt::format_string<decltype(to_printable(std::declval<const Args&>()))...> format,
           const Args&... args) {
  fmt::print(format, to_printable(args)...);
}

// The same of printable_lines(text).
void print_lines(std::string_view text);

}  // namespace atl
