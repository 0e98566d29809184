// Checks of what is handed to an operation: shapes, types, aliasing. A violation is a bug of the
// caller and aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "kernels/backend.hpp"

namespace atl::checks {

inline std::int64_t length(const auto& span) { return static_cast<std::int64_t>(span.size()); }

inline void check_view(const Backend& backend, ConstMatrixView view, const char* name) {
  ATOLL_ASSERT(view.rows >= 0 && view.cols >= 0, "{}: {} x {}", name, view.rows, view.cols);
  ATOLL_ASSERT(view.stride >= view.cols, "{}: stride {}, {} columns", name, view.stride, view.cols);
  ATOLL_ASSERT(view.data != nullptr || view.empty(), "{}: {} x {} without data", name, view.rows,
               view.cols);
  ATOLL_ASSERT(backend.supports(view.dtype), "{}: dtype {} on backend {}", name,
               static_cast<int>(view.dtype), backend.name());
}

// A valid view of this shape and element type.
inline void check_shape(const Backend& backend, ConstMatrixView view, std::int64_t rows,
                        std::int64_t cols, DType dtype, const char* name) {
  check_view(backend, view, name);
  ATOLL_ASSERT(view.rows == rows && view.cols == cols, "{}: {} x {} found, {} x {} expected", name,
               view.rows, view.cols, rows, cols);
  ATOLL_ASSERT(view.dtype == dtype, "{}: dtype {} found, {} expected", name,
               static_cast<int>(view.dtype), static_cast<int>(dtype));
}

inline void check_length(std::int64_t found, std::int64_t expected, const char* name) {
  ATOLL_ASSERT(found == expected, "{}: {} entries found, {} expected", name, found, expected);
}

inline void check_optional_length(std::int64_t found, std::int64_t expected, const char* name) {
  if (found != 0) check_length(found, expected, name);
}

inline bool overlap(ConstMatrixView a, ConstMatrixView b) {
  if (a.empty() || b.empty()) return false;
  const auto first = [](ConstMatrixView v) { return reinterpret_cast<std::intptr_t>(v.data); };
  const auto last = [&](ConstMatrixView v) {
    return first(v) + ((v.rows - 1) * v.stride + v.cols) * bytes_of(v.dtype);
  };
  if (last(a) <= first(b) || last(b) <= first(a)) return false;
  const std::int64_t row_bytes = a.stride * bytes_of(a.dtype);
  if (row_bytes != b.stride * bytes_of(b.dtype)) return true;
  // Two groups of columns of one wider matrix interleave without touching.
  const std::int64_t shift = ((first(b) - first(a)) % row_bytes + row_bytes) % row_bytes;
  return shift < a.cols * bytes_of(a.dtype) || shift + b.cols * bytes_of(b.dtype) > row_bytes;
}

inline void check_disjoint(ConstMatrixView output, ConstMatrixView input, const char* names) {
  ATOLL_ASSERT(!overlap(output, input), "{} overlap", names);
}

inline void check_wire_storage(ConstMatrixView view, const char* name) {
  ATOLL_ASSERT(view.dtype == DType::kF32 || view.dtype == DType::kBf16,
               "{}: dtype {} found, 0 or 1 expected", name, static_cast<int>(view.dtype));
}

// Packets of messages beside the matrix that they are packed from or unpacked to.
inline void check_packets(std::span<const std::byte> packets, ConstMatrixView matrix,
                          const char* name) {
  const auto first = reinterpret_cast<std::uintptr_t>(packets.data());
  ATOLL_ASSERT(first % 4 == 0, "{} start at an address that is no multiple of 4", name);
  if (matrix.empty()) return;
  const auto data = reinterpret_cast<std::uintptr_t>(matrix.data);
  const std::int64_t elements = (matrix.rows - 1) * matrix.stride + matrix.cols;
  const auto end = data + static_cast<std::uintptr_t>(elements * bytes_of(matrix.dtype));
  ATOLL_ASSERT(first + packets.size() <= data || end <= first, "{} and the matrix overlap", name);
}

// For operations that may run in place: the same matrix, or no common element.
inline void check_same_or_disjoint(ConstMatrixView output, ConstMatrixView input,
                                   const char* names) {
  if (output.data == input.data && output.stride == input.stride) return;
  check_disjoint(output, input, names);
}

// All spans of sums are 8 bytes per entry, and zero is all zero bits in every type of them.
template <typename T>
MatrixView eight_byte_view(std::span<T> values) {
  static_assert(sizeof(T) == 8);
  return {values.data(), 1, length(values), length(values), DType::kF64};
}

inline void check_operator(const SparseOperator& op) {
  ATOLL_ASSERT(op.rows >= 0 && op.cols >= op.rows, "operator of {} x {}", op.rows, op.cols);
  check_length(length(op.row_ptr), op.rows + 1, "row_ptr");
  check_optional_length(length(op.values), length(op.col_idx), "values");
  check_optional_length(length(op.row_scale), op.rows, "row_scale");
  check_optional_length(length(op.col_scale), op.cols, "col_scale");
  check_optional_length(length(op.self_weight), op.rows, "self_weight");
}

// Of a matrix of so many rows.
inline void check_dropout(const DropoutSpec& dropout, std::int64_t rows) {
  if (!dropout.active()) return;
  check_length(length(dropout.row_ids), rows, "dropout row_ids");
  const std::uint32_t threshold = dropout.rate.threshold;
  ATOLL_ASSERT(threshold >= 1 && threshold < 65536, "dropout threshold {}", threshold);
}

// dy, a valid view, on its way through `activation`, unless that is absent.
inline void check_activation(const Backend& backend, const ActivationGradient& activation,
                             ConstMatrixView dy) {
  if (activation.absent()) return;
  check_shape(backend, activation.from, dy.rows, dy.cols, dy.dtype, "activation from");
  check_shape(backend, activation.dx, dy.rows, dy.cols, dy.dtype, "activation dx");
  check_disjoint(activation.dx, activation.from, "activation dx and from");
  check_same_or_disjoint(activation.dx, dy, "activation dx and dy");
  ATOLL_ASSERT(activation.function != ActivationFunction::kNone, "the gradient of no function");
  if (activation.function != ActivationFunction::kRelu) check_dropout(activation.dropout, dy.rows);
}

// Sums take their terms through relu alone.
inline void check_sums_through(const ActivationGradient& activation) {
  ATOLL_ASSERT(activation.absent() || activation.function == ActivationFunction::kRelu,
               "sums through {}", to_string(activation.function));
}

inline void check_epilogue(const Backend& backend, const Epilogue& epilogue, ConstMatrixView y) {
  check_optional_length(length(epilogue.mean), y.cols, "epilogue mean");
  check_length(length(epilogue.inv_std), length(epilogue.mean), "epilogue inv_std");
  for (const ConstMatrixView parameter : {epilogue.gamma, epilogue.beta}) {
    if (parameter.absent()) continue;
    check_shape(backend, parameter, 1, y.cols, parameter_dtype(y.dtype), "epilogue gamma or beta");
    check_disjoint(y, parameter, "epilogue y and gamma or beta");
  }
  check_dropout(epilogue.dropout, y.rows);
}

}  // namespace atl::checks
