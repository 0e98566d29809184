// Plain NumPy arrays in a folder or a .npz archive: edge_index [2, E], or row_ptr and col_idx (row
// i holds the in-edges of node i); optional arrays of edges and nodes, by the names of dataset
// folders or of PyTorch Geometric (docs/formats.md); or, instead of labels and split, files of
// links. Floating-point labels are numbers to predict, unless --task says that they are classes.
#include <algorithm>
#include <array>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/named_arrays.hpp"
#include "datasets/node_sets.hpp"
#include "datasets/type_array.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// In dataset folders and in PyTorch Geometric.
const std::vector<std::string> kFeatures = {"features", "x"};
const std::vector<std::string> kLabels = {"labels", "y"};
const std::vector<std::string> kNodeTypes = {"node_types", "node_type"};

// Names for features of one type of nodes.
std::vector<std::string> names_by_type(std::size_t type) {
  std::vector<std::string> names;
  for (const std::string& name : kFeatures) names.push_back(fmt::format("{}_{}", name, type));
  return names;
}

// The first array of features of one of so many types of nodes; empty if there is none.
std::string first_by_type(const NamedArrays& arrays, std::size_t types) {
  for (std::size_t t = 0; t < types; ++t) {
    for (const std::string& name : names_by_type(t)) {
      if (arrays.has(name)) return name;
    }
  }
  return "";
}

// Names for the nodes of one set, in the order of the sets' numbers. NodeSets takes either for what
// it is.
struct SetNames {
  std::vector<std::string> mask;
  std::vector<std::string> ids;
};
const std::array<SetNames, 3> kSets = {{{{"train_mask"}, {"train_idx"}},
                                        {{"val_mask", "valid_mask"}, {"val_idx", "valid_idx"}},
                                        {{"test_mask"}, {"test_idx"}}}};

// Edges j -> i for every column j of row i.
void stream_csr_rows(const NamedArrays::Opener& open_columns, std::span<const std::int64_t> row_ptr,
                     const EdgeValueFiles& files, const EdgeSink& sink) {
  ArrayReader columns = open_columns();
  columns.require_shape({row_ptr.back()});
  EdgeValues values(files, row_ptr.back());
  const auto nodes = static_cast<std::int64_t>(row_ptr.size()) - 1;
  std::vector<std::int64_t> row;
  EdgeBlock block(sink);
  Activity activity("reading edges", row_ptr.back());
  for (std::int64_t i = 0; i < nodes; ++i) {
    activity.advance_to(row_ptr[i]);
    row.resize(static_cast<std::size_t>(row_ptr[i + 1] - row_ptr[i]));
    columns.read(row);
    values.read(row.size());
    for (std::size_t e = 0; e < row.size(); ++e) {
      const std::int64_t position = row_ptr[i] + static_cast<std::int64_t>(e);
      check_node_id(row[e], nodes, columns.place(), position);
      block.add(row[e], i, values.weight(e), values.type(e));
    }
  }
  block.flush();
  columns.finish();
  values.finish();
}

void read_split_array(ImportSession& session, ArrayReader array) {
  if (array.kind() == 'b') {
    fail_input("{}: its elements are booleans; allowed are 0 train, 1 valid, 2 test, 255 none",
               array.place());
  }
  const bool column = array.dimensions() == 2 && array.length(1) == 1;  // [nodes, 1]
  const bool single = array.dimensions() == 1 || column;
  if (column) {
    array.require_shape({session.nodes(), 1});
  } else if (single) {
    array.require_shape({session.nodes()});
  } else {
    array.require_shape({-1, session.nodes()});
  }
  const std::int64_t count = single ? 1 : array.length(0);
  std::vector<std::uint8_t> splits;
  std::vector<std::int64_t> row(static_cast<std::size_t>(session.nodes()));
  for (std::int64_t k = 0; k < count; ++k) {
    array.read(row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool none = row[i] == kNoSet || row[i] == -1;
      if (!none && (row[i] < 0 || row[i] > 2)) {
        fail_input("{}: split {}, node {} is {}; allowed are 0 train, 1 valid, 2 test, 255 none",
                   array.place(), k, i, row[i]);
      }
      splits.push_back(none ? kNoSet : static_cast<std::uint8_t>(row[i]));
    }
  }
  array.finish();
  if (count > 0) session.splits(splits, count);
}

