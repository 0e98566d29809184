// Plain NumPy arrays in a folder: edge_index.npy [2, E], or row_ptr.npy and col_idx.npy (row i
// holds the in-edges of node i); optional edge_weights.npy, features.npy, labels.npy, split.npy.
#include <algorithm>
#include <cmath>

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
  for (const char* name : {"features.npy", "labels.npy"}) {
    if (!is_there(session.source() / name)) continue;
    const ArrayReader array = ArrayReader::open_npy(session.source() / name);
    if (array.dimensions() < 1) fail_input("{}: at least one dimension is expected", array.place());
    return array.length(0);
  }
  return -1;
}

// Edges j -> i for every column j of row i.
void stream_csr_rows(const fs::path& folder, std::span<const std::int64_t> row_ptr, bool weighted,
                     const EdgeSink& sink) {
  ArrayReader columns = ArrayReader::open_npy(folder / "col_idx.npy");
  columns.require_shape({row_ptr.back()});
  std::optional<ArrayReader> weights;
  if (weighted) {
    weights.emplace(ArrayReader::open_npy(folder / "edge_weights.npy"));
    weights->require_shape({row_ptr.back()});
  }
  const auto nodes = static_cast<std::int64_t>(row_ptr.size()) - 1;
  std::vector<std::int64_t> row;
  std::vector<float> weight;
  EdgeBlock block(sink);
  Activity activity("reading edges", row_ptr.back());
  for (std::int64_t i = 0; i < nodes; ++i) {
    activity.advance_to(row_ptr[i]);
    row.resize(static_cast<std::size_t>(row_ptr[i + 1] - row_ptr[i]));
    columns.read(row);
    weight.assign(row.size(), 1.0F);
    if (weights) weights->read(weight);
    for (std::size_t e = 0; e < row.size(); ++e) {
      const std::int64_t position = row_ptr[i] + static_cast<std::int64_t>(e);
      check_node_id(row[e], nodes, columns.place(), position);
      if (!std::isfinite(weight[e])) {
        fail_input("{}: element {} is {}; allowed are finite weights", weights->place(), position,
                   weight[e]);
      }
      block.add(row[e], i, weight[e]);
    }
  }
  block.flush();
  columns.finish();
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

}  // namespace

void read_node_arrays(ImportSession& session, const fs::path& folder) {
  if (is_there(folder / "features.npy")) {
    session.features(ArrayReader::open_npy(folder / "features.npy"));
  }
  if (is_there(folder / "labels.npy")) session.labels(ArrayReader::open_npy(folder / "labels.npy"));
  if (is_there(folder / "split.npy")) read_split_array(session, folder / "split.npy");
}

void import_npy(ImportSession& session) {
  const fs::path& folder = session.source();
  const bool weighted = is_there(folder / "edge_weights.npy");
  if (is_there(folder / "edge_index.npy")) {
    const fs::path path = folder / "edge_index.npy";
    const std::int64_t nodes = stated_nodes(session);
    const std::function<ArrayReader()> edges = [&] { return ArrayReader::open_npy(path); };
    const std::function<ArrayReader()> weights = [&] {
      return ArrayReader::open_npy(folder / "edge_weights.npy");
    };
    session.graph(
        [&](const EdgeSink& sink) {
          stream_edge_index(edges, nodes, weighted ? &weights : nullptr, sink);
        },
        nodes, weighted, path.string());
  } else if (is_there(folder / "row_ptr.npy")) {
    const fs::path path = folder / "row_ptr.npy";
    const std::vector<std::int64_t> row_ptr = read_row_ptr(ArrayReader::open_npy(path), -1);
    session.graph([&](const EdgeSink& sink) { stream_csr_rows(folder, row_ptr, weighted, sink); },
                  static_cast<std::int64_t>(row_ptr.size()) - 1, weighted, path.string());
  } else {
    fail_input("{}: neither edge_index.npy nor row_ptr.npy is there", folder.string());
  }
  read_node_arrays(session, folder);
}

}  // namespace atl
