// Entries of a graph's rows: which edge an entry is, and where it is among rows as an import writes
// them, which ascend by source and type. Internal to datasets/.
#pragma once

#include <compare>
#include <cstdint>

#include "datasets/dataset.hpp"

namespace atl {

struct EdgeEntry {
  std::int32_t target, source;
  std::uint16_t type;  // 0 where edges have none
  auto operator<=>(const EdgeEntry&) const = default;
};

// The first entry from `begin` to `end`, places in one row, that is no less than one of this source
// and type.
inline std::int64_t first_no_less(const GraphView& graph, std::int64_t begin, std::int64_t end,
                                  std::int32_t source, std::int64_t type) {
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    const std::int32_t column = graph.in_edges.col_idx[middle];
    const bool less = column < source || (column == source && !graph.edge_types.empty() &&
                                          graph.edge_types[middle] < type);
    (less ? begin : end) = less ? middle + 1 : middle;
  }
  return begin;
}

// Whether the entry at `place` of the graph is of this source and type.
inline bool is_entry(const GraphView& graph, std::int64_t place, std::int32_t source,
                     std::int64_t type) {
  return graph.in_edges.col_idx[place] == source &&
         (graph.edge_types.empty() || graph.edge_types[place] == type);
}

// Where the entry is; -1 if nowhere.
inline std::int64_t find_entry(const GraphView& graph, const EdgeEntry& entry) {
  if (entry.target >= graph.nodes()) return -1;
  const std::int64_t end = graph.in_edges.row_ptr[entry.target + 1];
  const std::int64_t at =
      first_no_less(graph, graph.in_edges.row_ptr[entry.target], end, entry.source, entry.type);
  return at < end && is_entry(graph, at, entry.source, entry.type) ? at : -1;
}

}  // namespace atl
