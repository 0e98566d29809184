// The dataset folder: dataset.json and plain .npy files, memory-mapped (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/npy.hpp"
#include "datasets/delta.hpp"
#include "datasets/links.hpp"
#include "datasets/type_array.hpp"
#include "partition/local_graph.hpp"

namespace atl {

enum class Task { kSingleLabel, kMultiLabel, kBinary, kRegression, kLinkPrediction };
// "single-label", "multi-label", "binary", "regression", "link-prediction"
std::string to_string(Task task);
Task parse_task(const std::string& text, const std::string& place);

// A model has an output per class: more than this is a mistake in the labels, not a task.
inline constexpr std::int64_t kMaxClasses = 1 << 20;

// The file of Dataset::node_ids(): a line for each node.
inline constexpr const char* kNodeIdsFile = "node_ids.txt";

// Beside dataset.json of a folder that Python has made: the names of the classes.
inline constexpr const char* kClassNamesFile = "class_names.json";

enum class Split : std::uint8_t { kTrain = 0, kValid = 1, kTest = 2, kNone = 255 };

struct DatasetInfo {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;         // entries of col_idx
  std::int64_t edges_source = 0;  // edges in the source, before symmetrising and merging duplicates
  std::int64_t features = 0;      // columns; 0 = structure only
  std::int64_t classes = 0;       // regression: numbers per node; 0 = no labels
  std::int64_t splits = 0;        // rows of split.npy; 0 = none
  std::int64_t relations = 0;     // types of edges; 0 = edges have none
  std::int64_t edge_features = 0;  // columns; 0 = none
  std::int64_t node_types = 0;     // 0 = nodes have none
  // Per type of nodes, how many of the columns of features it has; the others are 0. Empty: all
  // have all.
  std::vector<std::int64_t> features_by_type;
  std::array<std::int64_t, 3> links{};  // edges to be predicted: train, valid, test
  bool directed = false;
  bool weighted = false;
  Task task = Task::kSingleLabel;
  Json provenance;       // how the folder was made
  std::string checksum;  // over all files, 16 hex digits
};

// dataset.json of a folder, whole or a delta, with its format and seal checked.
Json read_dataset_json(const std::filesystem::path& folder);

// An opened dataset folder; of a delta, what the chain of its bases gives. open() checks that every
// file agrees with dataset.json in type, shape and size, and that row_ptr ascends; validate() also
// checks every value. A hand-made dataset.json needs only "directed"; what it leaves out is taken
// from the arrays.
class Dataset {
 public:
  // Without `with_split` it is as if there were no split.npy, whatever dataset.json says of one.
  static Dataset open(const std::filesystem::path& folder, bool with_split = true);

  const DatasetInfo& info() const { return info_; }
  const std::filesystem::path& folder() const { return folder_; }
  GraphView graph() const;                             // with types and features of edges
  std::span<const float> features() const;             // [nodes, info.features]
  std::span<const std::int32_t> labels() const;        // single-label, binary: [nodes], -1 = none
  std::span<const std::uint8_t> multi_labels() const;  // multi-label: [nodes, classes], 255 = none
  std::span<const float> real_labels() const;          // regression: [nodes, classes], NaN = none
  // [nodes] of split `index`; throws Error{kOption} naming the valid indices if there is none.
  std::span<const std::uint8_t> split(std::int64_t index) const;

  const Links& links() const { return links_; }
  // A delta's chain, and its files as a whole folder would have them; null if the folder is whole.
  const GrownFolder* grown() const { return grown_.get(); }
  // The object `files` of dataset.json, or what it would be.
  const Json& files() const { return files_; }

  // The ids that the nodes have in the source of the dataset, where an import has renumbered them;
  // else empty. Throws Error{kInput} unless it is one per node.
  std::vector<std::string> node_ids() const;

  // Checks checksums, ids, finite features and weights, types, labels and splits in range, training
  // nodes in every split, symmetry if `directed` is false. Throws Error{kInput} with file, place,
  // value and allowed values.
  void validate() const;
  // Only compares every file with its checksum in the dataset.json of its folder, if that states
  // one.
  void validate_checksums() const;
  // Compares what the chain of a delta gives with the checksums in its dataset.json.
  void validate_merged() const;
  void validate_labels() const;

  // Refuses a dataset that lacks what training on split `split_index`, or predicting, needs
  // (features, and the split if there is any to measure by), with the command that helps: throws
  // Error{kInput}, Error{kOption} for an index that there isn't.
  // trained_features: the model has features of its own.
  void require_trainable(std::int64_t split_index, bool trained_features = false) const;
  void require_predictable(std::int64_t split_index, bool trained_features = false) const;
  // Per node whether it has a label, of several at least one.
  std::vector<std::uint8_t> labelled() const;

 private:
  // The array of this name, wherever it is.
  std::optional<NpyFile> array(const char* name) const;
  NpyFile required_array(const char* name) const;
  TypeArray type_array(const char* name, std::int64_t length) const;
  void open_graph(const Json& json);
  void open_edge_arrays(const Json& json);
  void check_row_ptr() const;
  void narrow_col_idx();
  void open_node_arrays(const Json& json);
  void open_labels(const Json& json);
  void open_links(const Json& json);
  void validate_graph() const;
  void validate_splits() const;
  void validate_features_by_type() const;
  void validate_node_ids() const;
  std::string split_remedy() const;  // against a split.npy that dataset.json doesn't know

  std::filesystem::path folder_;
  bool with_split_ = true;
  std::shared_ptr<const GrownFolder> grown_;  // of a delta, else null
  DatasetInfo info_;
  Json files_;
  NpyFile row_ptr_, col_idx_, edge_weights_, edge_features_, features_, labels_, split_;
  TypeArray edge_types_, node_types_;
  Links links_;
  std::vector<std::int32_t> narrowed_col_idx_;  // only if col_idx.npy is int64
};

}  // namespace atl
