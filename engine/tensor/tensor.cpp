#include "engine/tensor/tensor.hpp"

#include <algorithm>

#include "kernels/bf16.hpp"

namespace atl {

DeviceMemory allocate_device(Backend& backend, std::int64_t bytes) {
  return DeviceMemory(bytes == 0 ? nullptr : backend.allocate(bytes), DeviceDeleter{&backend});
}

StagingMemory allocate_staging(Backend& backend, std::int64_t bytes) {
  return StagingMemory(bytes == 0 ? nullptr : backend.allocate_staging(bytes),
                       StagingDeleter{&backend});
}

void Tensor::allocate(Backend& backend) { memory_ = allocate_device(backend, bytes()); }

namespace {

// Rows that are moved together where they pass through other memory.
std::int64_t rows_at_once(ConstMatrixView matrix) {
  constexpr std::int64_t kElements = 16 << 20;
  return std::min(matrix.rows, std::max<std::int64_t>(1, kElements / matrix.stride));
}

// Rows without padding, from the host.
void upload_rows(Backend& backend, Queue& queue, const float* from, MatrixView to) {
  if (to.stride == to.cols) {
    return backend.copy(queue, to.data, from, to.rows * to.cols * 4, CopyKind::kHostToDevice);
  }
  std::vector<float> padded(static_cast<std::size_t>(to.rows * to.stride));
  for (std::int64_t i = 0; i < to.rows; ++i) {
    std::copy_n(from + i * to.cols, to.cols, padded.data() + i * to.stride);
  }
  backend.copy(queue, to.data, padded.data(), std::ssize(padded) * 4, CopyKind::kHostToDevice);
  backend.synchronize(queue);
}

// Rows without padding, to the host.
template <typename T>
void download_rows(Backend& backend, Queue& queue, ConstMatrixView from, T* to) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  if (from.stride == from.cols) {
    backend.copy(queue, to, from.data, from.rows * from.cols * kBytes, CopyKind::kDeviceToHost);
    return backend.synchronize(queue);
  }
  // The last row may end with its columns.
  std::vector<T> padded(static_cast<std::size_t>((from.rows - 1) * from.stride + from.cols));
  backend.copy(queue, padded.data(), from.data, std::ssize(padded) * kBytes,
               CopyKind::kDeviceToHost);
  backend.synchronize(queue);
  for (std::int64_t i = 0; i < from.rows; ++i) {
    std::copy_n(padded.data() + i * from.stride, from.cols, to + i * from.cols);
  }
}

}  // namespace

void fill_zero_rows(Backend& backend, Queue& queue, MatrixView rows) {
  rows.cols = rows.stride;
  backend.run(queue, kernels::FillZero{rows});
}

void upload_f32(Backend& backend, Queue& queue, std::span<const float> host, MatrixView y) {
  // Between the columns of any other matrix might lie somebody else's.
  ATOLL_ASSERT(y.stride == y.cols || y.stride == padded_columns(y.cols));
  ATOLL_ASSERT(std::ssize(host) == y.rows * y.cols);
  if (y.empty()) return backend.synchronize(queue);
  const std::int64_t chunk = rows_at_once(y);
  const bool direct = y.dtype == DType::kF32;
  Tensor wide(direct ? 0 : chunk, y.cols, DType::kF32);
  wide.allocate(backend);
  for (std::int64_t begin = 0; begin < y.rows; begin += chunk) {
    const RowRange range{begin, std::min(begin + chunk, y.rows)};
    const MatrixView rows = direct ? y.rows_in(range) : wide.view().rows_in({0, range.size()});
    upload_rows(backend, queue, host.data() + begin * y.cols, rows);
    if (!direct) backend.run(queue, kernels::Convert{rows, y.rows_in(range)});
  }
  backend.synchronize(queue);
}

std::vector<float> download_f32(Backend& backend, Queue& queue, ConstMatrixView matrix) {
  ATOLL_ASSERT(matrix.dtype != DType::kF64);
  std::vector<float> host(static_cast<std::size_t>(matrix.rows * matrix.cols));
  if (matrix.empty()) return host;
  const std::int64_t chunk = rows_at_once(matrix);
  std::vector<Bf16> narrow;
  for (std::int64_t begin = 0; begin < matrix.rows; begin += chunk) {
    const ConstMatrixView rows = matrix.rows_in({begin, std::min(begin + chunk, matrix.rows)});
    float* const to = host.data() + begin * matrix.cols;
    if (matrix.dtype == DType::kF32) {
      download_rows(backend, queue, rows, to);
    } else {
      narrow.resize(static_cast<std::size_t>(rows.rows * rows.cols));
      download_rows(backend, queue, rows, narrow.data());
      std::ranges::transform(narrow, to, to_float);
    }
  }
  return host;
}

}  // namespace atl
