// Which rows of its values a program needs where the results of some nodes alone are wanted: those
// of nodes that are so many edges away from them.
#pragma once

#include <vector>

#include "engine/program/schedule.hpp"

namespace atl {

// kAllRows: of all nodes, because they stand in another order than that of the nodes.
inline constexpr int kAllRows = -1;

struct NeededRows {
  // By value: the most hops from a wanted node to one whose row of the value is needed; or
  // kAllRows.
  std::vector<int> hops;
  // The most hops to a node of which anything is needed.
  int most = 0;
  // Factors of rows are made from the edges of these nodes, too, those of the farthest as well.
  bool counts_out_edges = false;
};

// `evaluation`: a program of evaluation. Throws Error{kOption} naming an operation that needs rows
// of all nodes at once.
NeededRows needed_rows(const Program& evaluation);

// From a schedule of all rows to one of those that are needed. One rank has them all.
void limit_rows(const Program& evaluation, Schedule& schedule);

}  // namespace atl
