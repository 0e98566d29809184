#include "datasets/import_session.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/paths.hpp"
#include "base/progress.hpp"
#include "datasets/ascending.hpp"
#include "datasets/made_features.hpp"
#include "datasets/statistics.hpp"

namespace atl {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 15U;  // elements converted at a time

Json describe_options(const ImportOptions& options) {
  Json json = {{"directed", options.directed},
               {"keep_self_loops", options.keep_self_loops},
               {"row_normalize", options.row_normalize}};
  if (options.reverse_relations) json["reverse_relations"] = true;
  const auto note = [&](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = value;
  };
  note("source_column", options.source_column);
  note("target_column", options.target_column);
  note("weight_column", options.weight_column);
  note("relation_column", options.relation_column);
  note("id_column", options.id_column);
  note("label_column", options.label_column);
  note("split_name", options.split_name);
  if (options.renumber) json["renumber"] = true;
  if (options.features.present()) {
    json["features"] = to_string(options.features);
    json["seed"] = options.seed;
  }
  if (options.split) {
    json["split"] = {{"per_class", options.split->per_class},
                     {"train", options.split->amount[0]},
                     {"valid", options.split->amount[1]},
                     {"test", options.split->amount[2]},
                     {"seed", options.seed}};
  }
  if (options.task) json["task"] = to_string(*options.task);
  if (options.nodes) json["nodes"] = *options.nodes;
  if (options.classes) json["classes"] = *options.classes;
  return json;
}

}  // namespace

void write_every_row(ArrayReader reader, FeatureWriter& writer, const char* doing) {
  const std::int64_t count = reader.length(0);
  const std::int64_t columns = reader.length(1);
  const std::int64_t block = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kBlock) / std::max<std::int64_t>(columns, 1));
  std::vector<float> rows;
  Activity activity(doing, count);
  for (std::int64_t row = 0; row < count; row += block) {
    activity.advance_to(row);
    rows.resize(static_cast<std::size_t>(std::min(block, count - row) * columns));
    reader.read(rows);
    writer.add_rows(rows);
  }
  reader.finish();
}

RowStream rows_of(std::function<ArrayReader()> open) {
  return [open = std::move(open)](std::int64_t rows, const RowOpener& open_writer) {
    ArrayReader reader = open();
    if (reader.dimensions() == 1) {
      reader.require_shape({rows});
    } else {
      reader.require_shape({rows, -1});
    }
    FeatureWriter& writer = open_writer(reader.length(1), reader.place());
    write_every_row(std::move(reader), writer, "reading features of edges");
  };
}

FeatureWriter::FeatureWriter(std::unique_ptr<NpyWriter> writer, std::int64_t columns,
                             bool normalize, std::string place, const char* whose)
    : writer_(std::move(writer)),
      columns_(columns),
      normalize_(normalize),
      place_(std::move(place)),
      whose_(whose) {}

void FeatureWriter::add_rows(std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(columns_)) {
    const std::span<float> row = values.subspan(begin, static_cast<std::size_t>(columns_));
    double sum = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      if (!std::isfinite(row[j])) {
        fail_input("{}: feature {} of {} {} is {}; allowed are finite numbers", place_, j, whose_,
                   row_, row[j]);
      }
      sum += static_cast<double>(row[j]);
    }
    if (normalize_ && sum != 0) {
      for (float& value : row) value = static_cast<float>(static_cast<double>(value) / sum);
    }
    ++row_;
  }
  writer_->write(std::span<const float>(values));
}

ImportSession::ImportSession(const std::string& format, const ImportOptions& options)
    : options_(options), writer_(options.out) {
  provenance_["format"] = format;
  provenance_["source"] = options.source.string();
  provenance_["options"] = describe_options(options);
  provenance_["version"] = ATOLL_VERSION;
  writer_.info().edges_source = -1;
  set_name(without_slash(options.source).stem().string());
}

void ImportSession::set_name(const std::string& name) {
  writer_.info().name = options_.name.empty() ? name : options_.name;
}

