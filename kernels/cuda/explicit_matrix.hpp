// An operator with its factors multiplied into one value per edge, on the host: what libraries of
// sparse matrices take.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/bf16.hpp"

namespace atl::cuda {

// CSR of a range of rows. A self weight is an edge from the row to itself, its first; one of 0 is
// no edge, so that the row is not read.
struct ExplicitMatrix {
  std::vector<std::int32_t> row_ptr;
  std::vector<std::int32_t> col_idx;
  std::vector<float> values;      // of f32: with all factors
  std::vector<Bf16> bf16_values;  // of bf16: without row factors
  bool exact = true;              // of bf16: that no value was rounded

  // Copies the operator from the device; blocks the host. dtype: f32 or bf16.
  ExplicitMatrix(Backend& backend, Queue& queue, const SparseOperator& op, RowRange range,
                 DType dtype);
};

}  // namespace atl::cuda
