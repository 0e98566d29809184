// Edge lists as text, plain or gzip: "source target [weight]" per line, or other columns, as
// edge_columns.hpp finds them. Lines that start with # or % are comments. In a folder the list is
// called edges.*, and node arrays as of the `npy` format may lie beside it.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "datasets/edge_columns.hpp"
#include "datasets/file_list.hpp"
#include "datasets/foreign_format.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/named_arrays.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// Reads the lines of one list, with ids from 0 to `nodes` - 1, or those that `ids` know.
class EdgeLinesReader {
 public:
  EdgeLinesReader(const EdgeLines& lines, std::int64_t nodes, const NodeIds* ids,
                  const char* remedy)
      : lines_(lines), largest_((nodes < 0 ? kMaxNodes : nodes) - 1), ids_(ids), remedy_(remedy) {}

  Edge read(FieldReader& fields) const {
    Edge edge{.source = 0, .target = 0};
    for (const EdgeColumn column : lines_.columns) {
      switch (column) {
        case EdgeColumn::kSource:
          edge.source = node(fields);
          break;
        case EdgeColumn::kTarget:
          edge.target = node(fields);
          break;
        case EdgeColumn::kWeight:
          edge.weight = fields.number("weight");
          break;
        case EdgeColumn::kRelation:
          edge.type = static_cast<std::uint16_t>(fields.integer(0, kMaxTypes - 1, "relation"));
          break;
        case EdgeColumn::kAttributes:
          edge.weight = weight_of_attributes(fields, lines_.attributes);
          break;
        case EdgeColumn::kIgnored:
          fields.skip();
          break;
      }
    }
    return edge;
  }

 private:
  std::int32_t node(FieldReader& fields) const {
    std::int64_t id = 0;
    if (ids_ != nullptr) {
      id = ids_->find(fields.text("node id"));
      if (id < 0) fields.fail_here("an id before it was not there when the file was first read");
    } else if (!fields.take_integer(0, largest_, id)) {
      with_remedy(remedy_, [&] { return fields.integer(0, largest_, "node id"); });
    }
    return static_cast<std::int32_t>(id);
  }

  const EdgeLines& lines_;
  std::int64_t largest_;
  const NodeIds* ids_;
  const char* remedy_;
};

// Calls visit(fields) for every line that holds an edge; it must read the whole line.
template <typename Visit>
void each_edge(const fs::path& path, const EdgeLines& lines, const Visit& visit) {
  LineReader reader(path);
  std::string_view line;
  bool header = lines.header;
  while (reader.next(line)) {
    if (is_comment(line)) continue;
    if (std::exchange(header, false)) continue;
    FieldReader fields(line, reader, lines.separator);
    visit(fields);
    fields.expect_end();
  }
}

}  // namespace

void stream_edge_lines(const fs::path& path, std::int64_t nodes, const EdgeLines& lines,
                       const NodeIds* ids, const char* remedy, const EdgeSink& sink) {
  const EdgeLinesReader edges(lines, nodes, ids, remedy);
  EdgeBlock block(sink);
  each_edge(path, lines, [&](FieldReader& fields) {
    const Edge edge = edges.read(fields);
    block.add(edge.source, edge.target, edge.weight, edge.type);
  });
  block.flush();
}

namespace {

// Adds the ids of both ends of all edges.
void collect_ids(const fs::path& path, const EdgeLines& lines, NodeIds& ids) {
  each_edge(path, lines, [&](FieldReader& fields) {
    for (const EdgeColumn column : lines.columns) {
      if (column == EdgeColumn::kAttributes) {
        fields.take_rest();
      } else if (column == EdgeColumn::kSource || column == EdgeColumn::kTarget) {
        const FieldReader before = fields;
        const std::string_view id = fields.text("node id");
        if (id.empty()) before.fail_here("node id expected, '' found");
        ids.add(id);
      } else {
        fields.skip();
      }
    }
  });
}

bool is_list_name(const std::string& name) { return name.starts_with("edges."); }

// Values of nodes may lie beside a list that was named itself.
void warn_of_tables_beside(const fs::path& list) {
  if (!is_list_name(list.filename().string())) return;
  const fs::path folder = list.has_parent_path() ? list.parent_path() : fs::path(".");
  for (const char* name : {"labels", "features"}) {
    for (const char* ending : kTextEndings) {
      const std::string file = std::string(name) + ending;
      if (!is_there(folder / file)) continue;
      log::warn("{}: {} lies beside it and is not read; give the folder {} to read both",
                list.string(), file, folder.string());
    }
  }
}

void read_list(ImportSession& session, const fs::path& path, NamedArrays* arrays) {
  const ImportOptions& options = session.options();
  const EdgeLines lines = find_edge_columns(path, options);
  EdgeColumns columns{.weighted = lines.weighted(), .typed = lines.has(EdgeColumn::kRelation)};
  if (arrays != nullptr) columns.features = find_edge_features(*arrays);
  std::shared_ptr<NodeIds> ids;
  StatedNodes stated{.exact = options.nodes.value_or(-1)};
  session.allow_renumbering();
  if (options.renumber) {
    ids = std::make_shared<NodeIds>(path.string());
    collect_ids(path, lines, *ids);
    stated = renumbered_nodes(session, *ids, arrays);
  } else if (arrays != nullptr) {
    stated = stated_nodes(session, *arrays);
  }
  columns.least_nodes = stated.least;
  session.graph(
      [&](const EdgeSink& sink) {
        stream_edge_lines(path, stated.exact, lines, ids.get(), "--renumber takes ids of any kind",
                          sink);
      },
      stated.exact, columns, path.string());
  if (ids) session.node_ids(*ids);
  if (arrays != nullptr) arrays->set_nodes(session.nodes(), ids);
}

}  // namespace

fs::path only_file(const fs::path& folder, bool (*is_one)(const std::string& name),
                   const char* called) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_one(entry.path().filename().string())) files.push_back(entry.path());
  }
  if (files.size() != 1) {
    fail_input("{}: {} files called {} found, 1 expected", folder.string(), files.size(), called);
  }
  return files.front();
}

void import_edges(ImportSession& session) {
  std::error_code error;
  const bool in_folder = fs::is_directory(session.source(), error);
  const fs::path path =
      in_folder ? only_file(session.source(), is_list_name, "edges.*") : session.source();
  std::optional<NamedArrays> arrays;
  if (in_folder) {
    refuse_foreign_format(path);
    arrays.emplace(session.source(), session.scratch(), session.table_columns());
    arrays->note_read(path);
  } else {
    warn_of_tables_beside(path);
  }
  if (is_zip_archive(path)) {
    const NpzArchive archive(path);
    if (!is_scipy_matrix(archive)) {
      fail_input("{}: an archive, and not a matrix of SciPy; arrays are read by the format npy",
                 path.string());
    }
    import_scipy_matrix(session, path);
    if (arrays) arrays->set_nodes(session.nodes());
  } else {
    read_list(session, path, arrays ? &*arrays : nullptr);
  }
  if (arrays) read_node_arrays(session, *arrays);
}

}  // namespace atl