BuiltGraph ImportSession::graph(const EdgeStream& stream, std::int64_t nodes,
                                const EdgeColumns& columns, const std::string& place) {
  if (options_.reverse_relations && !columns.typed) {
    fail_option("--reverse-relations: the edges of '{}' have no relations", writer_.info().name);
  }
  const bool directed = options_.directed || options_.reverse_relations;
  GraphBuildOptions build;
  build.place = place;
  build.nodes = nodes;
  build.trust_nodes = options_.nodes.has_value();
  build.directed = directed;
  build.keep_self_loops = options_.keep_self_loops;
  build.weighted = columns.weighted;
  build.typed = columns.typed;
  build.relations = columns.relations;
  build.reverse_relations = options_.reverse_relations;
  build.with_origins = columns.features != nullptr;
  build.least_nodes = columns.least_nodes;
  BuiltGraph built = build_graph(stream, build);
  warn_of_isolated(built.csr.view(), directed, place);
  if (built.uneven > 0) {
    const Edge& edge = built.first_uneven;
    log::warn(
        "{}: {} pairs of nodes have another weight in each direction, first {} and {}: {} and {}; "
        "the larger one counts, and --directed keeps both",
        place, built.uneven, edge.source, edge.target, edge.weight, built.first_uneven_back);
  }
  writer_.write_graph(built.csr);
  if (options_.features.present()) write_made_features(built.csr.view(), directed);
  built.csr = {};
  if (columns.typed) writer_.write_edge_types(built.types, built.relations);
  built.types = {};
  if (columns.features) {
    edge_features(columns.features, built);
    built.origins = {};
    provenance_["edge_features_dropped"] = built.merged;
  }
  DatasetInfo& info = writer_.info();
  info.directed = directed;
  if (info.edges_source < 0) info.edges_source = built.edges_source;
  report_.self_loops = built.self_loops;
  report_.duplicates = built.duplicates;
  provenance_["self_loops_found"] = built.self_loops;
  provenance_["self_loops_kept"] = options_.keep_self_loops;
  provenance_["duplicates_merged"] = built.duplicates;
  return built;
}

// Many ids that don't occur are a sign of ids with gaps, where the format has no list of nodes.
void ImportSession::warn_of_isolated(const CsrView& csr, bool directed,
                                     const std::string& place) const {
  const std::vector<std::uint8_t> joined = joined_nodes(csr, !directed);
  const std::int64_t isolated = std::ranges::count(joined, std::uint8_t{0});
  const bool may_have_gaps = can_renumber_ && !options_.renumber;
  if (2 * isolated > csr.rows()) {
    log::warn("{}: {} of {} nodes have no edge to another node{}", place, isolated, csr.rows(),
              may_have_gaps ? "; if ids have gaps, --renumber numbers those that occur" : "");
  } else if (may_have_gaps && !options_.nodes && joined.front() == 0) {
    log::warn("{}: node 0 has no edge; if ids count from 1, --renumber numbers them from 0", place);
  }
}

void ImportSession::node_ids(const NodeIds& ids) {
  writer_.write_node_ids(ids.count(), [&](std::int64_t node) { return ids[node]; });
}

// Features come in the order of the source and are written in that of the graph, by way of a file
// of their own: neither needs to fit into memory.
void ImportSession::edge_features(const RowStream& rows, const BuiltGraph& built) {
  const std::filesystem::path path = writer_.folder() / "edge_features.source.npy";
  std::int64_t columns = 0;
  {
    std::optional<FeatureWriter> source;
    rows(built.edges_source, [&](std::int64_t count, const std::string& place) -> FeatureWriter& {
      columns = count;
      return source.emplace(std::make_unique<NpyWriter>(path, npy_descr<float>(),
                                                        std::vector{built.edges_source, columns}),
                            columns, false, place, "edge");
    });
    if (!source) return;
    source->close();
  }
  const NpyFile source(path);
  const auto values = source.values<float>();
  const auto writer = writer_.write_edge_features(columns);
  const Activity activity("writing features of edges");
  for (const std::int64_t origin : built.origins) {
    writer->write(values.subspan(origin * columns, columns));
  }
  writer->close();
  std::filesystem::remove(path);
}

void ImportSession::node_types(std::span<const std::uint16_t> types, std::int64_t count) {
  const auto largest = std::ranges::max_element(types);
  writer_.write_node_types(types, count > 0 ? count : std::int64_t{*largest} + 1);
  nodes_of_type_.assign(static_cast<std::size_t>(node_type_count()), 0);
  for (const std::uint16_t type : types) ++nodes_of_type_[type];
}

std::unique_ptr<FeatureWriter> ImportSession::features_by_type(
    const std::vector<std::int64_t>& widths, const std::string& place) {
  const auto [least, most] = std::ranges::minmax(widths);
  if (most == 0) return nullptr;
  auto writer = std::make_unique<FeatureWriter>(features(most, place));
  if (least == most) return writer;
  writer_.set_features_by_type(widths);
  log::info("{}: features by type of nodes: {}", place, describe_padding(widths, nodes_of_type_));
  return writer;
}

