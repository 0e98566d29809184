// The one place that writes a dataset folder (docs/formats.md): arrays first, dataset.json with
// their checksums last, renamed into place when complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/csr.hpp"
#include "base/files.hpp"
#include "datasets/dataset.hpp"

namespace atl {

// Every file beside dataset.json that a dataset folder may hold, in the order of the checksum.
inline constexpr const char* kSplitFile = "split.npy";
inline constexpr const char* kDatasetFiles[] = {
    "row_ptr.npy",         "col_idx.npy",         "edge_weights.npy",
    "edge_types.npy",      "edge_features.npy",   "node_types.npy",
    "features.npy",        "labels.npy",          kSplitFile,
    kLinkFiles[0],         kLinkFiles[1],         kLinkFiles[2],
    kLinkNegativeFiles[0], kLinkNegativeFiles[1], kNodeIdsFile};

// The checksum over all files: XXH3 of the lines "name checksum\n" of the files that are there, in
// the order of kDatasetFiles. `files` is the object of dataset.json.
std::string overall_checksum(const Json& files);
// {name: {"bytes": n, "xxh3": hex}} of every array file in `folder`, or of all but split.npy.
Json describe_files(const std::filesystem::path& folder, bool with_split = true);

// The fields of dataset.json that say what the arrays hold and how they were made.
Json dataset_fields(const DatasetInfo& info);
// The fields of what few datasets have, for dataset.json and shard.json, each where it is not 0.
void add_type_fields(Json& json, const DatasetInfo& info);
// The field features_by_type of either; empty if it is not there. Throws Error{kInput} unless it
// fits the types of nodes and the columns of features in `info`.
std::vector<std::int64_t> read_features_by_type(const Json& json, const DatasetInfo& info,
                                                const std::filesystem::path& file);

// `out`, the folder of a new dataset. Throws Error{kOption} if it would lie inside another one; a
// folder that is there is refused by whoever makes it.
const std::filesystem::path& new_dataset_folder(const std::filesystem::path& out);

// Writes the arrays in any order, each at most once, then commit(). Destroyed before, it leaves
// nothing behind. Throws Error{kOption} if `out` exists or would lie inside a dataset,
// Error{kInput} if the disk fails.
class DatasetWriter {
 public:
  explicit DatasetWriter(const std::filesystem::path& out);

  // Name, edges_source, directed, task and provenance are the caller's; the rest is filled in here.
  DatasetInfo& info() { return info_; }
  const DatasetInfo& info() const { return info_; }

  void write_graph(const Csr& csr);
  void write_graph(const Csr& csr, bool weighted);  // also where there is no edge to weigh
  // The ids that nodes have in the source, as text without a line end.
  void write_node_ids(std::int64_t nodes, const std::function<std::string(std::int64_t)>& id_of);
  // One entry per edge, below `relations`; per node, below `count`.
  void write_edge_types(std::span<const std::uint16_t> types, std::int64_t relations);
  void write_node_types(std::span<const std::uint16_t> types, std::int64_t count);
  // A writer for [info().edges, columns] floats, row by row; the caller closes it.
  std::unique_ptr<NpyWriter> write_edge_features(std::int64_t columns);
  // Both, each where edges have some, of those entries of `graph` that are the edges here, in their
  // order.
  void write_edge_values(const GraphView& graph, std::span<const std::int64_t> entries,
                         std::int64_t relations);
  // A writer for [info().nodes, columns] floats, row by row; the caller closes it.
  std::unique_ptr<NpyWriter> write_features(std::int64_t columns);
  // Nodes of type t have only the first widths[t] columns, and 0 behind them.
  void set_features_by_type(std::vector<std::int64_t> widths);
  // One entry per node, -1 = none. Without `classes`: largest label + 1.
  void write_labels(std::span<const std::int32_t> labels, std::optional<std::int64_t> classes = {});
  void write_multi_labels(std::span<const std::uint8_t> labels, std::int64_t classes);
  // Task regression: [nodes, columns], NaN = none; one column is written as [nodes].
  void write_real_labels(std::span<const float> labels, std::int64_t columns);
  // [splits, nodes]; one split is written as [nodes].
  void write_splits(std::span<const std::uint8_t> splits, std::int64_t count);

  // Task link-prediction, as Links says; `sets` are kLinkFiles, each [m, 2].
  void write_links(const std::array<std::vector<std::int64_t>, 3>& sets);
  // `name`: one of kLinkNegativeFiles.
  void write_link_negatives(const char* name, std::span<const std::int64_t> ids,
                            std::int64_t columns);

  // Throws Error{kInput} if a split has no training node. Returns the final dataset.json values.
  DatasetInfo commit();

  // Where the arrays lie until commit().
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  std::unique_ptr<NpyWriter> matrix_writer(const char* name, std::int64_t rows,
                                           std::int64_t columns, const char* what) const;

  AtomicFolder folder_;
  DatasetInfo info_;
};

}  // namespace atl