// split, masks or lists of ids.
void read_splits(ImportSession& session, NamedArrays& arrays) {
  const NamedArrays::Opener split = arrays.find({"split"});
  std::array<NamedArrays::Opener, 3> masks;
  std::array<NamedArrays::Opener, 3> ids;
  bool has_masks = false;
  bool has_ids = false;
  for (std::size_t s = 0; s < kSets.size(); ++s) {
    masks.at(s) = arrays.find(kSets.at(s).mask);
    ids.at(s) = arrays.find(kSets.at(s).ids);
    has_masks = has_masks || masks.at(s);
    has_ids = has_ids || ids.at(s);
  }
  if ((split ? 1 : 0) + (has_masks ? 1 : 0) + (has_ids ? 1 : 0) > 1) {
    fail_input("{}: it has several of split, *_mask and *_idx; keep one kind",
               arrays.source().string());
  }
  if (split) return read_split_array(session, split());
  const auto require_mask = [&](const NamedArrays::Opener& open,
                                const std::vector<std::string>& names) {
    if (!open || !arrays.renumbered() || arrays.find_table(names) != nullptr) return;
    if (NodeSets::nodes_of_mask(open) >= 0) return;
    fail_input(
        "{}: ids in arrays can't be renumbered; save them as text, one per line, or as a "
        "mask in ascending order of the ids",
        open().place());
  };
  NodeSets sets(session.nodes());
  for (std::uint8_t s = 0; s < kSets.size(); ++s) {
    require_mask(masks.at(s), kSets.at(s).mask);
    require_mask(ids.at(s), kSets.at(s).ids);
    if (masks.at(s)) sets.add(masks.at(s), s, NodeSets::Named::kMask);
    if (ids.at(s)) sets.add(ids.at(s), s, NodeSets::Named::kIds);
  }
  sets.hand_over(session);
}

// Features of the nodes of one type, in ascending order of the nodes, read in blocks.
class FeaturesOfType {
 public:
  FeaturesOfType(ArrayReader array, std::int64_t nodes) : array_(std::move(array)) {
    array_.require_shape({nodes, -1});
    left_ = array_.elements();
  }
  std::int64_t width() const { return array_.length(1); }
  std::span<const float> next() {
    const auto columns = static_cast<std::size_t>(width());
    if (columns == 0) return {};
    if (at_ == block_.size()) {
      const std::int64_t rows = std::max<std::int64_t>(1, kBlock / width());
      block_.resize(static_cast<std::size_t>(std::min(left_, rows * width())));
      array_.read(block_);
      left_ -= std::ssize(block_);
      at_ = 0;
    }
    at_ += columns;
    return std::span(block_).subspan(at_ - columns, columns);
  }
  void finish() { array_.finish(); }

 private:
  static constexpr std::int64_t kBlock = 1 << 12;
  ArrayReader array_;
  std::int64_t left_ = 0;
  std::vector<float> block_;
  std::size_t at_ = 0;
};

// features_0, features_1, ... of the types of nodes that have some.
void read_features_by_type(ImportSession& session, NamedArrays& arrays,
                           std::span<const std::uint16_t> type_of) {
  const std::int64_t count = session.node_type_count();
  std::vector<std::optional<FeaturesOfType>> types(static_cast<std::size_t>(count));
  std::vector<std::int64_t> widths(types.size(), 0);
  for (std::size_t t = 0; t < types.size(); ++t) {
    const std::vector<std::string> names = names_by_type(t);
    if (std::ranges::none_of(names, [&](const auto& name) { return arrays.has(name); })) continue;
    const auto nodes = std::ranges::count(type_of, static_cast<std::uint16_t>(t));
    types[t].emplace(arrays.find(names)(), nodes);
    widths[t] = types[t]->width();
  }
  const auto writer = session.features_by_type(widths, arrays.source().string());
  if (!writer) return;
  std::vector<float> row(static_cast<std::size_t>(std::ranges::max(widths)));
  for (const std::uint16_t type : type_of) {
    std::ranges::fill(row, 0.0F);
    if (types[type]) std::ranges::copy(types[type]->next(), row.begin());
    writer->add_rows(row);
  }
  for (std::optional<FeaturesOfType>& type : types) {
    if (type) type->finish();
  }
  writer->close();
}

