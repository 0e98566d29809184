// Lets a dataset grow: what is new, gone or changed becomes a delta beside it (`atoll append`), and
// a chain of deltas becomes one folder again (`atoll compact`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "datasets/dataset.hpp"

namespace atl {

// Files are .npy, or text as of an import; empty: there is none. Rows of nodes are in the order of
// the new nodes, whose ids follow those of the dataset.
struct AppendOptions {
  std::filesystem::path data;  // the dataset that grows, which may be a delta
  std::filesystem::path out;   // the folder to make; must not exist
  std::string name;            // "" = that of the folder
  std::string nodes;           // features of the new nodes, or, without features, how many they are
  std::filesystem::path labels, node_types, node_ids;
  std::string split;       // a file of roles, or as parse_split: drawn from the new labelled nodes
  std::uint64_t seed = 0;  // of `split`
  std::filesystem::path edges, edge_weights, edge_types, edge_features;
  bool keep_self_loops = false;        // else as the dataset was imported
  std::string remove_nodes;            // as read_node_list()
  std::filesystem::path remove_edges;  // pairs, as edges
  std::string change_features;         // nodes as read_node_list(), a comma, a file of rows
};

struct AppendReport {
  DatasetInfo info;
  std::int64_t nodes_added = 0;
  std::int64_t nodes_removed = 0;
  std::int64_t entries_added = 0;  // of col_idx
  std::int64_t entries_removed = 0;
  std::int64_t entries_replaced = 0;  // that were removed and added again
  std::int64_t entries_known = 0;     // that were there before
  std::int64_t features_changed = 0;
  std::int64_t self_loops = 0;  // dropped, unless they are kept
  std::int64_t duplicates = 0;  // merged within the new edges
  bool self_loops_kept = false;
};

// Throws Error{kInput} on bad files and Error{kOption} if what the dataset has is missing for the
// new nodes or edges, or the other way round, or if options.out lies inside of a dataset; then
// nothing is left at options.out. Edges are given both directions, merged and cleaned as by
// import_dataset; those between removed nodes and others go with the nodes.
AppendReport append_dataset(const AppendOptions& options);

// Writes what a delta and its bases give as one folder. Its checksum is that of the delta. Throws
// Error{kOption} if `folder` is whole already, or `out` lies inside of a dataset.
DatasetInfo compact_dataset(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace atl