void ImportSession::write_made_features(const CsrView& csr, bool directed) {
  const FeatureSource& source = options_.features;
  provenance_["features"] = to_string(source);
  if (source.kind == FeatureKind::kEdges) return;  // once theirs are written: write_edge_means()
  const auto writer = writer_.write_features(made_columns(source, directed));
  make_features(source, options_.seed, csr, directed,
                [&](std::span<float> rows) { writer->write(std::span<const float>(rows)); });
  writer->close();
}

FeatureWriter ImportSession::features(std::int64_t columns, const std::string& place) {
  if (options_.features.present()) {
    fail_option("--features {}: {} has {} features for each node; leave the option out",
                to_string(options_.features), place, columns);
  }
  return {writer_.write_features(columns), columns, options_.row_normalize, place};
}

FeatureWriter ImportSession::sparse_features(std::int64_t columns, std::int64_t stored,
                                             const std::string& place) {
  constexpr double kAlwaysAllowed = 1 << 26;
  const double elements = static_cast<double>(nodes()) * static_cast<double>(columns);
  if (elements > std::max(kAlwaysAllowed, 2048.0 * static_cast<double>(stored))) {
    fail_input(
        "{}: {} x {} features of which only {} are stored are too sparse to write as a matrix",
        place, nodes(), columns, stored);
  }
  return features(columns, place);
}

void ImportSession::features(ArrayReader reader) {
  reader.require_shape({nodes(), -1});
  FeatureWriter writer = features(reader.length(1), reader.place());
  write_every_row(std::move(reader), writer, "reading features");
  writer.close();
}

void ImportSession::features(const RowStream& rows) {
  std::optional<FeatureWriter> writer;
  rows(nodes(), [&](std::int64_t columns, const std::string& place) -> FeatureWriter& {
    return writer.emplace(features(columns, place));
  });
  if (writer) writer->close();
}

void ImportSession::splits(const std::vector<std::uint8_t>& splits, std::int64_t count) {
  have_split_ = true;
  if (options_.split) {
    provenance_["own_splits_replaced"] = count;
    return;
  }
  writer_.write_splits(splits, count);
}

void ImportSession::links(const Links& links) {
  if (classes() > 0 || have_split_) {
    fail_input("{}: labels.npy or split.npy is there beside {}; import labels or links",
               source().string(), kLinkFiles[0]);
  }
  links.check(nodes());
  const auto ids_of = [](const NodeIdMatrix& matrix) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < matrix.rows(); ++i) {
      for (std::int64_t j = 0; j < matrix.columns(); ++j) ids.push_back(matrix.at(i, j));
    }
    return ids;
  };
  std::array<std::vector<std::int64_t>, 3> sets;
  for (std::size_t s = 0; s < sets.size(); ++s) sets[s] = ids_of(*links.edges[s]);
  writer_.write_links(sets);
  for (std::size_t s = 0; s < links.negatives.size(); ++s) {
    if (!links.negatives[s]) continue;
    const NodeIdMatrix& ids = links.negatives[s]->ids;
    writer_.write_link_negatives(kLinkNegativeFiles[s], ids_of(ids), ids.columns());
  }
  default_task_ = Task::kLinkPrediction;
}

void ImportSession::write_edge_means() {
  if (const DatasetInfo& info = writer_.info(); info.edge_features == 0) {
    fail_option(
        "--features edges: the edges of '{}' have no features; allowed are degree, constant, "
        "random:D, positional:D",
        info.name);
  }
  const NpyFile row_ptr(writer_.folder() / "row_ptr.npy");
  const NpyFile col_idx(writer_.folder() / "col_idx.npy");
  const NpyFile edges(writer_.folder() / "edge_features.npy");
  const CsrView in_edges{row_ptr.values<std::int64_t>(), col_idx.values<std::int32_t>(), {}};
  const auto writer = writer_.write_features(edges.columns());
  make_edge_means(in_edges, edges.values<float>(), edges.columns(),
                  [&](std::span<float> rows) { writer->write(std::span<const float>(rows)); });
  writer->close();
}

void ImportSession::write_made_split() {
  if (labelled_.empty()) {
    fail_option("--split: '{}' has no labels, so there is nothing to split", writer_.info().name);
  }
  const auto split = make_split(*options_.split, labelled_, labels_, options_.seed);
  writer_.write_splits(split, 1);
}

