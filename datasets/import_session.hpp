// What all importers share: graph, features, labels and splits go through one session, which
// applies the import options and writes the dataset folder. Internal to datasets/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/import.hpp"

namespace atl {

// Takes feature rows in order, checks that they are finite, scales them to sum 1 if asked, and
// writes them.
class FeatureWriter {
 public:
  FeatureWriter(std::unique_ptr<NpyWriter> writer, std::int64_t columns, bool normalize,
                std::string place);
  // Any number of whole rows; they are changed in place.
  void add_rows(std::span<float> values);
  void close() { writer_->close(); }

 private:
  std::unique_ptr<NpyWriter> writer_;
  std::int64_t columns_;
  bool normalize_;
  std::string place_;
  std::int64_t row_ = 0;
};

class ImportSession {
 public:
  ImportSession(const std::string& format, const ImportOptions& options);

  const ImportOptions& options() const { return options_; }
  const std::filesystem::path& source() const { return options_.source; }
  std::int64_t nodes() const { return writer_.info().nodes; }
  std::int64_t classes() const { return writer_.info().classes; }

  // Sets name and task unless the options do.
  void set_name(const std::string& name);
  void set_task(Task task) { default_task_ = task; }
  void note(const char* key, Json value) { provenance_[key] = std::move(value); }
  // Where the source counts its edges otherwise than by listing them.
  void set_edges_source(std::int64_t edges) { writer_.info().edges_source = edges; }

  // Builds, writes and frees the graph; first of all the arrays. nodes = -1: largest id + 1.
  // Returns the counts, without the graph.
  BuiltGraph graph(const EdgeStream& stream, std::int64_t nodes, bool weighted,
                   const std::string& place);
  FeatureWriter features(std::int64_t columns, const std::string& place);
  // The same for a source that stores `stored` elements and leaves out the zeros; throws
  // Error{kInput} if its shape can only be a mistake.
  FeatureWriter sparse_features(std::int64_t columns, std::int64_t stored,
                                const std::string& place);
  // All of a [nodes, columns] array.
  void features(ArrayReader reader);
  void labels(std::vector<std::int32_t> labels, const std::string& place);           // -1 = none
  void multi_labels(const std::vector<std::uint8_t>& labels, std::int64_t classes);  // 255 = none
  // From a [nodes], [nodes, 1] or (multi-label) [nodes, classes] array; NaN = none.
  void labels(ArrayReader reader);
  void splits(const std::vector<std::uint8_t>& splits, std::int64_t count);

  ImportReport finish();

 private:
  void write_made_split();

  ImportOptions options_;
  DatasetWriter writer_;
  ImportReport report_;
  Json provenance_ = Json::object();
  Task default_task_ = Task::kSingleLabel;
  std::vector<std::int32_t> labels_;    // kept for a split per class
  std::vector<std::uint8_t> labelled_;  // 1 where a node has a label
  bool have_split_ = false;
};

// Edges of a [2, E] array (all sources, then all targets), checked to lie in [0, nodes). Two
// readers of the same array run side by side; `open` opens it. nodes = -1: any.
void stream_edge_index(const std::function<ArrayReader()>& open, std::int64_t nodes,
                       const std::function<ArrayReader()>* open_weights, const EdgeSink& sink);
// Throws Error{kInput} naming place and position unless 0 <= id < nodes (or any int32 if nodes <
// 0).
void check_node_id(std::int64_t id, std::int64_t nodes, const std::string& place,
                   std::int64_t position);
// The row pointer of a sparse matrix: `rows` + 1 entries (any number if rows < 0) ascending from 0.
std::vector<std::int64_t> read_row_ptr(ArrayReader reader, std::int64_t rows);

}  // namespace atl
