#include "launch/report/report_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/report/svg_chart.hpp"

namespace atl {
namespace {

// Width of the page's font, generously: a table that becomes cards a little early is still read.
constexpr std::size_t kLetterPixels = 8;
constexpr std::size_t kCellPixels = 22;  // padding of a cell
constexpr std::size_t kPagePixels = 60;  // beside the table
constexpr std::size_t kWidestPage = 1240;
constexpr std::size_t kWidestText = 32;  // letters; longer cells wrap

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  std::size_t length = 0;
  for (const char letter : text) {
    length = letter == ' ' ? 0 : length + 1;
    longest = std::max(longest, length);
  }
  return longest;
}

std::size_t width_of(const TableColumn& column) {
  std::size_t letters = longest_word(column.heading);
  for (const std::string& cell : column.cells) letters = std::max(letters, cell.size());
  return kLetterPixels * std::min(letters, kWidestText) + kCellPixels;
}

std::size_t width_of(const std::vector<TableRow>& rows) {
  std::size_t letters = 0;
  for (const TableRow& row : rows) {
    letters = std::max({letters, std::min(row.name.size(), kWidestText), row.note.size()});
  }
  return kLetterPixels * (letters + 2) + kCellPixels;
}

// The rules that turn rows into cards, where the window has not `width` pixels for the table.
std::string card_rules(const std::string& id, std::size_t width) {
  const std::string rules = fmt::format(
      "#{0} thead {{ display: none; }} #{0} tr {{ display: grid; gap: .3rem 1rem; padding: .7rem "
      ".8rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 7.5rem), 1fr)); }}\n"
      "#{0} tr + tr {{ border-top: 1px solid var(--line); }} #{0} td, #{0} tr + tr td {{ display: "
      "block; padding: 0; border: 0; text-align: left; white-space: normal; overflow-wrap: "
      "anywhere; }}\n"
      "#{0} td:first-child {{ grid-column: 1 / -1; font-weight: 600; }}\n"
      "#{0} td.none {{ display: none; }}\n#{0} td[data-label]::before {{ content: "
      "attr(data-label); display: block; color: "
      "var(--quiet); font-size: .8rem; }}\n",
      id);
  const std::size_t window = width + kPagePixels;
  if (window > kWidestPage) return rules;
  return fmt::format("@media (max-width: {}px) {{\n{}}}\n", window, rules);
}

const char* class_of(bool number, bool none) {
  if (number) return none ? " class=\"number none\"" : " class=\"number\"";
  return none ? " class=\"none\"" : "";
}

}  // namespace

bool TableColumn::used() const {
  return std::ranges::any_of(cells, [](const std::string& cell) { return !cell.empty(); });
}

std::string draw_table(const std::string& id, const std::vector<TableRow>& rows,
                       const std::vector<TableColumn>& columns) {
  std::vector<TableColumn> used;
  std::ranges::copy_if(columns, std::back_inserter(used), &TableColumn::used);
  std::size_t width = width_of(rows);
  for (const TableColumn& column : used) width += width_of(column);
  std::string html = fmt::format("<style>\n{}</style>\n", card_rules(id, width));
  html += fmt::format("<div class=\"scroll\"><table id=\"{}\">\n<thead><tr><th>run</th>", id);
  for (const TableColumn& column : used) {
    html +=
        fmt::format("<th{}>{}</th>", class_of(column.number, false), escape_html(column.heading));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const char* line = rows[i].name.size() <= kWidestText ? " class=\"line\"" : "";
    html += fmt::format("<tr><td{}><i style=\"background:var(--s{})\"></i>{}", line,
                        rows[i].color % 8, escape_html(rows[i].name));
    if (!rows[i].note.empty()) {
      html += fmt::format(" <span class=\"quiet\">{}</span>", escape_html(rows[i].note));
    }
    html += "</td>";
    for (const TableColumn& column : used) {
      const std::string& cell = column.cells[i];
      html += fmt::format("<td{} data-label=\"{}\">{}</td>", class_of(column.number, cell.empty()),
                          escape_html(column.heading), cell.empty() ? "–" : escape_html(cell));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace atl
