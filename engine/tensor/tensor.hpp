// Matrices and arrays that own memory of a Backend.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"

namespace atl {

DeviceMemory allocate_device(Backend& backend, std::int64_t bytes);

// Frees staging memory of a backend.
struct StagingDeleter {
  Backend* backend = nullptr;
  void operator()(void* data) const noexcept { backend->release_staging(data); }
};
using StagingMemory = std::unique_ptr<void, StagingDeleter>;
StagingMemory allocate_staging(Backend& backend, std::int64_t bytes);

// Memory by `kAllocate`, one of the two above, as large as it was ever asked for.
template <auto kAllocate>
class GrowingMemory {
 public:
  // Loses what is there where it grows.
  void reserve(Backend& backend, std::int64_t bytes) {
    if (bytes_ >= bytes) return;
    memory_.reset();  // first: there may be no room for both
    bytes_ = 0;
    memory_ = kAllocate(backend, bytes);
    bytes_ = bytes;
  }
  void* get() const { return memory_.get(); }

 private:
  std::invoke_result_t<decltype(kAllocate), Backend&, std::int64_t> memory_;
  std::int64_t bytes_ = 0;
};

// A dense row-major matrix, its rows padded (padded_columns). Its shape is declared first and its
// memory allocated later, so that a rank knows what it needs before it takes anything.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::int64_t rows, std::int64_t cols, DType dtype)
      : rows_(rows), cols_(cols), dtype_(dtype) {}
  Tensor(Backend& backend, std::int64_t rows, std::int64_t cols, DType dtype)
      : Tensor(rows, cols, dtype) {
    allocate(backend);
  }

  // Throws Error{kMemory} if the backend has no room for bytes().
  void allocate(Backend& backend);
  // Gives the memory back; the shape stays.
  void release() { memory_.reset(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t bytes() const { return elements() * bytes_of(dtype_); }
  // Before allocate(): makes room for so many elements, padding included, for reshaped().
  void reserve(std::int64_t elements) {
    ATOLL_ASSERT(memory_ == nullptr);
    reserved_ = std::max(reserved_, elements);
  }

  MatrixView view() { return {memory_.get(), rows_, cols_, padded_columns(cols_), dtype_}; }
  ConstMatrixView view() const {
    return {memory_.get(), rows_, cols_, padded_columns(cols_), dtype_};
  }
  // The first elements as a matrix of another shape: its memory has many users.
  MatrixView reshaped(std::int64_t rows, std::int64_t cols) {
    ATOLL_ASSERT(rows * padded_columns(cols) <= elements(), "{} x {} in {} x {} or {}", rows, cols,
                 rows_, cols_, reserved_);
    return {memory_.get(), rows, cols, padded_columns(cols), dtype_};
  }

 private:
  std::int64_t elements() const { return std::max(rows_ * padded_columns(cols_), reserved_); }

  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::int64_t reserved_ = 0;  // elements
  DType dtype_ = DType::kF32;
  DeviceMemory memory_;
};

// A constant array in the memory of a backend. Where the host's memory is the backend's, it refers
// to the given span (a mapped shard, say), which must outlive it; else it owns a copy.
template <typename T>
class ConstDeviceArray {
 public:
  ConstDeviceArray() = default;
  ConstDeviceArray(Backend& backend, Queue& queue, std::span<const T> host) : span_(host) {
    if (!backend.host_accessible()) copy(backend, queue, host);
  }
  // Takes over the vector where the host's memory is the backend's.
  ConstDeviceArray(Backend& backend, Queue& queue, std::vector<T>&& host)
      : kept_(std::move(host)), span_(kept_) {
    if (!backend.host_accessible()) copy(backend, queue, span_);
  }
  ConstDeviceArray(ConstDeviceArray&&) noexcept = default;
  ConstDeviceArray& operator=(ConstDeviceArray&&) noexcept = default;

  std::span<const T> span() const { return span_; }

 private:
  void copy(Backend& backend, Queue& queue, std::span<const T> host) {
    memory_ = allocate_device(backend, static_cast<std::int64_t>(host.size_bytes()));
    backend.copy(queue, memory_.get(), host.data(), static_cast<std::int64_t>(host.size_bytes()),
                 CopyKind::kHostToDevice);
    backend.synchronize(queue);
    span_ = {static_cast<const T*>(memory_.get()), host.size()};
    kept_ = {};
  }

  std::vector<T> kept_;
  DeviceMemory memory_;
  std::span<const T> span_;
};

// A mutable array in the memory of a backend.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Backend& backend, std::int64_t count)
      : memory_(allocate_device(backend, count * static_cast<std::int64_t>(sizeof(T)))),
        count_(count) {}

  std::span<T> span() { return {static_cast<T*>(memory_.get()), static_cast<std::size_t>(count_)}; }
  std::span<const T> span() const {
    return {static_cast<const T*>(memory_.get()), static_cast<std::size_t>(count_)};
  }
  std::vector<T> download(Backend& backend, Queue& queue) const {
    std::vector<T> host(static_cast<std::size_t>(count_));
    backend.copy(queue, host.data(), memory_.get(), count_ * static_cast<std::int64_t>(sizeof(T)),
                 CopyKind::kDeviceToHost);
    backend.synchronize(queue);
    return host;
  }
  void upload(Backend& backend, Queue& queue, std::span<const T> host) {
    ATOLL_ASSERT(static_cast<std::int64_t>(host.size()) == count_);
    backend.copy(queue, memory_.get(), host.data(), static_cast<std::int64_t>(host.size_bytes()),
                 CopyKind::kHostToDevice);
    backend.synchronize(queue);
  }

 private:
  DeviceMemory memory_;
  std::int64_t count_ = 0;
};

// A few results in the memory of a backend for the host, which get there like all other work: the
// host need not wait for them alone.
template <typename T>
class ReadBackArray {
 public:
  // Throws Error{kMemory} if there is no room for `count` entries, on either side.
  ReadBackArray(Backend& backend, std::int64_t count)
      : device_(backend, count),
        host_(allocate_staging(backend, count * static_cast<std::int64_t>(sizeof(T)))) {}

