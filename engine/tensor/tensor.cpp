#include "engine/tensor/tensor.hpp"

namespace atl {

DeviceMemory allocate_device(Backend& backend, std::int64_t bytes) {
  return DeviceMemory(bytes == 0 ? nullptr : backend.allocate(bytes), DeviceDeleter{&backend});
}

std::int64_t TensorArena::bytes() const {
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors_) total += tensor.bytes();
  return total;
}

void TensorArena::allocate(Backend& backend) {
  for (Tensor& tensor : tensors_) tensor.allocate(backend);
}

std::vector<float> download_f32(Backend& backend, Queue& queue, ConstMatrixView matrix) {
  ATOLL_ASSERT(matrix.dtype == DType::kF32);
  std::vector<float> host(static_cast<std::size_t>(matrix.rows * matrix.cols));
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    backend.copy(queue, host.data() + i * matrix.cols, matrix.row<float>(i), matrix.cols * 4,
                 CopyKind::kDeviceToHost);
  }
  backend.synchronize(queue);
  return host;
}

}  // namespace atl
