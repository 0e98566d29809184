#include "datasets/delta_fold.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/paths.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/edge_entry.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// To open one more delta takes about as long as to read this much.
constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;

// Without headers, which would make all small deltas alike.
std::int64_t bytes_of(const Delta& delta) {
  std::int64_t bytes = 0;
  std::error_code none;
  const fs::path ids = delta.folder / kAddedNodeIds;
  if (is_there(ids)) bytes += static_cast<std::int64_t>(fs::file_size(ids, none));
  for (const auto& [name, array] : delta.arrays) bytes += std::ssize(array.value_bytes());
  return bytes;
}

// One that `atoll split` or `atoll features` has changed has all rows; one made by hand may not say
// how many of its edges are new.
bool is_foldable(const Delta& delta) {
  return delta.find(kSplitFile) == nullptr && delta.find("features.npy") == nullptr &&
         delta.json.at("delta").contains("edges_added");
}

// An entry that deltas set or remove, and what the first of them does.
struct Change {
  EdgeEntry entry;
  std::size_t delta;
  bool removed;
};

std::vector<Change> first_changes(std::span<const Delta> deltas) {
  std::vector<Change> changes;
  for (std::size_t l = 0; l < deltas.size(); ++l) {
    for_each_entry(deltas[l], [&](std::int32_t target, std::int32_t source, std::uint16_t type,
                                  bool removed, std::int64_t /*entry*/) {
      changes.push_back({{target, source, type}, l, removed});
    });
  }
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) {
    return std::tie(a.entry, a.delta) < std::tie(b.entry, b.delta);
  });
  const auto again = std::ranges::unique(changes, {}, &Change::entry);
  changes.erase(again.begin(), again.end());
  return changes;
}

void fold_edges(const Dataset& whole, std::span<const Delta> deltas, FoldedDelta& folded) {
  const GraphView graph = whole.graph();
  const std::int64_t columns = graph.edge_feature_columns;
  std::optional<Dataset> base;
  for (const Change& change : first_changes(deltas)) {
    const EdgeEntry& entry = change.entry;
    const std::int64_t e = find_entry(graph, entry);
    if (e >= 0) {
      folded.added.add(entry.source, entry.target, graph.in_edges.value(e), entry.type,
                       columns > 0 ? graph.edge_features.subspan(e * columns, columns)
                                   : std::span<const float>());
      continue;
    }
    // One that is removed first was there. One that is set first and removed later may have been.
    if (!change.removed) {
      if (!base) base = Dataset::open(folded.base);
      if (find_entry(base->graph(), entry) < 0) continue;
    }
    folded.removed.add(entry.source, entry.target, 0, entry.type);
  }
  std::int64_t more = 0;
  for (const Delta& delta : deltas) {
    more += json_field<std::int64_t>(delta.json["delta"], "edges_added",
                                     delta.folder / "dataset.json") -
            delta.rows_of(kRemovedEdges, 1);
  }
  folded.new_ones = more + folded.removed.size();
}

// Nodes of the base that a file of any delta lists.
std::vector<std::int32_t> nodes_in(std::span<const Delta> deltas, const char* name) {
  std::vector<std::int32_t> nodes;
  for (const Delta& delta : deltas) {
    const NpyFile* listed = delta.find(name);
    if (listed == nullptr) continue;
    for (const std::int32_t node : listed->values<std::int32_t>()) {
      if (node < deltas.front().nodes_before) nodes.push_back(node);
    }
  }
  std::ranges::sort(nodes);
  const auto again = std::ranges::unique(nodes);
  nodes.erase(again.begin(), again.end());
  return nodes;
}

}  // namespace

std::size_t deltas_to_fold(const Chain& chain) {
  const std::vector<Delta>& deltas = chain.deltas;
  std::int64_t bytes = bytes_of(deltas.back());
  std::size_t count = 1;
  if (!is_foldable(deltas.back())) return count;
  for (; count < deltas.size(); ++count) {
    const Delta& delta = deltas[deltas.size() - 1 - count];
    const std::int64_t more = bytes_of(delta);
    const bool small = more == 0 || (more < 2 * bytes && bytes + more <= kMostBytes);
    if (!small || !is_foldable(delta)) break;
    bytes += more;
  }
  return count;
}

FoldedDelta fold_deltas(const Dataset& whole, std::size_t count) {
  ATOLL_ASSERT(whole.grown() != nullptr && count >= 1);
  const Chain& chain = whole.grown()->chain();
  const std::size_t first = chain.deltas.size() - count;
  const std::span<const Delta> deltas = std::span(chain.deltas).subspan(first);
  FoldedDelta folded;
  folded.base = first == 0 ? chain.base : chain.deltas[first - 1].folder;
  folded.base_checksum = json_field<std::string>(deltas.front().json["delta"], "base_checksum",
                                                 deltas.front().folder / "dataset.json");
  folded.nodes_before = deltas.front().nodes_before;
  for (const Delta& delta : deltas) {
    const Json& changes = delta.json["delta"];
    const fs::path file = delta.folder / "dataset.json";
    const auto names = json_field_or<std::vector<std::string>>(changes, "folded", file, {});
    folded.names.insert(folded.names.end(), names.begin(), names.end());
    if (&delta != &deltas.back()) {
      folded.names.push_back(without_slash(delta.folder).filename().string());
    }
    const fs::path ids = delta.folder / kAddedNodeIds;
    if (is_there(ids)) folded.node_ids += read_text(ids);
  }
  fold_edges(whole, deltas, folded);
  folded.removed_nodes = nodes_in(deltas, kRemovedNodes);
  folded.changed_nodes = nodes_in(deltas, kChangedNodes);
  return folded;
}

}  // namespace atl