// Reads the features of all nodes from one array, or of each type from one of its own.
void read_features(ImportSession& session, NamedArrays& arrays,
                   std::span<const std::uint16_t> type_of) {
  const NamedArrays::Opener features = arrays.find(kFeatures);
  constexpr std::size_t kLooked = 64;  // without types, at the names of so many
  const auto count = static_cast<std::size_t>(session.node_type_count());
  const std::string by_type = first_by_type(arrays, type_of.empty() ? kLooked : count);
  if (!by_type.empty() && type_of.empty()) {
    fail_input(
        "{}: {} is there, but neither node_types nor node_type, which say what type each node is",
        arrays.source().string(), by_type);
  }
  if (!by_type.empty() && features) {
    fail_input("{}: {} and features of all nodes are there; keep one kind",
               arrays.source().string(), by_type);
  }
  if (features) return session.features(features());
  if (!by_type.empty()) read_features_by_type(session, arrays, type_of);
}

}  // namespace

RowStream find_edge_features(NamedArrays& arrays) {
  const NamedArrays::Opener open = arrays.find({"edge_features", "edge_attr"});
  return open ? rows_of(open) : RowStream();
}

// From --nodes, or from the first array of nodes that is there.
StatedNodes stated_nodes(const ImportSession& session, NamedArrays& arrays) {
  StatedNodes stated;
  if (session.options().nodes) stated.exact = *session.options().nodes;
  // Whether it is text, of which rows without ids state the number of nodes.
  const auto is_text = [&](const std::vector<std::string>& names) {
    const TextTable* table = arrays.find_table(names);
    if (table == nullptr) return false;
    if (table->in_order()) stated.exact = table->rows();
    stated.least = std::max(stated.least, table->least_nodes());
    return true;
  };
  for (const auto& names : {kFeatures, kLabels, kNodeTypes}) {
    if (stated.exact >= 0) return stated;
    if (is_text(names)) continue;
    const NamedArrays::Opener open = arrays.find(names);
    if (!open) continue;
    const ArrayReader array = open();
    if (array.dimensions() < 1) fail_input("{}: at least one dimension is expected", array.place());
    if (array.length(0) == 0) {
      fail_input("{}: there are no rows in it; a graph has at least one node", array.place());
    }
    stated.exact = array.length(0);
    log::info("{}: {} rows, one per node", array.place(), stated.exact);
  }
  for (const SetNames& set : kSets) {
    for (const auto& names : {set.mask, set.ids}) {
      if (stated.exact >= 0) return stated;
      if (is_text(names)) continue;
      const NamedArrays::Opener open = arrays.find(names);
      if (open) stated.exact = NodeSets::nodes_of_mask(open);
    }
  }
  return stated;
}

StatedNodes renumbered_nodes(const ImportSession& session, NodeIds& ids, NamedArrays* arrays) {
  if (session.options().nodes) {
    fail_option("--nodes {}: --renumber counts the nodes itself", *session.options().nodes);
  }
  if (arrays != nullptr) {
    if (arrays->in_folder() && Links::open(arrays->source(), LinkText::kRead).there()) {
      fail_option("--renumber: {} has links to predict, which can't be renumbered",
                  arrays->source().string());
    }
    for (const TextTable* table : arrays->tables()) table->collect(ids);
  }
  ids.finish();
  log::info("{} different ids of nodes, {}", ids.count(),
            ids.are_numbers() ? "numbered in ascending order" : "text, numbered in its order");
  return {.exact = ids.count()};
}