  std::span<T> span() { return device_.span(); }
  // Queues a copy: once the queue has run, host() is what span() was at this point.
  void queue_copy(Backend& backend, Queue& queue) {
    backend.copy(queue, host_.get(), device_.span().data(),
                 static_cast<std::int64_t>(device_.span().size_bytes()), CopyKind::kDeviceToHost);
  }
  // Uninitialised until a copy has run.
  std::span<const T> host() const {
    return {static_cast<const T*>(host_.get()), device_.span().size()};
  }

 private:
  DeviceArray<T> device_;
  StagingMemory host_;
};

// 0, 1, 2, ...: lists of all rows, say.
template <typename T>
std::vector<T> first_numbers(std::int64_t count) {
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<T>(k);
  return numbers;
}

// Whole rows, padding included.
inline std::span<std::byte> rows_as_bytes(MatrixView rows) {
  return {static_cast<std::byte*>(rows.data),
          static_cast<std::size_t>(rows.rows * rows.stride * bytes_of(rows.dtype))};
}

// Fills rows with zeros, padding included, which kernels don't write: rows travel with it.
void fill_zero_rows(Backend& backend, Queue& queue, MatrixView rows);

// Fills y [rows, cols] in the backend's memory, f32 or bf16, with a row-major f32 matrix of the
// host. Rows of y lie as those of a Tensor, whose padding may be written, or without gaps.
void upload_f32(Backend& backend, Queue& queue, std::span<const float> host, MatrixView y);
// Rows of a matrix, f32 or bf16, as f32 on the host, row-major without padding.
std::vector<float> download_f32(Backend& backend, Queue& queue, ConstMatrixView matrix);

}  // namespace atl
