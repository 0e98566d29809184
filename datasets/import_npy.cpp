// Plain NumPy arrays in a folder or a .npz archive: edge_index [2, E], or row_ptr and col_idx (row
// i holds the in-edges of node i); optional arrays of edges and nodes, by the names of dataset
// folders or of PyTorch Geometric (docs/formats.md); or, instead of labels and split, files of
// links. Floating-point labels are numbers to predict, unless --task says that they are classes.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/files.hpp"
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

// What the nodes of one set may be called, in the order of the sets' numbers. NodeSets takes either
// for what it is.
struct SetNames {
  std::vector<std::string> mask;
  std::vector<std::string> ids;
};
const std::array<SetNames, 3> kSets = {{{{"train_mask"}, {"train_idx"}},
                                        {{"val_mask", "valid_mask"}, {"val_idx", "valid_idx"}},
                                        {{"test_mask"}, {"test_idx"}}}};

// From --nodes, or from the first array of nodes that is there; -1 if none says it.
std::int64_t stated_nodes(const ImportSession& session, NamedArrays& arrays) {
  if (session.options().nodes) return *session.options().nodes;
  for (const auto& names : {kFeatures, kLabels, kNodeTypes}) {
    const NamedArrays::Opener open = arrays.find(names);
    if (!open) continue;
    const ArrayReader array = open();
    if (array.dimensions() < 1) fail_input("{}: at least one dimension is expected", array.place());
    if (array.length(0) == 0) {
      fail_input("{}: there are no rows in it; a graph has at least one node", array.place());
    }
    return array.length(0);
  }
  for (const SetNames& set : kSets) {
    for (const auto& names : {set.mask, set.ids}) {
      const NamedArrays::Opener open = arrays.find(names);
      const std::int64_t nodes = open ? NodeSets::nodes_of_mask(open) : -1;
      if (nodes >= 0) return nodes;
    }
  }
  return -1;
}

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
  NodeSets sets(session.nodes());
  for (std::uint8_t s = 0; s < kSets.size(); ++s) {
    if (masks.at(s)) sets.add(masks.at(s), s, NodeSets::Named::kMask);
    if (ids.at(s)) sets.add(ids.at(s), s, NodeSets::Named::kIds);
  }
  sets.hand_over(session);
}

}  // namespace

NamedArrays::Opener find_edge_features(NamedArrays& arrays) {
  return arrays.find({"edge_features", "edge_attr"});
}

void read_node_arrays(ImportSession& session, NamedArrays& arrays) {
  if (const NamedArrays::Opener features = arrays.find(kFeatures)) session.features(features());
  if (const NamedArrays::Opener labels = arrays.find(kLabels)) session.labels_or_numbers(labels);
  read_splits(session, arrays);
  if (arrays.in_folder()) {
    const Links links = Links::open(arrays.source(), LinkText::kRead);
    if (links.there()) session.links(links);
    for (const char* file : kLinkFiles) arrays.find({fs::path(file).stem().string()});
    for (const char* file : kLinkNegativeFiles) arrays.find({fs::path(file).stem().string()});
  }
  if (const NamedArrays::Opener types = arrays.find(kNodeTypes)) {
    session.node_types(read_types(types(), session.nodes()));
  }
  arrays.warn_of_others();
}

void import_npy(ImportSession& session) {
  NamedArrays arrays(session.source(), session.scratch());
  const EdgeValueFiles files{arrays.find({"edge_weights", "edge_weight"}),
                             arrays.find({"edge_types", "edge_type"})};
  const EdgeColumns columns{.weighted = files.open_weights != nullptr,
                            .typed = files.open_types != nullptr,
                            .open_features = find_edge_features(arrays)};
  if (const NamedArrays::Opener edges = arrays.find({"edge_index"})) {
    const std::int64_t nodes = stated_nodes(session, arrays);
    session.graph([&](const EdgeSink& sink) { stream_edge_index(edges, nodes, files, sink); },
                  nodes, columns, arrays.place("edge_index"));
  } else if (const NamedArrays::Opener rows = arrays.find({"row_ptr"})) {
    const NamedArrays::Opener col_idx = arrays.find({"col_idx"});
    if (!col_idx) fail_input("{}: row_ptr is there, but col_idx is not", arrays.source().string());
    const std::vector<std::int64_t> row_ptr = read_row_ptr(rows(), -1);
    session.graph([&](const EdgeSink& sink) { stream_csr_rows(col_idx, row_ptr, files, sink); },
                  static_cast<std::int64_t>(row_ptr.size()) - 1, columns, arrays.place("row_ptr"));
  } else {
    fail_input("{}: neither edge_index.npy nor row_ptr.npy is there", arrays.source().string());
  }
  read_node_arrays(session, arrays);
}

}  // namespace atl
