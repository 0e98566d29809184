// The CUDA functions that copy and fill memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/cuda_emulation/capture.hpp"
#include "tests/support/cuda_emulation/memory.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

namespace {

// Rows of `width` bytes that start `pitch` bytes apart.
struct Rows {
  const void* begin;
  size_t pitch;
};

struct Shape {
  size_t width, height;
  size_t extent(size_t pitch) const { return (height - 1) * pitch + width; }
};

bool is_device_memory(const void* pointer) { return memory().find(pointer) != nullptr; }

// Whether all bytes lie in one allocation; host memory is not checked.
bool lies_within(const Rows& rows, const Shape& shape) {
  const Allocation* const allocation = memory().find(rows.begin);
  if (allocation == nullptr) return true;
  const auto address = reinterpret_cast<std::uintptr_t>(rows.begin);
  return address - allocation->base + shape.extent(rows.pitch) <= allocation->bytes;
}

bool kind_fits(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = is_device_memory(to);
  const bool from_device = is_device_memory(from);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, const Shape& shape) {
  for (size_t row = 0; row < shape.height; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch,
                static_cast<const char*>(from) + row * from_pitch, shape.width);
  }
}

// `synchronous`: what cudaMemcpy does beyond cudaMemcpyAsync.
cudaError_t copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, Shape shape,
                 cudaMemcpyKind kind, cudaStream_t handle, bool synchronous) {
  return api([&](Lock& lock) -> cudaError_t {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (synchronous) {
      const cudaError_t refused = refuse_in_capture();
      if (refused != cudaSuccess) return refused;
    }
    if (shape.width == 0 || shape.height == 0) return cudaSuccess;
    if (to_pitch < shape.width || from_pitch < shape.width) return cudaErrorInvalidPitchValue;
    if (!kind_fits(to, from, kind)) return cudaErrorInvalidValue;
    if (!lies_within({to, to_pitch}, shape) || !lies_within({from, from_pitch}, shape)) {
      return cudaErrorInvalidValue;
    }
    const bool to_pageable = !is_device_memory(to) && !memory().is_pinned(to);
    const bool from_pageable = !is_device_memory(from) && !memory().is_pinned(from);
    if (stream->capture && (to_pageable || from_pageable)) {
      return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    const bool finished_at_return =
        to_pageable || (synchronous && !(is_device_memory(to) && is_device_memory(from)));
    std::function<void()> work;
    if (from_pageable) {
      // Pageable memory is copied as it is at the time of the call, whenever that happens.
      auto kept = std::make_shared<std::vector<char>>(shape.width * shape.height);
      copy_rows(kept->data(), shape.width, from, from_pitch, shape);
      work = [=] { copy_rows(to, to_pitch, kept->data(), shape.width, shape); };
    } else {
      work = [=] { copy_rows(to, to_pitch, from, from_pitch, shape); };
    }
    std::uint64_t item = 0;
    const cudaError_t error = enqueue(
        *stream, std::make_shared<DeviceOperation>(*stream->device, std::move(work)), lock, &item);
    if (error != cudaSuccess || !finished_at_return) return error;
    Device& device = *stream->device;
    ++runtime().host_waits;
    finish(*stream, item, lock);
    return device.sticky;
  });
}

cudaError_t fill(void* to, size_t pitch, int value, Shape shape, cudaStream_t handle) {
  return api([&](Lock& lock) -> cudaError_t {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (shape.width == 0 || shape.height == 0) return cudaSuccess;
    if (pitch < shape.width) return cudaErrorInvalidPitchValue;
    if (!is_device_memory(to) && !memory().is_pinned(to)) return cudaErrorInvalidValue;
    if (!lies_within({to, pitch}, shape)) return cudaErrorInvalidValue;
    return enqueue(
        *stream,
        [=] {
          for (size_t row = 0; row < shape.height; ++row) {
            std::memset(static_cast<char*>(to) + row * pitch, value, shape.width);
          }
        },
        lock);
  });
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t count, cudaMemcpyKind kind) {
  return copy(to, count, from, count, {count, 1}, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, count, from, count, {count, 1}, kind, stream, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy(to, to_pitch, from, from_pitch, {width, height}, kind, stream, false);
}

cudaError_t cudaMemset(void* to, int value, size_t count) {
  return fill(to, count, value, {count, 1}, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t count, cudaStream_t stream) {
  return fill(to, count, value, {count, 1}, stream);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill(to, pitch, value, {width, height}, stream);
}
