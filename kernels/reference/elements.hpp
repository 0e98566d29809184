// Typed element access for the reference operations, and the choice of the type at run time.
#pragma once

#include "base/error.hpp"
#include "kernels/views.hpp"

namespace atl {

// Calls body(float{}) or body(double{}).
template <typename Body>
void with_value_type(DType dtype, const Body& body) {
  if (dtype == DType::kF64) {
    body(double{});
  } else {
    ATOLL_ASSERT(dtype == DType::kF32);
    body(float{});
  }
}

template <typename T>
double at(ConstMatrixView view, std::int64_t i, std::int64_t j) {
  return static_cast<double>(view.row<T>(i)[j]);
}

template <typename T>
void set(MatrixView view, std::int64_t i, std::int64_t j, double value) {
  view.row<T>(i)[j] = static_cast<T>(value);
}

// An entry of a factor whose absence means `absent` everywhere.
inline double factor(std::span<const float> values, std::int64_t i, double absent) {
  return values.empty() ? absent : static_cast<double>(values[i]);
}

}  // namespace atl
