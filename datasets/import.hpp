// Turns graph files of the usual formats into dataset folders. The formats are listed in
// factory.cpp and described in docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/feature_source.hpp"
#include "datasets/dataset.hpp"
#include "datasets/split.hpp"

namespace atl {

inline constexpr const char* kNoColumn = "none";

struct ImportOptions {
  std::filesystem::path source;  // a folder, a file, or folder/prefix
  std::filesystem::path out;     // the dataset folder to make; must not exist
  std::string name;              // "" = from the source
  bool directed = false;         // else edges count in both directions
  bool keep_self_loops = false;
  // Every edge of relation r also gives the one back, of relation r + the number of relations; the
  // graph is directed then.
  bool reverse_relations = false;
  // edges: columns by their name in the first line, or their number from 1; "" = found by itself.
  // kNoColumn as the weight: none is.
  std::string source_column, target_column, weight_column, relation_column;
  // Text of nodes (labels.csv, ...): the column of their ids, kNoColumn = rows are in the order of
  // the nodes; and, of labels, that of the label.
  std::string id_column, label_column;
  // Ids are whatever they are: numbers them from 0 in ascending order and writes which is which.
  bool renumber = false;
  std::string split_name;               // ogb: which folder of split/; "" = the only one
  bool row_normalize = false;           // scale feature rows to sum 1
  FeatureSource features;               // of a source that has none: made of its graph
  std::optional<SplitSpec> split;       // replaces the set's own
  std::uint64_t seed = 0;               // of `split` and random features
  std::optional<Task> task;             // instead of what the format says
  std::optional<std::int64_t> nodes;    // for formats that don't state the number of nodes
  std::optional<std::int64_t> classes;  // instead of the largest label + 1
};

// Findings of an import besides the data.
struct ImportReport {
  DatasetInfo info;
  std::int64_t self_loops = 0;  // in the source
  std::int64_t duplicates = 0;  // edges merged with an earlier one
};

// Throws Error{kOption} listing the formats if `format` is unknown, Error{kInput} on bad files;
// then nothing is left at options.out.
ImportReport import_dataset(const std::string& format, const ImportOptions& options);
std::vector<std::string> import_formats();

}  // namespace atl
