#include "datasets/append_edges.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "datasets/edge_columns.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// A row and a source in it of which the entry back is missing, where rows ascend.
struct OneWay {
  std::int64_t row;
  std::int64_t source;
};
std::optional<OneWay> find_one_way(const GraphView& graph) {
  const CsrView& csr = graph.in_edges;
  const auto key = [&](std::int64_t e, std::int64_t node) {
    return std::pair(node, graph.edge_types.empty() ? 0 : graph.edge_types[e]);
  };
  // Rows that are visited in order meet the entries back in order, too.
  std::vector<std::int64_t> next(csr.row_ptr.begin(), csr.row_ptr.end() - 1);
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (std::int64_t e = csr.row_ptr[i]; e < csr.row_ptr[i + 1]; ++e) {
      const std::int64_t j = csr.col_idx[e];
      const std::int64_t back = next[j]++;
      const bool is_there = back < csr.row_ptr[j + 1];
      if (is_there && key(back, csr.col_idx[back]) == key(e, i)) continue;
      // An entry in its place that is less was met by no row.
      const bool other = is_there && key(back, csr.col_idx[back]) < key(e, i);
      return other ? OneWay{j, csr.col_idx[back]} : OneWay{i, j};
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_form(const Dataset& data, const std::string& why, const char* how) {
  fail_input("{}: {}, so nothing can be appended; atoll import npy {} --out NEW{} writes it {}",
             data.folder().string(), why, data.folder().string(),
             data.info().directed ? " --directed" : "", how);
}

void require_ascending_rows(const Dataset& data) {
  const GraphView graph = data.graph();
  const CsrView& csr = graph.in_edges;
  std::atomic<std::int64_t> wrong = -1;
  std::atomic<std::int64_t> outside = -1;
  parallel_for(graph.nodes(), 256, [&](std::int64_t i) {
    const auto key = [&](std::int64_t e) {
      return std::pair(csr.col_idx[e], graph.edge_types.empty() ? 0 : graph.edge_types[e]);
    };
    const auto row = csr.row(i);
    if (!row.empty() && (row.front() < 0 || row.back() >= graph.nodes())) outside = i;
    for (std::int64_t e = csr.row_ptr[i] + 1; e < csr.row_ptr[i + 1]; ++e) {
      if (key(e - 1) >= key(e)) wrong = i;
    }
  });
  if (wrong >= 0) {
    refuse_form(data, fmt::format("row {} of col_idx.npy doesn't ascend", wrong.load()),
                "in order");
  }
  if (outside < 0) return;
  const auto row = csr.row(outside);
  fail_input("{}: row {} of col_idx.npy holds {}; allowed are node ids 0 to {}",
             data.folder().string(), outside.load(), row.front() < 0 ? row.front() : row.back(),
             graph.nodes() - 1);
}

}  // namespace

void require_imported_form(const Dataset& data) {
  require_ascending_rows(data);
  const GraphView graph = data.graph();
  if (const auto found = graph.symmetric ? find_one_way(graph) : std::nullopt) {
    refuse_form(data,
                fmt::format("'directed' is false, and row {} of col_idx.npy holds {}, but row {} "
                            "doesn't hold {}{}",
                            found->row, found->source, found->source, found->row,
                            graph.edge_types.empty() ? "" : " with the same type"),
                "in both directions");
  }
  if (data.grown() != nullptr) return;
  for (const auto& [name, descr] :
       {std::pair{"col_idx.npy", "<i4"}, std::pair{"edge_types.npy", "<u2"},
        std::pair{"node_types.npy", "<u2"}}) {
    const fs::path path = data.folder() / name;
    if (!is_there(path)) continue;
    const NpyFile array(path);
    if (array.is(descr)) continue;
    refuse_form(data, fmt::format("the element type of {} is '{}'", name, array.header().descr),
                "in order");
  }
}

EdgeChanges::EdgeChanges(const Dataset& data, const AppendOptions& options, std::int64_t nodes,
                         bool keep_self_loops, bool reverse)
    : data_(data),
      graph_(data.graph()),
      options_(options),
      nodes_(nodes),
      keep_self_loops_(keep_self_loops),
      reverse_(reverse) {}

// The edges of a file; whether they have a relation each. with_values: they must have what the
// dataset's edges have, else only ends and, in text, relations are read.
bool EdgeChanges::stream(const fs::path& path, bool with_values, std::int64_t nodes,
                         const EdgeSink& sink) const {
  const DatasetInfo& info = data_.info();
  const std::string data = data_.folder().string();
  const auto require = [&](bool there, bool has, const char* what, const char* option) {
    if (!with_values || there == has) return;
    if (has) {
      fail_option(
          "--edges {}: the edges of {} have {}, so new ones need them, too: {}, or a column "
          "of text",
          path.string(), data, what, option);
    }
    fail_option("--edges {}: its edges have {}, but those of {} have none", path.string(), what,
                data);
  };
  if (path.extension() == ".npy") {
    const auto open = [](const fs::path& file) -> std::function<ArrayReader()> {
      if (file.empty()) return {};
      return [file] { return ArrayReader::open_npy(file); };
    };
    EdgeValueFiles files;
    if (with_values) files = {open(options_.edge_weights), open(options_.edge_types)};
    require(files.open_weights != nullptr, info.weighted, "weights", "--edge-weights");
    require(files.open_types != nullptr, info.relations > 0, "relations", "--edge-types");
    stream_edge_index(open(path), nodes, files, sink);
    return files.open_types != nullptr;
  }
  const EdgeLines lines = find_edge_columns(path, {});
  const bool typed = lines.has(EdgeColumn::kRelation);
  require(lines.weighted(), info.weighted, "weights", "--edge-weights with arrays");
  require(typed, info.relations > 0, "relations", "--edge-types with arrays");
  if (!with_values && lines.weighted() && !info.weighted) {
    fail_option(
        "--remove-edges {}: its edges have weights, but those of {} have none; a column of "
        "relations "
        "has a name in the first line: source,target,relation",
        path.string(), data);
  }
  stream_edge_lines(path, nodes, lines, nullptr, "new nodes come by --nodes", sink);
  return typed;
}

void EdgeChanges::remove_entry(const EdgeEntry& entry) {
  removed_.push_back(entry);
  if (graph_.symmetric) removed_.push_back({entry.source, entry.target, entry.type});
  if (!reverse_) return;
  const auto half = static_cast<std::uint16_t>(data_.info().relations / 2);
  const auto back =
      static_cast<std::uint16_t>(entry.type < half ? entry.type + half : entry.type - half);
  removed_.push_back({entry.source, entry.target, back});
}

void EdgeChanges::remove_pair(const Edge& pair, bool one_type, const std::string& place) {
  const std::int64_t end = graph_.in_edges.row_ptr[pair.target + 1];
  const std::int64_t first = first_no_less(graph_, graph_.in_edges.row_ptr[pair.target], end,
                                           pair.source, one_type ? pair.type : 0);
  std::int64_t found = 0;
  for (std::int64_t e = first; e < end; ++e) {
    if (graph_.in_edges.col_idx[e] != pair.source) break;
    if (one_type && type_of(e) != pair.type) break;
    remove_entry({pair.target, pair.source, type_of(e)});
    ++found;
  }
  if (found > 0) return;
  fail_input("{}: {} has no edge {} -> {}{}", place, data_.folder().string(), pair.source,
             pair.target, one_type ? fmt::format(" of relation {}", pair.type) : "");
}

// All entries of their rows, and those of other rows that name them.
void EdgeChanges::remove_nodes(std::span<const std::int32_t> nodes) {
  if (nodes.empty()) return;
  is_gone_.assign(static_cast<std::size_t>(nodes_), 0);
  for (const std::int32_t node : nodes) is_gone_[node] = 1;
  const CsrView& csr = graph_.in_edges;
  const auto entry = [&](std::int64_t row, std::int64_t e) {
    return EdgeEntry{static_cast<std::int32_t>(row), csr.col_idx[e], type_of(e)};
  };
  for (const std::int32_t node : nodes) {
    for (std::int64_t e = csr.row_ptr[node]; e < csr.row_ptr[node + 1]; ++e) {
      remove_entry(entry(node, e));
    }
  }
  if (graph_.symmetric) return;
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
      if (is_gone_[csr.col_idx[e]] != 0) remove_entry(entry(row, e));
    }
  }
}

