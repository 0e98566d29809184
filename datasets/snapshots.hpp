// Imports a graph whose nodes came one after the other as a sequence of datasets that grow:
// `atoll import --snapshots`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/import.hpp"

namespace atl {

// The years in which nodes came, beside dataset.json of what `import ogb` makes; nothing of it
// counts for the dataset.
inline constexpr const char* kNodeYearFile = "node_year.npy";

// A whole number per node, of an array or of a file: .npy, or text with one per line. Throws
// Error{kInput} unless there are as many as nodes.
std::vector<std::int64_t> read_years(ArrayReader reader, std::int64_t nodes);
std::vector<std::int64_t> read_years(const std::filesystem::path& path, std::int64_t nodes);

struct SnapshotOptions {
  // A whole number per node, such as its year, in the source's order; .npy or text. Of format ogb
  // also "node_year": that of the set.
  std::filesystem::path years;
  std::optional<std::int64_t> from;  // the first snapshot's; else the smallest
};

struct Snapshot {
  std::int64_t year = 0;
  std::filesystem::path folder;
  DatasetInfo info;
  bool was_there = false;  // before, with the same content
};

// Makes OUT@YEAR for each year: the first one whole, with all nodes up to it, then deltas, each
// beside the one before. Nodes are numbered in the order of their snapshots, and inside of one in
// that of the source; node_ids.txt has their ids there. An edge is there from the first snapshot on
// that has both of its ends. options.split is drawn among the new nodes of each, so that no role
// ever changes. A folder that is there already is kept if its content is the same. Throws as
// import_dataset does.
std::vector<Snapshot> import_snapshots(const std::string& format, const ImportOptions& options,
                                       const SnapshotOptions& snapshots);

}  // namespace atl
