// The raw layout of the Open Graph Benchmark's sets with nodes and edges of several types, such as
// ogbn-mag (Hu et al., NeurIPS'20):
//   raw/num-node-dict.csv.gz             names of the types of nodes, and how many nodes each has
//   raw/relations/A___REL___B/edge.csv.gz   edges from nodes of type A to nodes of type B
//   raw/node-feat/A/node-feat.csv.gz, raw/node-label/A/node-label.csv.gz   of the types that have
//   any split/SCHEME/A/{train,valid,test}.csv.gz
// Ids count from 0 within a type.
#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/ogb_text.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// Nodes first .. first + count - 1 of the graph.
struct NodeType {
  std::string name;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

struct Relation {
  fs::path folder;
  const NodeType* source;
  const NodeType* target;
};

std::vector<std::string> read_names(const LineReader& reader, std::string_view line) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    names.emplace_back(line.substr(begin, end - begin));
    const std::string& name = names.back();
    if (name.empty() || name.find('/') != std::string::npos || !known.insert(name).second) {
      fail_input(
          "{}: line 1: type of nodes {} found; allowed are names of folders that differ, with "
          "commas between them",
          reader.file(), in_quotes(name));
    }
    begin = end + 1;
  }
  return names;
}

std::vector<NodeType> read_node_types(const fs::path& path) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) fail_input("{}: empty; names of types are expected", path.string());
  const std::vector<std::string> names = read_names(reader, line);
  if (!reader.next(line)) fail_input("{}: no line with the numbers of nodes", path.string());
  FieldReader fields(line, reader);
  std::vector<NodeType> types;
  std::int64_t nodes = 0;
  for (const std::string& name : names) {
    types.push_back({name, nodes, fields.integer(0, kMaxNodes - nodes, "number of nodes")});
    nodes += types.back().count;
  }
  fields.expect_end();
  if (reader.next(line)) {
    fail_input("{}: more than one graph; only sets of one graph can be imported", path.string());
  }
  if (static_cast<std::int64_t>(types.size()) > kMaxTypes) {
    fail_input("{}: {} types of nodes; allowed are {}", path.string(), types.size(), kMaxTypes);
  }
  return types;
}

std::vector<fs::path> folders_in(const fs::path& parent) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

// Relation r is the r-th folder by name.
std::vector<Relation> read_relations(const fs::path& parent, const std::vector<NodeType>& types) {
  std::vector<Relation> relations;
  for (const fs::path& folder : folders_in(parent)) {
    constexpr std::string_view kBetween = "___";
    const std::string name = folder.filename().string();
    const auto with_name = [&](std::string_view part) -> const NodeType* {
      const auto found = std::ranges::find(types, part, &NodeType::name);
      return found == types.end() ? nullptr : &*found;
    };
    const std::size_t first = name.find(kBetween);
    const std::size_t last = name.rfind(kBetween);
    const bool three = first != std::string::npos && last >= first + kBetween.size();
    const NodeType* source = three ? with_name(name.substr(0, first)) : nullptr;
    const NodeType* target = three ? with_name(name.substr(last + kBetween.size())) : nullptr;
    if (source == nullptr || target == nullptr) {
      std::vector<std::string> names;
      for (const NodeType& type : types) names.push_back(printable(type.name));
      fail_input("{}: not called SOURCE___RELATION___TARGET; types of nodes are {}",
                 folder.string(), fmt::join(names, ", "));
    }
    relations.push_back({folder, source, target});
  }
  if (relations.empty() || static_cast<std::int64_t>(relations.size()) > kMaxTypes) {
    fail_input("{}: {} relations (folders); allowed are 1 to {}", parent.string(), relations.size(),
               kMaxTypes);
  }
  return relations;
}

void write_relations(ImportSession& session, const std::vector<Relation>& relations,
                     std::int64_t nodes) {
  const EdgeStream stream = [&](const EdgeSink& sink) {
    EdgeBlock block(sink);
    for (std::size_t r = 0; r < relations.size(); ++r) {
      const Relation& relation = relations[r];
      const NodeType& from = *relation.source;
      const NodeType& to = *relation.target;
      read_ogb_edges(relation.folder, from.count, to.count, [&](std::int64_t u, std::int64_t v) {
        block.add(from.first + u, to.first + v, 1, static_cast<std::uint16_t>(r));
      });
    }
    block.flush();
  };
  session.graph(stream, nodes,
                {.typed = true, .relations = static_cast<std::int64_t>(relations.size())},
                (session.source() / "raw/relations").string());
}

