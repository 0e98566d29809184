// The shape of a graph that was cut: counts per part and pair of parts, which is all that a plan's
// seconds depend on. A file of it stands for a dataset that is too large, or not there yet.
#pragma once

#include <filesystem>
#include <string>

#include "partition/partitioner.hpp"
#include "partition/quality.hpp"

namespace atl {

struct GraphShape {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;          // stored: an undirected edge counts twice
  std::int64_t features = 0;       // input columns
  std::int64_t classes = 0;        // output columns: 1 for a binary task
  std::int64_t relations = 0;      // types of edges
  std::int64_t edge_features = 0;  // columns
  std::int64_t node_types = 0;
  PartitionOptions partition = {};
  // Equal shares; without cut_edges and costs, which a plan does not need.
  PartitionQuality quality;

  // The graph as one part.
  PartitionQuality uncut() const;
};

// Every part with its own figures (docs/formats.md).
Json to_json(const GraphShape& shape);
// That, or the compact form of equal parts. Throws Error{kInput} naming `place`, the field, the
// value found and those allowed, also for counts that no graph has.
GraphShape parse_shape(const Json& json, const std::string& place);
GraphShape read_shape(const std::filesystem::path& path);

}  // namespace atl
