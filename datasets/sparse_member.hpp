// Compressed sparse rows saved by SciPy, read from a .npz archive row by row. Internal to
// datasets/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datasets/array_reader.hpp"
#include "datasets/graph_builder.hpp"

namespace atl {

class ImportSession;

// The four arrays PREFIXdata, PREFIXindices, PREFIXindptr, PREFIXshape. Only indptr is held.
class SparseMember {
 public:
  // Throws Error{kInput} unless shape and indptr agree and indptr ascends.
  SparseMember(const NpzArchive& archive, std::string prefix);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  // Every stored entry (i, j) of a square matrix as the edge i -> j; values are not looked at.
  void stream_edges(const EdgeSink& sink) const;
  // Rows as dense features; repeated entries are summed.
  void write_features(ImportSession& session) const;

 private:
  // Opens the column indices and calls visit(row, columns of that row) for each row.
  template <typename Visit>
  void each_row(const Visit& visit) const;

  const NpzArchive& archive_;
  std::string prefix_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::vector<std::int64_t> row_ptr_;
};

}  // namespace atl
