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

std::int64_t TensorArena::bytes() const {
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors_) total += tensor.bytes();
  return total;
}

void TensorArena::allocate(Backend& backend) {
  for (Tensor& tensor : tensors_) tensor.allocate(backend);
}

void upload_f32(Backend& backend, Queue& queue, std::span<const float> host, MatrixView y) {
  ATOLL_ASSERT(y.stride == y.cols && std::ssize(host) == y.rows * y.cols);
  const auto copy = [&](MatrixView to, const float* from) {
    backend.copy(queue, to.data, from, to.rows * to.cols * 4, CopyKind::kHostToDevice);
  };
  if (y.dtype == DType::kF32) {
    copy(y, host.data());
  } else if (!y.empty()) {
    // Through f32 rows on the device, a bounded number at a time.
    constexpr std::int64_t kElements = 16 << 20;
    const std::int64_t chunk = std::min(y.rows, std::max<std::int64_t>(1, kElements / y.cols));
    Tensor wide(backend, chunk, y.cols, DType::kF32);
    for (std::int64_t begin = 0; begin < y.rows; begin += chunk) {
      const RowRange range{begin, std::min(begin + chunk, y.rows)};
      const MatrixView rows = wide.view().rows_in({0, range.size()});
      copy(rows, host.data() + begin * y.cols);
      backend.convert(queue, rows, y.rows_in(range));
    }
    // `wide` goes away here; release() waits for the queue.
  }
  backend.synchronize(queue);
}

std::vector<float> download_f32(Backend& backend, Queue& queue, ConstMatrixView matrix) {
  ATOLL_ASSERT(matrix.dtype != DType::kF64);
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
  std::vector<float> host(count);
  const auto copy_rows = [&](auto* to) {
    if (matrix.empty()) return;
    using T = std::remove_pointer_t<decltype(to)>;
    const auto bytes = static_cast<std::int64_t>(sizeof(T));
    if (matrix.stride == matrix.cols) {
      backend.copy(queue, to, matrix.data, matrix.rows * matrix.cols * bytes,
                   CopyKind::kDeviceToHost);
    } else {
      for (std::int64_t i = 0; i < matrix.rows; ++i) {
        backend.copy(queue, to + i * matrix.cols, matrix.row<T>(i), matrix.cols * bytes,
                     CopyKind::kDeviceToHost);
      }
    }
    backend.synchronize(queue);
  };
  if (matrix.dtype == DType::kF32) {
    copy_rows(host.data());
    return host;
  }
  std::vector<Bf16> narrow(count);
  copy_rows(narrow.data());
  std::ranges::transform(narrow, host.begin(), to_float);
  return host;
}

}  // namespace atl