fs::path features_of(const fs::path& raw, const NodeType& type) {
  return raw / "node-feat" / type.name / "node-feat.csv.gz";
}

// 0 without the file.
std::int64_t columns_of(const fs::path& path) {
  if (!is_there(path)) return 0;
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) return 0;
  FieldReader fields(line, reader);
  std::int64_t columns = 0;
  for (; !fields.done(); ++columns) fields.skip();
  return columns;
}

// A graph has one matrix, of as many columns as the type with most features; what others lack is 0.
void write_features_of_types(ImportSession& session, const fs::path& raw,
                             const std::vector<NodeType>& types) {
  std::vector<std::int64_t> widths;
  for (const NodeType& type : types) widths.push_back(columns_of(features_of(raw, type)));
  const auto writer = session.features_by_type(widths, (raw / "node-feat").string());
  if (!writer) return;
  std::vector<float> row(static_cast<std::size_t>(std::ranges::max(widths)));
  for (const NodeType& type : types) {
    std::ranges::fill(row, 0.0F);
    const fs::path path = features_of(raw, type);
    if (!is_there(path)) {
      for (std::int64_t i = 0; i < type.count; ++i) writer->add_rows(row);
      continue;
    }
    read_ogb_features(path, type.count, "node", [&](std::span<float> values) {
      std::ranges::copy(values, row.begin());
      writer->add_rows(row);
    });
  }
  writer->close();
}

// Nodes of other types have no label.
void write_labels_of_types(ImportSession& session, const fs::path& raw,
                           const std::vector<NodeType>& types) {
  const NodeType* labelled = nullptr;
  for (const NodeType& type : types) {
    if (!is_there(raw / "node-label" / type.name / "node-label.csv.gz")) continue;
    if (labelled != nullptr) {
      fail_input("{}: labels of {} and of {}; only one type of nodes may have labels",
                 (raw / "node-label").string(), printable(labelled->name), printable(type.name));
    }
    labelled = &type;
  }
  if (labelled == nullptr) return;
  OgbLabels labels =
      read_ogb_labels(raw / "node-label" / labelled->name / "node-label.csv.gz", labelled->count);
  std::vector<std::int32_t> all(static_cast<std::size_t>(session.nodes() * labels.columns), -1);
  std::ranges::copy(labels.values, all.begin() + labelled->first * labels.columns);
  labels.values = std::move(all);
  write_ogb_labels(session, std::move(labels));
}

void write_split_of_types(ImportSession& session, const std::vector<NodeType>& types) {
  const fs::path scheme = ogb_split_scheme(session);
  if (scheme.empty()) return;
  std::vector<std::uint8_t> split(static_cast<std::size_t>(session.nodes()), 255);
  for (const NodeType& type : types) {
    const auto nodes = std::span(split).subspan(type.first, type.count);
    if (is_there(scheme / type.name)) read_ogb_split(scheme / type.name, nodes);
  }
  session.splits(split, 1);
}

}  // namespace

void import_ogb_heterogeneous(ImportSession& session) {
  const fs::path raw = session.source() / "raw";
  const std::vector<NodeType> types = read_node_types(raw / "num-node-dict.csv.gz");
  const std::vector<Relation> relations = read_relations(raw / "relations", types);
  const std::int64_t nodes = types.back().first + types.back().count;
  write_relations(session, relations, nodes);

  std::vector<std::uint16_t> type_of;
  Json type_names = Json::array();
  for (std::size_t t = 0; t < types.size(); ++t) {
    type_of.insert(type_of.end(), static_cast<std::size_t>(types[t].count),
                   static_cast<std::uint16_t>(t));
    type_names.push_back(types[t].name);
  }
  session.node_types(type_of, static_cast<std::int64_t>(types.size()));
  Json relation_names = Json::array();
  for (const Relation& relation : relations) {
    relation_names.push_back(relation.folder.filename().string());
  }
  session.note("node_types", std::move(type_names));
  session.note("relations", std::move(relation_names));

  write_features_of_types(session, raw, types);
  write_labels_of_types(session, raw, types);
  write_split_of_types(session, types);
}

}  // namespace atl
