#include "base/own_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"

namespace atl {

void check_own_name(const std::string& what, const std::string& name,
                    const std::vector<std::string>& taken) {
  // It is also part of a folder's name.
  const bool is_word = !name.empty() && name.size() <= 64 && name.front() != '-' &&
                       std::ranges::all_of(name, [](unsigned char c) {
                         return std::isalnum(c) != 0 || c == '-' || c == '_';
                       });
  if (!is_word) {
    fail_option(
        "a {} of this program is named '{}'; allowed are 1 to 64 letters, digits, '_' and '-', the "
        "first of them no '-'",
        what, name);
  }
  if (std::ranges::count(taken, name) > 0) {
    fail_option("a {} of this program is named '{}', and so is another; taken are: {}", what, name,
                fmt::join(taken, ", "));
  }
}

}  // namespace atl
