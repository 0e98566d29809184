// Compressed sparse rows: row i holds the in-edges of node i.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace atl {

// row_ptr has rows + 1 entries, col_idx has nnz; values has nnz entries, or none (every edge is 1).
struct CsrView {
  std::span<const std::int64_t> row_ptr;
  std::span<const std::int32_t> col_idx;
  std::span<const float> values;

  std::int64_t rows() const {
    return row_ptr.empty() ? 0 : static_cast<std::int64_t>(row_ptr.size()) - 1;
  }
  std::int64_t nnz() const { return static_cast<std::int64_t>(col_idx.size()); }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(row_ptr.size_bytes() + col_idx.size_bytes() +
                                     values.size_bytes());
  }
  std::span<const std::int32_t> row(std::int64_t i) const {
    return col_idx.subspan(row_ptr[i], row_ptr[i + 1] - row_ptr[i]);
  }
  float value(std::int64_t edge) const { return values.empty() ? 1.0F : values[edge]; }
};

struct Csr {
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;

  CsrView view() const { return {row_ptr, col_idx, values}; }
};

}  // namespace atl
