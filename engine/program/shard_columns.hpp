// Lets several ranks hold one part of the graph (PartGroup): a transformation of a program between
// differentiate and fuse. What works row by row stays as it is, on a rank's share of the rows. What
// reads rows of neighbours gets all rows of the part and a slice of their columns, so messages
// between parts are slices of rows, and a group of ranks receives each halo row once.
#pragma once

#include <cstdint>

#include "engine/program/program.hpp"

namespace atl {

// This rank's place among those that hold its part.
struct ColumnShare {
  int role = 0;
  int ranks = 1;

  bool any() const { return ranks > 1; }
};

// Writes kToColumns before halo operations and kToRows behind them. Sums of values that come from
// halo operations may stay in columns, too, so that hops which follow one another need no
// conversion between them: the sums that do are chosen so that few columns are converted (from two
// starts, all of them and none, one sum after another as long as that saves some; for chains this
// is the least). Throws Error{kOption} for a program with operations that need more of neighbours'
// rows, or of edges, than a slice.
void shard_columns(Program& program, ColumnShare share);

}  // namespace atl
