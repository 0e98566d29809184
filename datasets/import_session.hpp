// Common part of all importers: graph, features, labels and splits go through one session, which
// applies the import options and writes the dataset folder. Internal to datasets/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/import.hpp"
#include "datasets/node_ids.hpp"
#include "datasets/text_table.hpp"

namespace atl {

class LabelTally;

// Takes feature rows in order, checks that they are finite, scales them to sum 1 if asked, and
// writes them.
class FeatureWriter {
 public:
  // whose: what a row belongs to, in errors.
  FeatureWriter(std::unique_ptr<NpyWriter> writer, std::int64_t columns, bool normalize,
                std::string place, const char* whose = "node");
  // Any number of whole rows; they are changed in place.
  void add_rows(std::span<float> values);
  void close() { writer_->close(); }

 private:
  std::unique_ptr<NpyWriter> writer_;
  std::int64_t columns_;
  bool normalize_;
  std::string place_;
  const char* whose_;
  std::int64_t row_ = 0;
};

// Opens the writer for rows of so many columns; `place` names them in errors.
using RowOpener = std::function<FeatureWriter&(std::int64_t columns, const std::string& place)>;
// Writes so many rows by the writer that it opens, if there are any features.
using RowStream = std::function<void(std::int64_t rows, const RowOpener& open)>;

// A source's values of its edges beside their ends.
struct EdgeColumns {
  bool weighted = false;
  bool typed = false;
  std::int64_t relations = 0;  // types, which all are below; 0: the largest + 1
  // At least so many nodes there are, whatever ids occur in edges.
  std::int64_t least_nodes = 0;
  RowStream features = {};  // one row per edge of the stream, in its order
};

class ImportSession {
 public:
  ImportSession(const std::string& format, const ImportOptions& options);

  const ImportOptions& options() const { return options_; }
  const std::filesystem::path& source() const { return options_.source; }
  TableColumns table_columns() const { return {options_.id_column, options_.label_column}; }
  // For temporary files: on the disk that the set will be on.
  const std::filesystem::path& scratch() const { return writer_.folder(); }
  std::int64_t nodes() const { return writer_.info().nodes; }
  std::int64_t classes() const { return writer_.info().classes; }

  // Sets name and task unless the options do.
  void set_name(const std::string& name);
  void set_task(Task task) { default_task_ = task; }
  void note(const char* key, Json value) { provenance_[key] = std::move(value); }
  // Where the source counts its edges otherwise than by listing them.
  void set_edges_source(std::int64_t edges) { writer_.info().edges_source = edges; }

  // Builds, writes and frees the graph with the types and features of its edges; first of all the
  // arrays. nodes = -1: largest id + 1. Returns the counts, without the graph.
  BuiltGraph graph(const EdgeStream& stream, std::int64_t nodes, const EdgeColumns& columns,
                   const std::string& place);
  // Called for formats whose ids may have gaps: warnings name --renumber.
  void allow_renumbering() { can_renumber_ = true; }
  // Which id of the source each node is.
  void node_ids(const NodeIds& ids);
  // One per node, below `count` (0: the largest + 1).
  void node_types(std::span<const std::uint16_t> types, std::int64_t count = 0);
  std::int64_t node_type_count() const { return writer_.info().node_types; }
  FeatureWriter features(std::int64_t columns, const std::string& place);
  // The same for a source that stores `stored` elements and leaves out the zeros; throws
  // Error{kInput} if its shape can only be a mistake.
  FeatureWriter sparse_features(std::int64_t columns, std::int64_t stored,
                                const std::string& place);
  // All of a [nodes, columns] array; or of rows in the order of the nodes.
  void features(ArrayReader reader);
  void features(const RowStream& rows);
  // For rows that are padded with zeros: nodes of type t, of which there are types already, have
  // widths[t] features. Says what the zeros cost. Null if all widths are 0.
  std::unique_ptr<FeatureWriter> features_by_type(const std::vector<std::int64_t>& widths,
                                                  const std::string& place);
  // -1 = none. columns: how many classes there are, where the source says it.
  void labels(std::vector<std::int32_t> labels, const std::string& place,
              std::optional<std::int64_t> columns = {});
  // 255 = none. Read as classes if --task says so and each node has one of them.
  void multi_labels(const std::vector<std::uint8_t>& labels, std::int64_t classes,
                    const std::string& place);
  // From a [nodes], [nodes, 1] or (multi-label) [nodes, classes] array; NaN = none, and so is -1
  // unless -1 and +1 are all there is. With --task regression: real_labels().
  void labels(ArrayReader reader);
  // From a [nodes] or [nodes, columns] array; NaN = none.
  void real_labels(ArrayReader reader);
  // The former or the latter, whatever the array holds and --task says. Throws Error{kInput} with
  // the choices if neither tells: floating-point numbers that are all whole.
  void labels_or_numbers(const std::function<ArrayReader()>& open);
  void splits(const std::vector<std::uint8_t>& splits, std::int64_t count);
  // Task link-prediction; links as Links::open gives them.
  void links(const Links& links);

