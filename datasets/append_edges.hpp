// The edges that an append adds and removes, as changes of the rows of its dataset. Internal to
// datasets/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/append.hpp"
#include "datasets/delta_writer.hpp"
#include "datasets/edge_entry.hpp"
#include "datasets/graph_builder.hpp"

namespace atl {

struct EdgeChangeCounts {
  std::int64_t source = 0;      // edges of the file
  std::int64_t self_loops = 0;  // of these
  std::int64_t duplicates = 0;  // of these, repeats within the file
  std::int64_t added = 0;       // entries of rows
  std::int64_t known = 0;       // entries that were there before
  std::int64_t replaced = 0;    // entries that were removed first
  std::int64_t relations = 0;
};

// Throws Error{kInput} unless rows are as an import writes them: ascending and without duplicates,
// with an entry back for each one of an undirected graph, columns in int32, types in uint16.
void require_imported_form(const Dataset& data);

class EdgeChanges {
 public:
  // `nodes`: with the new ones. `reverse`: every edge has one back of a relation of its own.
  EdgeChanges(const Dataset& data, const AppendOptions& options, std::int64_t nodes,
              bool keep_self_loops, bool reverse);

  // First: options.remove_edges, and all edges of these nodes.
  void remove(std::span<const std::int32_t> nodes);
  // Then options.edges.
  void add();
  const EdgeChangeCounts& counts() const { return counts_; }
  // Edges of the dataset's source that are removed. Which of them an import has merged is not
  // known, so each entry stands for one, or both directions together do.
  std::int64_t removed_from_source() const;
  // Returns how many entries are removed, and not added again.
  std::int64_t write(DeltaWriter& writer);

 private:
  std::uint16_t type_of(std::int64_t e) const {
    return graph_.edge_types.empty() ? std::uint16_t{0} : graph_.edge_types[e];
  }
  void remove_pair(const Edge& pair, bool one_type, const std::string& place);
  void remove_entry(const EdgeEntry& entry);
  void remove_nodes(std::span<const std::int32_t> nodes);
  bool stream(const std::filesystem::path& path, bool with_values, std::int64_t nodes,
              const EdgeSink& sink) const;
  std::vector<float> read_edge_features(std::int64_t edges) const;
  void add_entry(const EdgeEntry& entry, float weight, std::span<const float> features);

  const Dataset& data_;
  const GraphView graph_;
  const AppendOptions& options_;
  std::int64_t nodes_;
  bool keep_self_loops_;
  bool reverse_;
  std::vector<EdgeEntry> removed_;     // ascending
  std::vector<std::uint8_t> is_gone_;  // of nodes; empty: none is
  std::vector<std::uint8_t> is_back_;  // of removed_: added again
  DeltaEdges added_;
  EdgeChangeCounts counts_;
};

}  // namespace atl
