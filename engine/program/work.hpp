// What the calls of a program have to do on a rank, from counts alone: products to compute and
// bytes to move.
#pragma once

#include "engine/program/allocate.hpp"

namespace atl {

// What a rank holds of a graph.
struct RankShape {
  RankRows rows;
  std::int64_t marginal = 0;        // of the inner rows
  std::int64_t marginal_edges = 0;  // of rows.edges, which count backward too
  bool weighted = false;            // edges have values

  std::int64_t rows_in(Rows range) const;
  std::int64_t edges_in(Rows range) const;
};

// As the backend counts it that runs the call; 0 for what only travels. dtype: of matrices.
SpanWork work_of(const Program& program, const Call& call, const RankShape& shape, DType dtype);

// The same of all calls of an operation, by value.
std::vector<SpanWork> work_of_operations(const Program& program, const Schedule& schedule,
                                         const RankShape& shape, DType dtype);

}  // namespace atl
