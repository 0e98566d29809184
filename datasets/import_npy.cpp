// Plain NumPy arrays in a folder: edge_index.npy [2, E], or row_ptr.npy and col_idx.npy (row i
// holds the in-edges of node i); optional edge_weights.npy, edge_types.npy, edge_features.npy,
// node_types.npy, features.npy, labels.npy, split.npy; or, without these two, files of links.
// Floating-point labels are numbers to predict, unless --task says that they are classes.
#include <algorithm>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// From --nodes, or from the first node array that is there; -1 if none says it.
std::int64_t stated_nodes(const ImportSession& session) {
  if (session.options().nodes) return *session.options().nodes;
  for (const char* name : {"features.npy", "labels.npy", "node_types.npy", "node_type.npy"}) {
    if (!is_there(session.source() / name)) continue;
    const ArrayReader array = ArrayReader::open_npy(session.source() / name);
    if (array.dimensions() < 1) fail_input("{}: at least one dimension is expected", array.place());
    return array.length(0);
  }
  return -1;
}

// Edges j -> i for every column j of row i.
void stream_csr_rows(const fs::path& folder, std::span<const std::int64_t> row_ptr,
                     const EdgeValueFiles& files, const EdgeSink& sink) {
  ArrayReader columns = ArrayReader::open_npy(folder / "col_idx.npy");
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

void read_split_array(ImportSession& session, const fs::path& path) {
  ArrayReader array = ArrayReader::open_npy(path);
  const bool single = array.dimensions() == 1;
  single ? array.require_shape({session.nodes()}) : array.require_shape({-1, session.nodes()});
  const std::int64_t count = single ? 1 : array.length(0);
  std::vector<std::uint8_t> splits;
  std::vector<std::int64_t> row(static_cast<std::size_t>(session.nodes()));
  for (std::int64_t k = 0; k < count; ++k) {
    array.read(row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool none = row[i] == 255 || row[i] == -1;
      if (!none && (row[i] < 0 || row[i] > 2)) {
        fail_input("{}: split {}, node {} is {}; allowed are 0 train, 1 valid, 2 test, 255 none",
                   array.place(), k, i, row[i]);
      }
      splits.push_back(none ? std::uint8_t{255} : static_cast<std::uint8_t>(row[i]));
    }
  }
  array.finish();
  if (count > 0) session.splits(splits, count);
}

// The file of these names that is there, or an empty path.
fs::path one_of(const fs::path& folder, const char* name, const char* other) {
  const bool both = is_there(folder / name) && is_there(folder / other);
  if (both) fail_input("{}: {} and {} are there; keep one", folder.string(), name, other);
  for (const char* candidate : {name, other}) {
    if (is_there(folder / candidate)) return folder / candidate;
  }
  return {};
}

std::function<ArrayReader()> opener(const fs::path& path) {
  if (path.empty()) return {};
  return [path] { return ArrayReader::open_npy(path); };
}

}  // namespace

std::function<ArrayReader()> edge_features_opener(const fs::path& folder) {
  return opener(one_of(folder, "edge_features.npy", "edge_attr.npy"));
}

void read_node_arrays(ImportSession& session, const fs::path& folder) {
  if (is_there(folder / "features.npy")) {
    session.features(ArrayReader::open_npy(folder / "features.npy"));
  }
  if (is_there(folder / "labels.npy")) {
    ArrayReader labels = ArrayReader::open_npy(folder / "labels.npy");
    const bool real = labels.kind() == 'f' && !session.options().task;
    real ? session.real_labels(std::move(labels)) : session.labels(std::move(labels));
  }
  if (is_there(folder / "split.npy")) read_split_array(session, folder / "split.npy");
  if (const Links links = Links::open(folder); links.there()) session.links(links);
  if (const fs::path types = one_of(folder, "node_types.npy", "node_type.npy"); !types.empty()) {
    session.node_types(TypeArray(types, session.nodes()).values());
  }
}

void import_npy(ImportSession& session) {
  const fs::path& folder = session.source();
  const EdgeValueFiles files{opener(one_of(folder, "edge_weights.npy", "edge_weight.npy")),
                             opener(one_of(folder, "edge_types.npy", "edge_type.npy"))};
  const EdgeColumns columns{.weighted = files.open_weights != nullptr,
                            .typed = files.open_types != nullptr,
                            .open_features = edge_features_opener(folder)};
  if (is_there(folder / "edge_index.npy")) {
    const fs::path path = folder / "edge_index.npy";
    const std::int64_t nodes = stated_nodes(session);
    session.graph(
        [&](const EdgeSink& sink) { stream_edge_index(opener(path), nodes, files, sink); }, nodes,
        columns, path.string());
  } else if (is_there(folder / "row_ptr.npy")) {
    const fs::path path = folder / "row_ptr.npy";
    const std::vector<std::int64_t> row_ptr = read_row_ptr(ArrayReader::open_npy(path), -1);
    session.graph([&](const EdgeSink& sink) { stream_csr_rows(folder, row_ptr, files, sink); },
                  static_cast<std::int64_t>(row_ptr.size()) - 1, columns, path.string());
  } else {
    fail_input("{}: neither edge_index.npy nor row_ptr.npy is there", folder.string());
  }
  read_node_arrays(session, folder);
}

}  // namespace atl
