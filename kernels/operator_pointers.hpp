// A sparse operator in plain pointers, for loops over edges and for kernels of a device.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/views.hpp"

namespace atl {

// Absent factors are null.
struct OperatorPointers {
  const std::int64_t* row_ptr;
  const std::int32_t* col_idx;
  const float* values;
  const float* row_scale;
  const float* col_scale;
  const float* self_weight;
};

inline OperatorPointers pointers_of(const SparseOperator& op) {
  const auto factors = [](std::span<const float> given) {
    return given.empty() ? nullptr : given.data();
  };
  return {op.row_ptr.data(),     op.col_idx.data(),     factors(op.values),
          factors(op.row_scale), factors(op.col_scale), factors(op.self_weight)};
}

}  // namespace atl
