#include "kernels/cuda/explicit_matrix.hpp"

namespace atl::cuda {

namespace {

template <typename T>
std::vector<T> download(Backend& backend, Queue& queue, std::span<const T> values) {
  std::vector<T> host(values.size());
  backend.copy(queue, host.data(), values.data(), static_cast<std::int64_t>(values.size_bytes()),
               CopyKind::kDeviceToHost);
  return host;
}

// The operator's arrays for a range of rows on the host.
struct HostOperator {
  std::vector<std::int64_t> row_ptr;  // of the range
  std::vector<std::int32_t> col_idx;  // of its edges
  std::vector<float> values;
  std::vector<float> row_scale;
  std::vector<float> self_weight;
  std::vector<float> col_scale;  // of all columns

  HostOperator(Backend& backend, Queue& queue, const SparseOperator& op, RowRange range) {
    const auto first = static_cast<std::size_t>(range.begin);
    const auto count = static_cast<std::size_t>(range.size());
    row_ptr = download(backend, queue, op.row_ptr.subspan(first, count + 1));
    const auto first_edge = static_cast<std::size_t>(row_ptr.front());
    const auto edges = static_cast<std::size_t>(row_ptr.back()) - first_edge;
    col_idx = download(backend, queue, op.col_idx.subspan(first_edge, edges));
    const auto part = [&](std::span<const float> span, std::size_t begin, std::size_t size) {
      return span.empty() ? std::vector<float>()
                          : download(backend, queue, span.subspan(begin, size));
    };
    values = part(op.values, first_edge, edges);
    row_scale = part(op.row_scale, first, count);
    self_weight = part(op.self_weight, first, count);
    col_scale = part(op.col_scale, 0, op.col_scale.size());
  }
};

float at(const std::vector<float>& values, std::size_t k, float otherwise) {
  return values.empty() ? otherwise : values[k];
}

// Calls entry(row of the range, column, weight) for self weights and edges.
template <typename Entry>
void for_entries(const HostOperator& op, std::int64_t first_row, std::vector<std::int32_t>& row_ptr,
                 const Entry& entry) {
  std::int32_t entries = 0;
  row_ptr.push_back(0);
  const std::int64_t first_edge = op.row_ptr.front();
  for (std::size_t i = 0; i + 1 < op.row_ptr.size(); ++i) {
    if (const float self = at(op.self_weight, i, 0); self != 0) {
      entry(i, static_cast<std::int32_t>(first_row + static_cast<std::int64_t>(i)), self);
      ++entries;
    }
    for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
      const auto k = static_cast<std::size_t>(e - first_edge);
      entry(i, op.col_idx[k], at(op.values, k, 1));
    }
    entries += static_cast<std::int32_t>(op.row_ptr[i + 1] - op.row_ptr[i]);
    row_ptr.push_back(entries);
  }
}

}  // namespace

ExplicitMatrix::ExplicitMatrix(Backend& backend, Queue& queue, const SparseOperator& op,
                               RowRange range, DType dtype) {
  const HostOperator host(backend, queue, op, range);
  const std::size_t most = host.col_idx.size() + host.self_weight.size();
  row_ptr.reserve(host.row_ptr.size());
  col_idx.reserve(most);
  const auto column_factor = [&](std::int32_t column) {
    return at(host.col_scale, static_cast<std::size_t>(column), 1);
  };
  if (dtype == DType::kF32) {
    values.reserve(most);
    for_entries(host, range.begin, row_ptr, [&](std::size_t i, std::int32_t column, float weight) {
      col_idx.push_back(column);
      values.push_back(at(host.row_scale, i, 1) * weight * column_factor(column));
    });
    return;
  }
  bf16_values.reserve(most);
  for_entries(host, range.begin, row_ptr, [&](std::size_t, std::int32_t column, float weight) {
    // A double holds the product of two floats exactly.
    const double value = static_cast<double>(weight) * static_cast<double>(column_factor(column));
    col_idx.push_back(column);
    bf16_values.push_back(to_bf16(static_cast<float>(value)));
    exact = exact && static_cast<double>(to_float(bf16_values.back())) == value;
  });
}

}  // namespace atl::cuda
