#include "base/table_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atl {

namespace {

bool is_figure(const std::string& cell, std::string_view none) {
  if (cell == "-" || cell == none) return true;
  const std::size_t first = cell.starts_with('-') || cell.starts_with('+') ? 1 : 0;
  const bool starts = cell.size() > first && cell[first] >= '0' && cell[first] <= '9';
  return starts && cell.find_first_of(":,") == std::string::npos;
}

}  // namespace

std::string table_text(const std::vector<TableTextRow>& rows, std::string_view none) {
  const std::size_t columns = rows.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> right(columns, true);
  right[0] = false;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], rows[r][c].size());
      if (r > 0 && !is_figure(rows[r][c], none)) right[c] = false;
    }
  }
  std::string text;
  for (const TableTextRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      line += right[c] ? fmt::format("  {:>{}}", row[c], widths[c])
                       : fmt::format("  {:<{}}", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace atl
