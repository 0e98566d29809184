// Typed element access for the reference operations, and the choice of the type at run time.
#pragma once

#include <bit>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "base/error.hpp"
#include "kernels/bf16.hpp"
#include "kernels/views.hpp"

namespace atl {

// Calls body(float{}), body(double{}) or body(Bf16{}).
template <typename Body>
void with_value_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF64:
      return body(double{});
    case DType::kBf16:
      return body(Bf16{});
  }
}

// The C++ type of parameter_dtype().
template <typename T>
using Parameter = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

// Rounds once to nearest, ties to even. By way of an f32 that is rounded to odd (what is cut off
// leaves a one in the last place), because two roundings to nearest may differ from one (Boldo and
// Melquiond, "When double rounding is odd", 2005).
inline Bf16 nearest_bf16(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(nearest) || static_cast<double>(nearest) == value) return to_bf16(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return to_bf16(std::bit_cast<float>(bits | 1U));
}

template <typename T>
double at(ConstMatrixView view, std::int64_t i, std::int64_t j) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return static_cast<double>(to_float(view.row<T>(i)[j]));
  } else {
    return static_cast<double>(view.row<T>(i)[j]);
  }
}

template <typename T>
void set(MatrixView view, std::int64_t i, std::int64_t j, double value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    view.row<T>(i)[j] = nearest_bf16(value);
  } else {
    view.row<T>(i)[j] = static_cast<T>(value);
  }
}

// Sets all elements of `rows` to value(i, j); the type of the view is T.
template <typename T, typename Value>
void set_rows(MatrixView view, RowRange rows, const Value& value) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    for (std::int64_t j = 0; j < view.cols; ++j) set<T>(view, i, j, value(i, j));
  }
}
template <typename T, typename Value>
void set_all(MatrixView view, const Value& value) {
  set_rows<T>(view, {0, view.rows}, value);
}

// Calls use(j, e) for every edge e of row i, from row j of what is gathered.
template <typename Use>
void for_edges_of(const SparseOperator& op, std::int64_t i, const Use& use) {
  ATOLL_ASSERT(op.row_ptr[i] <= op.row_ptr[i + 1], "row {}", i);
  for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
    const std::int64_t j = op.col_idx[e];
    ATOLL_ASSERT(0 <= j && j < op.cols, "row {}: column {} of {}", i, j, op.cols);
    use(j, e);
  }
}

// Calls use(i, e) for every edge e from source j, to row i.
template <typename Use>
void for_edges_from(const SparseOperator& op, const SourceEdges& edges, std::int64_t j,
                    const Use& use) {
  for (std::int64_t k = edges.row_ptr[j]; k < edges.row_ptr[j + 1]; ++k) {
    const std::int64_t i = edges.targets[k];
    ATOLL_ASSERT(0 <= i && i < op.rows, "source {}: row {} of {}", j, i, op.rows);
    use(i, edges.edges[k]);
  }
}

// An entry of a factor whose absence means `absent` everywhere.
inline double factor(std::span<const float> values, std::int64_t i, double absent) {
  return values.empty() ? absent : static_cast<double>(values[i]);
}

// Written so that NaN stays NaN and a diverged run is seen.
inline double activation_value(ActivationFunction function, double x) {
  switch (function) {
    case ActivationFunction::kNone:
      return x;
    case ActivationFunction::kRelu:
      return x < 0 ? 0 : x;
    case ActivationFunction::kLeakyRelu:
      return x < 0 ? kLeakySlope * x : x;
    case ActivationFunction::kElu:
      return x < 0 ? std::expm1(x) : x;
    case ActivationFunction::kGelu:
      return x * std::erfc(-x / std::numbers::sqrt2) / 2;
  }
  return x;
}

// f' where f gives y; of gelu, at x = y. Not of relu.
inline double activation_slope(ActivationFunction function, double y) {
  switch (function) {
    case ActivationFunction::kLeakyRelu:
      return y > 0 ? 1 : kLeakySlope;
    case ActivationFunction::kElu:
      return y > 0 ? 1 : y + 1;
    case ActivationFunction::kGelu:
      return std::erfc(-y / std::numbers::sqrt2) / 2 +
             y * std::exp(-y * y / 2) / std::sqrt(2 * std::numbers::pi);
    default:
      return 1;
  }
}

// Element (i, j) after dropout.
inline double dropout_value(const DropoutSpec& dropout, std::int64_t i, std::int64_t j,
                            double value) {
  if (!dropout.active()) return value;
  const auto row = static_cast<std::uint64_t>(to_index(dropout.row_ids[i]));
  const bool keep =
      dropout_keeps(dropout.key_now(), row, static_cast<std::uint32_t>(j), dropout.rate.threshold);
  return keep ? value * static_cast<double>(dropout.rate.scale) : 0;
}

// Element (i, j) after `epilogue`, whose gamma and beta have elements of type P.
template <typename P>
double epilogue_value(const Epilogue& epilogue, std::int64_t i, std::int64_t j, double value) {
  if (!epilogue.mean.empty()) value = (value - epilogue.mean[j]) * epilogue.inv_std[j];
  if (!epilogue.gamma.absent()) value *= at<P>(epilogue.gamma, 0, j);
  if (!epilogue.beta.absent()) value += at<P>(epilogue.beta, 0, j);
  return dropout_value(epilogue.dropout, i, j, activation_value(epilogue.function, value));
}

}  // namespace atl
