// Tables of the words by which options and files name the values of an enumeration.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace atl {

// Names and what they stand for, in the order of help texts.
template <typename Value, std::size_t kCount>
using NameTable = std::array<std::pair<const char*, Value>, kCount>;

template <typename Value, std::size_t kCount>
const char* name_of(const NameTable<Value, kCount>& table, Value value) {
  const auto found = std::ranges::find(table, value, [](const auto& row) { return row.second; });
  ATOLL_ASSERT(found != table.end());
  return found->first;
}

template <typename Value, std::size_t kCount>
std::vector<std::string> names_of(const NameTable<Value, kCount>& table) {
  std::vector<std::string> names;
  for (const auto& [name, value] : table) names.emplace_back(name);
  return names;
}

// Throws Error{kOption} that names the option and lists the valid names.
template <typename Value, std::size_t kCount>
Value parse_name(const NameTable<Value, kCount>& table, const std::string& text,
                 const char* option) {
  const auto found = std::ranges::find(table, text, [](const auto& row) { return row.first; });
  if (found != table.end()) return found->second;
  fail_option("{}: '{}' is unknown; allowed are {}", option, text,
              fmt::join(names_of(table), ", "));
}

}  // namespace atl