ImportReport ImportSession::finish() {
  DatasetInfo& info = writer_.info();
  if (options_.features.kind == FeatureKind::kEdges) write_edge_means();
  if (options_.split) write_made_split();
  if (options_.row_normalize && info.features == 0) {
    fail_option("--row-normalize: '{}' has no features", info.name);
  }
  if (options_.classes && info.classes == 0) {
    fail_option("--classes: '{}' has no labels that are classes", info.name);
  }
  info.task = options_.task.value_or(default_task_);
  const bool links = default_task_ == Task::kLinkPrediction;
  if (links != (info.task == Task::kLinkPrediction)) {
    fail_option("--task {}: '{}' has {}", to_string(info.task), info.name,
                links ? "links to predict" : "no links to predict");
  }
  const bool real = default_task_ == Task::kRegression;
  if (info.classes > 0 && real != (info.task == Task::kRegression)) {
    fail_option("--task {}: '{}' has {}", to_string(info.task), info.name,
                real ? "numbers to predict" : "classes that are not read as numbers");
  }
  const bool multi = default_task_ == Task::kMultiLabel;
  if (info.classes > 0 && multi != (info.task == Task::kMultiLabel)) {
    fail_option("--task {}: '{}' has {} label{} per node", to_string(info.task), info.name,
                multi ? info.classes : 1, multi ? "s" : "");
  }
  if (info.task == Task::kBinary && info.classes != 2) {
    fail_option("--task binary: '{}' has {} classes; 2 are needed", info.name, info.classes);
  }
  info.provenance = provenance_;
  report_.info = writer_.commit();
  return report_;
}

void check_node_id(std::int64_t id, std::int64_t nodes, const std::string& place,
                   std::int64_t position) {
  const std::int64_t allowed = (nodes < 0 ? kMaxNodes : nodes) - 1;
  if (id < 0 || id > allowed) {
    fail_input("{}: node id {} at element {}; allowed are 0 to {}", place, id, position, allowed);
  }
}

EdgeValues::EdgeValues(const EdgeValueFiles& files, std::int64_t edges) {
  if (files.open_weights) weights_.emplace(files.open_weights()).require_shape({edges});
  if (files.open_types) types_.emplace(files.open_types()).require_shape({edges});
}

void EdgeValues::read(std::size_t count) {
  weight_.assign(count, 1.0F);
  if (weights_) weights_->read(weight_);
  type_.assign(count, 0);
  if (types_) types_->read(type_);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t position = at_ + static_cast<std::int64_t>(i);
    if (!std::isfinite(weight_[i])) {
      fail_input("{}: element {} is {}; allowed are finite weights", weights_->place(), position,
                 weight_[i]);
    }
    if (type_[i] < 0 || type_[i] >= kMaxTypes) {
      fail_input("{}: element {} is {}; allowed are types 0 to {}", types_->place(), position,
                 type_[i], kMaxTypes - 1);
    }
  }
  at_ += static_cast<std::int64_t>(count);
}

void EdgeValues::finish() {
  if (weights_) weights_->finish();
  if (types_) types_->finish();
}

void stream_edge_index(const std::function<ArrayReader()>& open, std::int64_t nodes,
                       const EdgeValueFiles& files, const EdgeSink& sink, const NodeIds* ids) {
  ArrayReader sources = open();
  ArrayReader targets = open();
  sources.require_shape({2, -1});
  const std::int64_t edges = sources.length(1);
  targets.skip(edges);
  EdgeValues values(files, edges);
  std::vector<std::int64_t> from, to;
  EdgeBlock block(sink);
  Activity activity("reading edges", edges);
  for (std::int64_t at = 0; at < edges; at += static_cast<std::int64_t>(from.size())) {
    activity.advance_to(at);
    from.resize(static_cast<std::size_t>(std::min(static_cast<std::int64_t>(kBlock), edges - at)));
    to.resize(from.size());
    sources.read(from);
    targets.read(to);
    values.read(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::int64_t position = at + static_cast<std::int64_t>(i);
      if (ids != nullptr) {
        from[i] = ids->find(from[i]);
        to[i] = ids->find(to[i]);
      }
      check_node_id(from[i], nodes, sources.place(), position);
      check_node_id(to[i], nodes, targets.place(), edges + position);
      block.add(from[i], to[i], values.weight(i), values.type(i));
    }
  }
  block.flush();
  targets.finish();
  values.finish();
}

std::vector<std::int64_t> read_row_ptr(ArrayReader reader, std::int64_t rows) {
  const std::string place = reader.place();
  std::vector<std::int64_t> row_ptr = read_integers(std::move(reader));
  if (row_ptr.empty() || (rows >= 0 && static_cast<std::int64_t>(row_ptr.size()) != rows + 1)) {
    fail_input("{}: {} entries found, {} expected", place, row_ptr.size(),
               rows >= 0 ? std::to_string(rows + 1) : "rows + 1");
  }
  if (row_ptr.front() != 0) fail_input("{}: starts with {}; 0 is expected", place, row_ptr.front());
  require_ascending(row_ptr, place);
  return row_ptr;
}

}  // namespace atl
