// Arrays in device memory that are kept with what was prepared.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>

#include "kernels/backend.hpp"

namespace atl::cuda {

inline DeviceMemory make_buffer(Backend& backend, std::int64_t bytes) {
  return {backend.allocate(bytes), DeviceDeleter{&backend}};
}

// A copy of the array, complete when the call returns; null for an empty one.
template <std::ranges::contiguous_range Values>
DeviceMemory upload(Backend& backend, Queue& queue, const Values& values) {
  const std::span host(values);
  if (host.empty()) return {};
  const auto bytes = static_cast<std::int64_t>(host.size_bytes());
  DeviceMemory buffer = make_buffer(backend, bytes);
  backend.copy(queue, buffer.get(), host.data(), bytes, CopyKind::kHostToDevice);
  return buffer;
}

// The number at `at` in device memory, once what was queued before has run.
template <typename T>
T value_at(Backend& backend, Queue& queue, const T* at) {
  T value{};
  backend.copy(queue, &value, at, sizeof(value), CopyKind::kDeviceToHost);
  return value;
}

}  // namespace atl::cuda
