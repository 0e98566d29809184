// Device arrays for the emulator's own tests.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace atl::samples {

// Ends the test where a CUDA call fails, whose result the test does not examine.
inline void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}

// `count` values in device memory.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    require(cudaMalloc(&values_, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(cudaMemcpy(values_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(values_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return values_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  // The values after all work of the device.
  std::vector<T> download() const {
    require(cudaDeviceSynchronize());
    std::vector<T> values(count_);
    require(cudaMemcpy(values.data(), values_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* values_ = nullptr;
  std::size_t count_;
};

// A stream that does not synchronize with the null stream.
class TestStream {
 public:
  TestStream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// `count` values in pinned host memory.
template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t count) { require(cudaMallocHost(&values_, count * sizeof(T))); }
  ~PinnedArray() { cudaFreeHost(values_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  T& operator[](std::size_t i) { return values_[i]; }
  T* get() const { return values_; }

 private:
  T* values_ = nullptr;
};

}  // namespace atl::samples
