// Rows of arrays, copied by their numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/parallel.hpp"

namespace atl {

// Fills `to` with the `rows` of an array [*, columns], [rows.size(), columns], and returns it;
// empty where the array is.
template <typename T>
std::span<const T> copy_rows(std::span<const T> from, std::int64_t columns,
                             std::span<const LocalId> rows, std::vector<T>& to) {
  to.clear();
  if (from.empty()) return {};
  to.resize(rows.size() * static_cast<std::size_t>(columns));
  parallel_for(std::ssize(rows), 4096, [&](std::int64_t i) {
    std::copy_n(from.begin() + to_index(rows[i]) * columns, columns, to.begin() + i * columns);
  });
  return to;
}

}  // namespace atl
