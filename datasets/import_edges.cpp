// Edge lists as text, plain or gzip: "source target [weight]" per line, separated by blanks, tabs
// or commas, with the relation of the edge in the column that --relation-column says; or columns
// that a first line names. Lines that start with # or % are comments. In a folder the list is
// called edges.*, and node arrays as of the `npy` format may lie beside it.
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/named_arrays.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// What a column of a line says.
enum class Column : std::uint8_t { kSource, kTarget, kWeight, kRelation, kIgnored };

struct LineFormat {
  std::vector<Column> columns;
  bool header = false;  // the first line that is no comment names the columns

  bool has(Column column) const { return std::ranges::count(columns, column) > 0; }
};

struct ColumnNames {
  Column column;
  std::vector<std::string_view> names;  // in small letters
};
const std::array<ColumnNames, 4> kColumnNames = {
    {{Column::kSource, {"source", "src", "from", "u", "head", "node_1"}},
     {Column::kTarget, {"target", "dst", "destination", "to", "v", "tail", "node_2"}},
     {Column::kWeight, {"weight", "edge_weight", "w"}},
     {Column::kRelation, {"relation", "type", "edge_type", "rel", "label"}}}};

Column column_named(std::string_view name) {
  std::string small(name);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const ColumnNames& known : kColumnNames) {
    if (std::ranges::count(known.names, small) > 0) return known.column;
  }
  return Column::kIgnored;
}

std::string list_of_names() {
  std::vector<std::string> lists;
  for (const ColumnNames& known : kColumnNames) {
    lists.push_back(fmt::format("{}", fmt::join(known.names, ", ")));
  }
  return fmt::format("{}", fmt::join(lists, "; "));
}

// A number begins with a digit, or a digit behind a sign or a point.
bool is_number(std::string_view field) {
  const std::size_t digit = field.find_first_of("0123456789");
  return digit <= 2 && field.find_first_not_of("+-.") == digit;
}

// Names of columns that stand in the first line.
std::vector<Column> header_columns(const std::vector<std::string>& names,
                                   const LineReader& reader) {
  std::vector<Column> columns;
  for (const std::string& name : names) {
    const Column column = column_named(name);
    if (column == Column::kIgnored) {
      log::warn("{}: column {} is not read; names that are: {}", reader.file(), in_quotes(name),
                list_of_names());
    } else if (std::ranges::count(columns, column) > 0) {
      fail_input("{}:{}: column {}: another one says the same; names: {}", reader.file(),
                 reader.line_number(), in_quotes(name), list_of_names());
    }
    columns.push_back(column);
  }
  for (const Column needed : {Column::kSource, Column::kTarget}) {
    if (std::ranges::count(columns, needed) > 0) continue;
    fail_input("{}:{}: no column is the {} of an edge; names: {}", reader.file(),
               reader.line_number(), needed == Column::kSource ? "source" : "target",
               list_of_names());
  }
  return columns;
}

// By the first line that is no comment: a header names columns; without one they are source and
// target, with the relation where --relation-column says, and a weight if there is one more.
LineFormat find_format(const fs::path& path, int relation_column) {
  LineFormat format;
  LineReader reader(path);
  std::string_view line;
  while (reader.next(line)) {
    if (line.starts_with("%%MatrixMarket")) {
      fail_input("{}: a Matrix Market file: use the format matrix-market", path.string());
    }
    if (is_comment(line)) continue;
    const std::vector<std::string> fields = FieldReader(line, reader).all();
    if (!fields.empty() && !is_number(fields.front())) {
      if (relation_column > 0) {
        fail_option("--relation-column: {} names its columns in line {}; leave it out",
                    path.string(), reader.line_number());
      }
      return {.columns = header_columns(fields, reader), .header = true};
    }
    format.columns = {Column::kSource, Column::kTarget};
    const std::size_t ends = format.columns.size() + (relation_column > 0 ? 1U : 0U);
    if (fields.size() > ends || relation_column > static_cast<int>(ends)) {
      format.columns.push_back(Column::kWeight);
    }
    if (relation_column > 0) {
      format.columns.insert(format.columns.begin() + relation_column - 1, Column::kRelation);
    }
    return format;
  }
  return {.columns = {Column::kSource, Column::kTarget}};
}

Edge read_columns(FieldReader& fields, const LineFormat& format, std::int64_t largest) {
  Edge edge{.source = 0, .target = 0};
  for (const Column column : format.columns) {
    switch (column) {
      case Column::kSource:
        edge.source = static_cast<std::int32_t>(fields.integer(0, largest, "node id"));
        break;
      case Column::kTarget:
        edge.target = static_cast<std::int32_t>(fields.integer(0, largest, "node id"));
        break;
      case Column::kWeight:
        edge.weight = fields.number("weight");
        break;
      case Column::kRelation:
        edge.type = static_cast<std::uint16_t>(fields.integer(0, kMaxTypes - 1, "relation"));
        break;
      case Column::kIgnored:
        fields.skip();
        break;
    }
  }
  return edge;
}

void stream_lines(const fs::path& path, std::int64_t nodes, const LineFormat& format,
                  const EdgeSink& sink) {
  const std::int64_t largest = (nodes < 0 ? kMaxNodes : nodes) - 1;
  LineReader reader(path);
  EdgeBlock block(sink);
  std::string_view line;
  bool header = format.header;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    if (std::exchange(header, false)) continue;
    FieldReader fields(line, reader);
    const Edge edge = read_columns(fields, format, largest);
    fields.expect_end();
    block.add(edge.source, edge.target, edge.weight, edge.type);
  }
  block.flush();
}

fs::path find_list(const fs::path& folder) {
  std::vector<fs::path> lists;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("edges.")) lists.push_back(entry.path());
  }
  if (lists.size() != 1) {
    fail_input("{}: {} files called edges.* found, 1 expected", folder.string(), lists.size());
  }
  return lists.front();
}

}  // namespace

void import_edges(ImportSession& session) {
  std::error_code error;
  const bool in_folder = fs::is_directory(session.source(), error);
  const fs::path path = in_folder ? find_list(session.source()) : session.source();
  const std::int64_t nodes = session.options().nodes.value_or(-1);
  const LineFormat format = find_format(path, session.options().relation_column.value_or(0));
  EdgeColumns columns{.weighted = format.has(Column::kWeight),
                      .typed = format.has(Column::kRelation)};
  std::optional<NamedArrays> arrays;
  if (in_folder) columns.open_features = find_edge_features(arrays.emplace(session.source()));
  session.graph([&](const EdgeSink& sink) { stream_lines(path, nodes, format, sink); }, nodes,
                columns, path.string());
  if (arrays) read_node_arrays(session, *arrays);
}

}  // namespace atl
