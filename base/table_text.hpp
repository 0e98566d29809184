// Tables for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl {

using TableTextRow = std::vector<std::string>;

// A line for each row, two blanks before each column. The first row is the head, and all have as
// many cells. Columns of figures stand right, others and the first one left. A figure begins with a
// digit and is a single one; "-" and the word `none` stand for one that there isn't.
std::string table_text(const std::vector<TableTextRow>& rows, std::string_view none = "-");

}  // namespace atl
