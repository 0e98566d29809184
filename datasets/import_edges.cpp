// Edge lists as text, plain or gzip: "source target [weight]" per line, separated by blanks or
// commas, with the relation of the edge in the column that --relation-column says; lines that start
// with # or % are comments. In a folder the list is called edges.*, and node arrays as of the `npy`
// format may lie beside it.
#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

bool is_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#' || line[first] == '%';
}

struct LineFormat {
  int relation = 0;  // its column, from 1; 0 = none
  bool weighted = false;

  int columns() const { return 2 + (relation > 0 ? 1 : 0) + (weighted ? 1 : 0); }
};

// The next `columns` columns of a line: source, target and weight around the relation.
Edge read_columns(FieldReader& fields, const LineFormat& format, int columns,
                  std::int64_t largest) {
  std::array<std::int64_t, 2> ends{};
  std::size_t found = 0;
  Edge edge{};
  for (int column = 1; column <= columns; ++column) {
    if (column == format.relation) {
      edge.type = static_cast<std::uint16_t>(fields.integer(0, kMaxTypes - 1, "relation"));
    } else if (found < ends.size()) {
      ends[found++] = fields.integer(0, largest, "node id");
    } else {
      edge.weight = fields.number("weight");
    }
  }
  edge.source = static_cast<std::int32_t>(ends[0]);
  edge.target = static_cast<std::int32_t>(ends[1]);
  return edge;
}

// Whether the first edge has a column beyond its ends and its relation.
bool has_weights(const fs::path& path, const LineFormat& format) {
  LineReader reader(path);
  std::string_view line;
  while (reader.next(line)) {
    if (line.starts_with("%%MatrixMarket")) {
      fail_input("{}: a Matrix Market file, not an edge list", path.string());
    }
    if (is_comment(line)) continue;
    FieldReader fields(line, reader);
    if (format.relation > format.columns()) return true;  // the weight stands before it
    read_columns(fields, format, format.columns(), kMaxNodes - 1);
    return !fields.done();
  }
  return false;
}

void stream_lines(const fs::path& path, std::int64_t nodes, const LineFormat& format,
                  const EdgeSink& sink) {
  const std::int64_t largest = (nodes < 0 ? kMaxNodes : nodes) - 1;
  LineReader reader(path);
  EdgeBlock block(sink);
  std::string_view line;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    FieldReader fields(line, reader);
    const Edge edge = read_columns(fields, format, format.columns(), largest);
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
  LineFormat format{.relation = session.options().relation_column.value_or(0)};
  format.weighted = has_weights(path, format);
  EdgeColumns columns{.weighted = format.weighted, .typed = format.relation > 0};
  if (in_folder) columns.open_features = edge_features_opener(session.source());
  session.graph([&](const EdgeSink& sink) { stream_lines(path, nodes, format, sink); }, nodes,
                columns, path.string());
  if (in_folder) read_node_arrays(session, session.source());
}

}  // namespace atl
