// A dataset folder that holds only what changed since another one, its base. The base may be such a
// delta itself: a chain, which begins with a whole folder (docs/formats.md, "Deltas").
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/npy.hpp"

namespace atl {

inline constexpr const char* kDeltaFormat = "atoll-delta";

// Rows of new nodes, in their order.
inline constexpr const char* kAddedFeatures = "added_features.npy";
inline constexpr const char* kAddedLabels = "added_labels.npy";
inline constexpr const char* kAddedSplit = "added_split.npy";
inline constexpr const char* kAddedNodeTypes = "added_node_types.npy";
inline constexpr const char* kAddedNodeIds = "added_node_ids.txt";
// Entries that are there from now on: sources and targets [2, entries], ascending by target, source
// and type. One that was there before gets these values. A delta always has the first file.
inline constexpr const char* kAddedEdges = "added_edges.npy";
inline constexpr const char* kAddedWeights = "added_edge_weights.npy";
inline constexpr const char* kAddedTypes = "added_edge_types.npy";
inline constexpr const char* kAddedEdgeFeatures = "added_edge_features.npy";
// Entries that are no longer there.
inline constexpr const char* kRemovedEdges = "removed_edges.npy";
inline constexpr const char* kRemovedTypes = "removed_edge_types.npy";
inline constexpr const char* kRemovedNodes = "removed_nodes.npy";
inline constexpr const char* kChangedNodes = "changed_nodes.npy";
inline constexpr const char* kChangedFeatures = "changed_features.npy";

struct Delta {
  std::filesystem::path folder;
  Json json;                      // its dataset.json
  std::int64_t nodes_before = 0;  // of the base
  std::int64_t nodes = 0;
  std::map<std::string, NpyFile, std::less<>> arrays;  // by name; those that are there

  std::int64_t nodes_added() const { return nodes - nodes_before; }
  // Null if it isn't there.
  const NpyFile* find(const char* name) const;
  std::int64_t rows_of(const char* name, std::size_t axis = 0) const;
};

// Visits entries that the delta removes, and then those that it sets: visit(target, source, type,
// removed, place in the delta's arrays). Types are 0 where edges have none.
template <typename Visit>
void for_each_entry(const Delta& delta, const Visit& visit) {
  for (const bool removed : {true, false}) {
    const NpyFile* edges = delta.find(removed ? kRemovedEdges : kAddedEdges);
    if (edges == nullptr) continue;
    const NpyFile* types = delta.find(removed ? kRemovedTypes : kAddedTypes);
    const std::int64_t count = edges->columns();
    const auto ids = edges->values<std::int32_t>();
    const auto of_types =
        types == nullptr ? std::span<const std::uint16_t>() : types->values<std::uint16_t>();
    for (std::int64_t e = 0; e < count; ++e) {
      visit(ids[count + e], ids[e], of_types.empty() ? std::uint16_t{0} : of_types[e], removed, e);
    }
  }
}

struct Chain {
  std::filesystem::path base;  // whole
  std::vector<Delta> deltas;   // the oldest first
};

bool is_delta(const Json& dataset_json);

// The parts of `folder`, whose dataset.json is `json`. Throws Error{kInput} if a base is not
// there, has changed since or is its own base, or if a file is missing or of another size, type or
// shape than its dataset.json says; of values, checks that they are nodes. Without `with_split`: as
// Dataset::open.
Chain read_chain(const std::filesystem::path& folder, const Json& json, bool with_split = true);

// Compares every file of a chain with its checksum in the dataset.json of its folder. Without
// `with_split`: as Dataset::open.
void check_chain_files(const Chain& chain, bool with_split = true);

// Where each folder of the chain lies, and what it adds: for `atoll info`.
Json describe_chain(const Chain& chain);

// The files of a whole dataset folder by name, in memory. What a file of the chain has in one piece
// is mapped, not copied.
using WholeFiles = std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>>;
// {name: {"bytes": n, "xxh3": hex}}, as of files on the disk.
Json describe_files(const WholeFiles& files);

class EdgeMerge;

// A dataset folder that is a delta: its chain, and the files that a whole folder would hold, all
// deltas at once in one pass over the base.
class GrownFolder {
 public:
  // `edges`: how many entries the rows will have, if known: then they are merged when they are
  // first asked for, as many commands never do.
  GrownFolder(Chain chain, bool with_split, std::optional<std::int64_t> edges);
  GrownFolder(const GrownFolder&) = delete;
  GrownFolder& operator=(const GrownFolder&) = delete;
  ~GrownFolder();

  const Chain& chain() const { return chain_; }
  // Those of edges (row_ptr.npy, col_idx.npy and what else they have) may have no values yet.
  const WholeFiles& files() const { return files_; }
  // All with their values. Throws Error{kInput} if `edges` was wrong. Any thread may call it.
  const WholeFiles& merged() const;

 private:
  Chain chain_;
  WholeFiles files_;
  std::unique_ptr<EdgeMerge> edges_;
};

}  // namespace atl
