#include "kernels/cuda/explicit_matrix.hpp"

#include "kernels/cuda/launchers.hpp"

namespace atl::cuda {

ExplicitMatrix::ExplicitMatrix(Backend& backend, CudaQueue& queue, const SparseOperator& op,
                               RowRange range, DType dtype)
    : rows(range.size()) {
  const auto offsets = static_cast<std::size_t>(rows + 1);
  row_ptr = make_buffer(backend, static_cast<std::int64_t>(offsets * sizeof(std::int32_t)));
  auto* const starts = static_cast<std::int32_t*>(row_ptr.get());
  count_entries(queue.launch(), op, range, {starts, offsets});
  entries = value_at(backend, queue, starts + rows);
  col_idx = make_buffer(backend, entries * static_cast<std::int64_t>(sizeof(std::int32_t)));
  values = make_buffer(backend, entries * bytes_of(dtype));
  auto* const columns = static_cast<std::int32_t*>(col_idx.get());
  fill_entries(queue.launch(), op, range, dtype, starts, columns, values.get());
  const DeviceMemory largest = make_buffer(backend, sizeof(std::int32_t));
  auto* const out = static_cast<std::int32_t*>(largest.get());
  largest_column(queue.launch(), {columns, static_cast<std::size_t>(entries)}, out);
  cols = value_at(backend, queue, out) + std::int64_t{1};
}

bool weights_fit_bf16(Backend& backend, CudaQueue& queue, const SparseOperator& op) {
  const DeviceMemory rounded = make_buffer(backend, sizeof(std::int64_t));
  auto* const out = static_cast<std::int64_t*>(rounded.get());
  for (const std::span<const float> weights : {op.values, op.self_weight}) {
    if (weights.empty()) continue;
    count_rounded(queue.launch(), weights, out);
    if (value_at(backend, queue, out) > 0) return false;
  }
  return true;
}

}  // namespace atl::cuda
