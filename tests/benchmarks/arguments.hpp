// Numbers on the command line of a benchmark.
#pragma once

#include <charconv>
#include <string_view>

#include "base/error.hpp"

namespace atl {

// `value` as a number above 0. Throws Error{kOption} naming the argument and what is allowed.
template <typename Number>
Number parse_number(std::string_view argument, std::string_view value, const char* allowed) {
  Number parsed{};
  const auto result = std::from_chars(value.data(), value.data() + value.size(), parsed);
  const bool whole = result.ec == std::errc() && result.ptr == value.data() + value.size();
  if (!whole || !(parsed > 0)) fail_option("{}: allowed are {}", argument, allowed);
  return parsed;
}

}  // namespace atl
