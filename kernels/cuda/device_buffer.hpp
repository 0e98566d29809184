// Arrays in device memory that are kept with what was prepared.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/backend.hpp"

namespace atl::cuda {

struct BufferDeleter {
  Backend* backend = nullptr;
  void operator()(void* data) const noexcept { backend->release(data); }
};
using Buffer = std::unique_ptr<void, BufferDeleter>;

inline Buffer make_buffer(Backend& backend, std::int64_t bytes) {
  return {backend.allocate(bytes), BufferDeleter{&backend}};
}

// A copy of the array, complete when the call returns; null for an empty one.
template <typename T>
Buffer upload(Backend& backend, Queue& queue, std::span<const T> values) {
  if (values.empty()) return {};
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  Buffer buffer = make_buffer(backend, bytes);
  backend.copy(queue, buffer.get(), values.data(), bytes, CopyKind::kHostToDevice);
  return buffer;
}

}  // namespace atl::cuda