void EdgeChanges::remove(std::span<const std::int32_t> nodes) {
  if (const fs::path& path = options_.remove_edges; !path.empty()) {
    std::vector<Edge> pairs;
    const bool typed = stream(path, false, graph_.nodes(), [&](std::span<const Edge> edges) {
      pairs.insert(pairs.end(), edges.begin(), edges.end());
    });
    if (typed && data_.info().relations == 0) {
      fail_option("--remove-edges {}: its edges have relations, but those of {} have none",
                  path.string(), data_.folder().string());
    }
    for (const Edge& pair : pairs) remove_pair(pair, typed, path.string());
  }
  remove_nodes(nodes);
  std::ranges::sort(removed_);
  removed_.erase(std::unique(removed_.begin(), removed_.end()), removed_.end());
  is_back_.assign(removed_.size(), 0);
}

std::vector<float> EdgeChanges::read_edge_features(std::int64_t edges) const {
  const std::int64_t columns = data_.info().edge_features;
  ArrayReader reader = ArrayReader::open_npy(options_.edge_features);
  if (reader.length(0) != edges || reader.length(1) != columns || reader.dimensions() > 2) {
    fail_input("{}: {} x {} features of edges found, {} x {} expected", reader.place(),
               reader.length(0), reader.length(1), edges, columns);
  }
  std::vector<float> values(static_cast<std::size_t>(reader.elements()));
  reader.read(values);
  const auto wrong =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong != values.end()) {
    fail_input("{}: element {} is {}; allowed are finite numbers", reader.place(),
               wrong - values.begin(), *wrong);
  }
  reader.finish();
  return values;
}