void read_node_arrays(ImportSession& session, NamedArrays& arrays) {
  std::vector<std::uint16_t> types;
  if (const NamedArrays::Opener open = arrays.find(kNodeTypes)) {
    types = read_types(open(), session.nodes());
    session.node_types(types);
  }
  read_features(session, arrays, types);
  if (const NamedArrays::Opener labels = arrays.find(kLabels)) {
    session.labels_or_numbers(labels);
    const TextTable* table = arrays.find_table(kLabels);
    if (table != nullptr && !table->words().empty()) session.note("class_names", table->words());
  }
  read_splits(session, arrays);
  if (arrays.in_folder()) {
    const Links links = Links::open(arrays.source(), LinkText::kRead);
    if (links.there()) session.links(links);
    for (const auto& edges : links.edges) {
      if (edges) arrays.note_read(edges->path());
    }
    for (const auto& negatives : links.negatives) {
      if (negatives) arrays.note_read(negatives->ids.path());
    }
  }
  arrays.warn_of_others();
  arrays.require_columns_read();
}

namespace {

// The only file of a folder that is a matrix of SciPy; empty if there is none or several.
fs::path find_scipy_matrix(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".npz" || !is_zip_archive(path)) continue;
    if (is_scipy_matrix(NpzArchive(path))) found.push_back(path);
  }
  return found.size() == 1 ? found.front() : fs::path();
}

// Adds the ids of both ends of all edges.
void collect_index_ids(ArrayReader edges, NodeIds& ids) {
  edges.require_shape({2, -1});
  each_value<std::int64_t>(edges, [&](std::int64_t id, std::int64_t) { ids.add(id); });
}

void read_edge_index(ImportSession& session, NamedArrays& arrays, const NamedArrays::Opener& edges,
                     const EdgeValueFiles& files, EdgeColumns columns) {
  const std::string place = arrays.place("edge_index");
  std::shared_ptr<NodeIds> ids;
  StatedNodes stated;
  session.allow_renumbering();
  if (session.options().renumber) {
    ids = std::make_shared<NodeIds>(place);
    collect_index_ids(edges(), *ids);
    stated = renumbered_nodes(session, *ids, &arrays);
  } else {
    stated = stated_nodes(session, arrays);
    columns.least_nodes = stated.least;
  }
  session.graph(
      [&](const EdgeSink& sink) { stream_edge_index(edges, stated.exact, files, sink, ids.get()); },
      stated.exact, columns, place);
  if (ids) session.node_ids(*ids);
  arrays.set_nodes(session.nodes(), ids);
}

}  // namespace

void import_npy(ImportSession& session) {
  NamedArrays arrays(session.source(), session.scratch(), session.table_columns());
  if (!arrays.in_folder() && is_scipy_matrix(NpzArchive(session.source()))) {
    return import_scipy_matrix(session, session.source());
  }
  const EdgeValueFiles files{arrays.find({"edge_weights", "edge_weight"}),
                             arrays.find({"edge_types", "edge_type"})};
  const EdgeColumns columns{.weighted = files.open_weights != nullptr,
                            .typed = files.open_types != nullptr,
                            .features = find_edge_features(arrays)};
  const NamedArrays::Opener edges = arrays.find({"edge_index"});
  const NamedArrays::Opener rows = edges ? edges : arrays.find({"row_ptr"});
  if (!edges && session.options().renumber) {
    fail_option("--renumber: {} has no edge_index, whose ids could be renumbered",
                arrays.source().string());
  }
  if (edges) {
    read_edge_index(session, arrays, edges, files, columns);
  } else if (rows) {
    const NamedArrays::Opener col_idx = arrays.find({"col_idx"});
    if (!col_idx) fail_input("{}: row_ptr is there, but col_idx is not", arrays.source().string());
    const std::vector<std::int64_t> row_ptr = read_row_ptr(rows(), -1);
    session.graph([&](const EdgeSink& sink) { stream_csr_rows(col_idx, row_ptr, files, sink); },
                  static_cast<std::int64_t>(row_ptr.size()) - 1, columns, arrays.place("row_ptr"));
  } else {
    const fs::path matrix = arrays.in_folder() ? find_scipy_matrix(arrays.source()) : fs::path();
    if (matrix.empty()) {
      fail_input("{}: neither edge_index.npy nor row_ptr.npy nor a single matrix of SciPy is there",
                 arrays.source().string());
    }
    arrays.note_read(matrix);
    import_scipy_matrix(session, matrix);
  }
  if (!edges) arrays.set_nodes(session.nodes());
  read_node_arrays(session, arrays);
}

}  // namespace atl
