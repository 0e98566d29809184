// Rows of a sparse operator in chunks of about equal cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>

#include "kernels/views.hpp"

namespace atl {

// Chunks are taken dynamically. Of about equal cost, or a chunk of hubs would be waited for.
inline constexpr std::int64_t kCostPerChunk = 4096;  // in edges
inline constexpr std::int64_t kRowCost = 4;          // of a row without edges, in edges

inline std::int64_t cost_of_rows(std::span<const std::int64_t> row_ptr, RowRange rows) {
  return row_ptr[rows.end] - row_ptr[rows.begin] + kRowCost * rows.size();
}

// The first of `rows` before which the rows cost so much.
inline std::int64_t row_at_cost(std::span<const std::int64_t> row_ptr, RowRange rows,
                                std::int64_t cost) {
  const auto costs_less = [&](std::int64_t row) {
    return cost_of_rows(row_ptr, {rows.begin, row}) < cost;
  };
  return *std::ranges::partition_point(std::views::iota(rows.begin, rows.end), costs_less);
}

// The rows whose costs, added up from rows.begin on, end in `costs`: such chunks that cover [0,
// cost_of_rows) cover `rows` in order.
inline RowRange rows_of_chunk(std::span<const std::int64_t> row_ptr, RowRange rows,
                              RowRange costs) {
  return {row_at_cost(row_ptr, rows, costs.begin), row_at_cost(row_ptr, rows, costs.end)};
}

}  // namespace atl