void EdgeChanges::add() {
  const DatasetInfo& info = data_.info();
  const fs::path& path = options_.edges;
  const bool features = !options_.edge_features.empty();
  for (const auto& [option, file] : {std::pair{"--edge-weights", &options_.edge_weights},
                                     std::pair{"--edge-types", &options_.edge_types},
                                     std::pair{"--edge-features", &options_.edge_features}}) {
    if (file->empty()) continue;
    if (path.empty()) fail_option("{} {}: there are no --edges", option, file->string());
    if (path.extension() != ".npy" && file != &options_.edge_features) {
      fail_option("{} {}: belongs to edges in an array; {} is text, which has columns for it",
                  option, file->string(), path.string());
    }
  }
  if (path.empty()) return;
  if (features != (info.edge_features > 0)) {
    fail_option("--edge-features: the edges of {} have {} features; new edges need as many",
                data_.folder().string(), info.edge_features);
  }
  GraphBuildOptions build{.place = path.string(),
                          .nodes = nodes_,
                          .trust_nodes = true,
                          .directed = info.directed,
                          .keep_self_loops = keep_self_loops_,
                          .weighted = info.weighted,
                          .typed = info.relations > 0,
                          .relations = reverse_ ? info.relations / 2 : 0,
                          .reverse_relations = reverse_,
                          .with_origins = features,
                          .keep_edges = {}};
  const BuiltGraph built = build_graph(
      [&](const EdgeSink& sink) {
        stream(path, true, nodes_, [&](std::span<const Edge> edges) {
          for (const Edge& edge : edges) {
            if (build.relations == 0 || edge.type < build.relations) continue;
            fail_input(
                "{}: relation {} found; allowed are 0 to {}: those behind are the reverse "
                "ones",
                path.string(), edge.type, build.relations - 1);
          }
          sink(edges);
        });
      },
      build);
  counts_.source = built.edges_source;
  counts_.self_loops = built.self_loops;
  counts_.duplicates = built.duplicates;
  counts_.relations = built.relations;
  const std::vector<float> rows =
      features ? read_edge_features(built.edges_source) : std::vector<float>();
  const CsrView csr = built.csr.view();
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    for (std::int64_t e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
      const auto of_edge = features ? std::span(rows).subspan(built.origins[e] * info.edge_features,
                                                              info.edge_features)
                                    : std::span<const float>();
      add_entry({static_cast<std::int32_t>(row), csr.col_idx[e],
                 built.types.empty() ? std::uint16_t{0} : built.types[e]},
                csr.value(e), of_edge);
    }
  }
}

// Where it is there already, as an import of everything at once would merge the two.
void EdgeChanges::add_entry(const EdgeEntry& entry, float weight, std::span<const float> features) {
  if (!is_gone_.empty()) {
    for (const std::int32_t node : {entry.source, entry.target}) {
      if (is_gone_[node] == 0) continue;
      fail_input("{}: an edge {} -> {}, but node {} is removed by {}", options_.edges.string(),
                 entry.source, entry.target, node, options_.remove_nodes);
    }
  }
  const std::int64_t before = find_entry(graph_, entry);
  if (before < 0) {
    ++counts_.added;
    return added_.add(entry.source, entry.target, weight, entry.type, features);
  }
  const auto gone = std::ranges::lower_bound(removed_, entry);
  if (gone != removed_.end() && *gone == entry) {
    ++counts_.replaced;
    is_back_[gone - removed_.begin()] = 1;
    return added_.add(entry.source, entry.target, weight, entry.type, features);
  }
  ++counts_.known;
  if (!data_.info().weighted) return;
  const double sum =
      static_cast<double>(graph_.in_edges.value(before)) + static_cast<double>(weight);
  const auto merged = static_cast<float>(sum);
  if (!std::isfinite(merged)) {
    fail_input("{}: the weights of edge {} -> {} sum to {}; allowed are finite sums",
               options_.edges.string(), entry.source, entry.target, sum);
  }
  const std::int64_t columns = data_.info().edge_features;
  added_.add(entry.source, entry.target, merged, entry.type,
             columns > 0 ? graph_.edge_features.subspan(before * columns, columns)
                         : std::span<const float>());
}

std::int64_t EdgeChanges::removed_from_source() const {
  const DatasetInfo& info = data_.info();
  // A source that has as many edges as there are entries lists both directions of each.
  const bool listed_once = graph_.symmetric && info.edges_source < info.edges;
  const std::int64_t relations = reverse_ ? info.relations / 2 : info.relations;
  return std::ranges::count_if(removed_, [&](const EdgeEntry& entry) {
    return (!listed_once || entry.source <= entry.target) &&
           (relations == 0 || entry.type < relations);
  });
}

std::int64_t EdgeChanges::write(DeltaWriter& writer) {
  DeltaEdges removed;
  for (std::size_t i = 0; i < removed_.size(); ++i) {
    const EdgeEntry& entry = removed_[i];
    if (is_back_[i] == 0) removed.add(entry.source, entry.target, 0, entry.type);
  }
  writer.write_edges(added_, removed, counts_.added);
  return removed.size();
}

}  // namespace atl
