// Tables of the report, which fit every window: where a window is too narrow for the columns, every
// row becomes a card of labelled values.
#pragma once

#include <string>
#include <vector>

namespace atl {

struct TableColumn {
  std::string heading;
  bool number = false;             // stands right
  std::vector<std::string> cells;  // plain text, one per row; "" = none

  bool used() const;  // any cell is not empty
};

struct TableRow {
  std::string name;
  std::string note;  // beside the name, quiet; "" = none
  int color = 0;     // of the page's palette
};

// HTML of a table with its own style rules. `id` is unique on the page. Columns that no row uses
// are left out.
std::string draw_table(const std::string& id, const std::vector<TableRow>& rows,
                       const std::vector<TableColumn>& columns);

}  // namespace atl