  ImportReport finish();

 private:
  void edge_features(const RowStream& rows, const BuiltGraph& built);
  // Writes the features that --features makes of the graph.
  void write_made_features(const CsrView& csr, bool directed);
  static std::string choices(const LabelTally& tally, std::int64_t columns);
  void write_edge_means();
  void write_made_split();
  void warn_of_isolated(const CsrView& csr, bool directed, const std::string& place) const;

  ImportOptions options_;
  DatasetWriter writer_;
  ImportReport report_;
  Json provenance_ = Json::object();
  Task default_task_ = Task::kSingleLabel;
  std::vector<std::int32_t> labels_;    // kept for a split per class
  std::vector<std::uint8_t> labelled_;  // 1 where a node has a label
  std::vector<std::int64_t> nodes_of_type_;
  bool have_split_ = false;
  bool can_renumber_ = false;
};

// Every row of an array of one or two dimensions; `doing` says so while it lasts.
void write_every_row(ArrayReader reader, FeatureWriter& writer, const char* doing);

// The rows of an array [rows, columns] or [rows].
RowStream rows_of(std::function<ArrayReader()> open);

// Arrays with a value per edge, in the order of the edges; without the function there is none.
struct EdgeValueFiles {
  std::function<ArrayReader()> open_weights = {};
  std::function<ArrayReader()> open_types = {};
};

// Reads them along with the edges, checked to be finite and types. Weight 1 and type 0 without.
class EdgeValues {
 public:
  EdgeValues(const EdgeValueFiles& files, std::int64_t edges);
  void read(std::size_t count);  // those of the next edges
  float weight(std::size_t i) const { return weight_[i]; }
  std::uint16_t type(std::size_t i) const { return static_cast<std::uint16_t>(type_[i]); }
  void finish();

 private:
  std::optional<ArrayReader> weights_, types_;
  std::vector<float> weight_;
  std::vector<std::int64_t> type_;
  std::int64_t at_ = 0;
};

// Edges of a [2, E] array (all sources, then all targets), checked to lie in [0, nodes). Two
// readers of the same array run side by side; `open` opens it. nodes = -1: any. With `ids` nodes
// are what they say.
void stream_edge_index(const std::function<ArrayReader()>& open, std::int64_t nodes,
                       const EdgeValueFiles& files, const EdgeSink& sink,
                       const NodeIds* ids = nullptr);
// Throws Error{kInput} naming place and position unless 0 <= id < nodes (or any int32 if nodes <
// 0).
void check_node_id(std::int64_t id, std::int64_t nodes, const std::string& place,
                   std::int64_t position);
// The row pointer of a sparse matrix: `rows` + 1 entries (any number if rows < 0) ascending from 0.
std::vector<std::int64_t> read_row_ptr(ArrayReader reader, std::int64_t rows);

}  // namespace atl
