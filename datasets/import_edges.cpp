// Edge lists as text, plain or gzip: "source target [weight]" per line, separated by blanks or
// commas; lines that start with # or % are comments. In a folder the list is called edges.*, and
// node arrays as of the `npy` format may lie beside it.
#include <algorithm>
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

// Whether the first edge has a third column.
bool has_weights(const fs::path& path) {
  LineReader reader(path);
  std::string_view line;
  while (reader.next(line)) {
    if (line.starts_with("%%MatrixMarket")) {
      fail_input("{}: a Matrix Market file, not an edge list", path.string());
    }
    if (is_comment(line)) continue;
    FieldReader fields(line, reader);
    fields.integer(0, kMaxNodes - 1, "node id");
    fields.integer(0, kMaxNodes - 1, "node id");
    return !fields.done();
  }
  return false;
}

void stream_lines(const fs::path& path, std::int64_t nodes, bool weighted, const EdgeSink& sink) {
  const std::int64_t largest = (nodes < 0 ? kMaxNodes : nodes) - 1;
  LineReader reader(path);
  EdgeBlock block(sink);
  std::string_view line;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    FieldReader fields(line, reader);
    const std::int64_t source = fields.integer(0, largest, "node id");
    const std::int64_t target = fields.integer(0, largest, "node id");
    const float weight = weighted ? fields.number("weight") : 1.0F;
    fields.expect_end();
    block.add(source, target, weight);
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
  const bool weighted = has_weights(path);
  session.graph([&](const EdgeSink& sink) { stream_lines(path, nodes, weighted, sink); }, nodes,
                weighted, path.string());
  if (in_folder) read_node_arrays(session, session.source());
}

}  // namespace atl
