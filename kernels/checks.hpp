// Checks of what is handed to an operation: shapes, types, aliasing. A violation is a bug of the
// caller and aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.hpp"
#include "kernels/attention.hpp"
#include "kernels/edge_terms.hpp"
#include "kernels/pool.hpp"
#include "kernels/views.hpp"
#include "kernels/wire.hpp"

namespace atl {

// A backend as checks of operations see it.
class BackendTraits {
 public:
  virtual ~BackendTraits() = default;
  virtual std::string name() const = 0;  // "reference", "cpu", "cuda"
  virtual bool supports(DType dtype) const = 0;
};

namespace kernels {

inline std::int64_t length(const auto& span) { return static_cast<std::int64_t>(span.size()); }

inline void check_view(const BackendTraits& backend, ConstMatrixView view, const char* name) {
  ATOLL_ASSERT(view.rows >= 0 && view.cols >= 0, "{}: {} x {}", name, view.rows, view.cols);
  ATOLL_ASSERT(view.stride >= view.cols, "{}: stride {}, {} columns", name, view.stride, view.cols);
  ATOLL_ASSERT(view.data != nullptr || view.empty(), "{}: {} x {} without data", name, view.rows,
               view.cols);
  ATOLL_ASSERT(backend.supports(view.dtype), "{}: dtype {} on backend {}", name,
               static_cast<int>(view.dtype), backend.name());
}

// A valid view of this shape and element type.
inline void check_shape(const BackendTraits& backend, ConstMatrixView view, std::int64_t rows,
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

inline void check_rows(RowRange range, std::int64_t rows, const char* name) {
  ATOLL_ASSERT(0 <= range.begin && range.begin <= range.end && range.end <= rows, "{} {}..{} of {}",
               name, range.begin, range.end, rows);
}

// `part` columns belong to each head, or one to each of `part` heads.
inline void check_heads(std::int64_t part, std::int64_t cols, const char* name) {
  ATOLL_ASSERT(part > 0 ? cols % part == 0 : cols == 0, "{}: {} columns of {}", name, part, cols);
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

inline void check_disjoint(std::initializer_list<ConstMatrixView> outputs,
                           std::initializer_list<ConstMatrixView> inputs, const char* names) {
  for (const ConstMatrixView& output : outputs) {
    for (const ConstMatrixView& input : inputs) check_disjoint(output, input, names);
  }
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

inline void check_operator(const SparseOperator& op) {
  ATOLL_ASSERT(op.rows >= 0 && op.cols >= (op.self_weight.empty() ? 0 : op.rows),
               "operator of {} x {}", op.rows, op.cols);
  check_length(length(op.row_ptr), op.rows + 1, "row_ptr");
  check_optional_length(length(op.values), length(op.col_idx), "values");
  check_optional_length(length(op.row_scale), op.rows, "row_scale");
  check_optional_length(length(op.col_scale), op.cols, "col_scale");
  check_optional_length(length(op.self_weight), op.rows, "self_weight");
}

inline void check_source_edges(const SourceEdges& edges, const SparseOperator& op) {
  check_length(length(edges.row_ptr), op.cols + 1, "row_ptr of edges by source");
  check_length(length(edges.targets), length(op.col_idx), "targets of edges by source");
  check_length(length(edges.edges), length(op.col_idx), "edges by source");
}

// Checks the dropout of a matrix of so many rows.
inline void check_dropout(const DropoutSpec& dropout, std::int64_t rows) {
  if (!dropout.active()) return;
  check_length(length(dropout.row_ids), rows, "dropout row_ids");
  const std::uint32_t threshold = dropout.rate.threshold;
  ATOLL_ASSERT(threshold >= 1 && threshold < 65536, "dropout threshold {}", threshold);
}

// dy, a valid view, on its way through `activation`, unless that is absent.
inline void check_activation(const BackendTraits& backend, const ActivationGradient& activation,
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

// Checks that the aggregates with features of edges share.
inline void check_edge_terms(const BackendTraits& backend, const EdgeTerms& terms,
                             const SparseOperator& op, ConstMatrixView x) {
  check_operator(op);
  const DType parameters = parameter_dtype(x.dtype);
  check_shape(backend, x, op.cols, x.cols, x.dtype, "edge terms x");
  check_shape(backend, terms.weight, terms.weight.rows, x.cols, parameters, "edge terms weight");
  check_shape(backend, terms.bias, 1, x.cols, parameters, "edge terms bias");
  check_length(length(terms.features), length(op.col_idx) * terms.weight.rows,
               "edge terms features");
}

// How many edges have coefficients: those of the operator, and of rows with themselves.
inline std::int64_t attention_places(const AttentionSpec& attention, const SparseOperator& op) {
  return length(op.col_idx) + (attention.with_self ? op.rows : 0);
}

// Checks that the operations of attention share.
inline void check_attention(const BackendTraits& backend, const AttentionSpec& attention,
                            const SparseOperator& op, ConstMatrixView z, ConstMatrixView t) {
  check_operator(op);
  ATOLL_ASSERT(op.cols >= op.rows, "attention of {} rows over {} columns", op.rows, op.cols);
  const bool additive = attention.score == AttentionScore::kAdditive;
  const DType parameters = parameter_dtype(z.dtype);
  ATOLL_ASSERT(attention.heads >= 1 && z.cols % attention.heads == 0,
               "attention of {} heads, {} columns", attention.heads, z.cols);
  ATOLL_ASSERT(attention.slope >= 0, "attention slope {}", attention.slope);
  check_shape(backend, z, op.cols, z.cols, z.dtype, "attention z");
  check_shape(backend, t, op.rows, additive ? attention.heads : z.cols,
              additive ? parameters : z.dtype, "attention t");
  if (attention.score == AttentionScore::kDot) {
    ATOLL_ASSERT(attention.vector.absent(), "attention vector of score dot");
  } else {
    check_shape(backend, attention.vector, 1, z.cols, parameters, "attention vector");
  }
  if (additive) {
    check_shape(backend, attention.source_scores, op.cols, attention.heads, parameters,
                "attention source_scores");
  } else {
    ATOLL_ASSERT(attention.source_scores.absent(), "attention source_scores of score {}",
                 to_string(attention.score));
    ATOLL_ASSERT(attention.edge_scores.absent(), "attention edge_scores of score {}",
                 to_string(attention.score));
  }
  if (!attention.edge_scores.absent()) {
    check_shape(backend, attention.edge_scores, attention_places(attention, op), attention.heads,
                parameters, "attention edge_scores");
  }
  if (const AttentionEdges& edges = attention.edges; !edges.absent()) {
    ATOLL_ASSERT(attention.score == AttentionScore::kGatv2, "attention edges of score {}",
                 to_string(attention.score));
    check_shape(backend, edges.weight, edges.count(), z.cols, parameters, "attention edges weight");
    check_length(length(edges.features), length(op.col_idx) * edges.count(),
                 "attention edges features");
    check_length(length(edges.of_self), attention.with_self ? op.rows * edges.count() : 0,
                 "attention edges of_self");
  }
  if (!attention.dropout.active()) return;
  check_length(length(attention.dropout.row_ids), op.rows, "attention dropout row_ids");
  check_length(length(attention.dropout.col_ids), op.cols, "attention dropout col_ids");
  const std::uint32_t threshold = attention.dropout.rate.threshold;
  ATOLL_ASSERT(threshold >= 1 && threshold < 65536, "attention dropout threshold {}", threshold);
}

inline void check_coefficients(const BackendTraits& backend, const AttentionSpec& attention,
                               const SparseOperator& op, ConstMatrixView coefficients,
                               DType parameters) {
  check_shape(backend, coefficients, attention_places(attention, op), 2 * attention.heads,
              parameters, "attention coefficients");
}

// The gradient of `vector` where `present`, else an absent view.
inline void check_dvector(const BackendTraits& backend, MatrixView dvector, bool present,
                          ConstMatrixView z) {
  if (!present) {
    ATOLL_ASSERT(dvector.absent(), "attention dvector of {} columns, none expected", dvector.cols);
    return;
  }
  check_shape(backend, dvector, 1, z.cols, parameter_dtype(z.dtype), "attention dvector");
}

// The gradient of the weight of features of edges, which is absent where there are none.
inline void check_dedge_weight(const BackendTraits& backend, MatrixView dedge_weight,
                               const AttentionSpec& attention) {
  const ConstMatrixView weight = attention.edges.weight;
  if (weight.absent()) {
    ATOLL_ASSERT(dedge_weight.absent(), "attention dedge_weight without features of edges");
    return;
  }
  check_shape(backend, dedge_weight, weight.rows, weight.cols, weight.dtype,
              "attention dedge_weight");
}

inline void check_epilogue(const BackendTraits& backend, const Epilogue& epilogue,
                           ConstMatrixView y) {
  check_optional_length(length(epilogue.mean), y.cols, "epilogue mean");
  check_length(length(epilogue.inv_std), length(epilogue.mean), "epilogue inv_std");
  for (const ConstMatrixView parameter : {epilogue.gamma, epilogue.beta}) {
    if (parameter.absent()) continue;
    check_shape(backend, parameter, 1, y.cols, parameter_dtype(y.dtype), "epilogue gamma or beta");
    check_disjoint(y, parameter, "epilogue y and gamma or beta");
  }
  check_dropout(epilogue.dropout, y.rows);
}

}  // namespace kernels

}  // namespace atl
