// The order of operations on a device.
#pragma once

namespace atl {

// An ordered sequence of operations on one device (a CUDA stream; nothing on a CPU).
class Queue {
 public:
  virtual ~Queue() = default;
  // Its handle for libraries of the device (cudaStream_t); null on a CPU.
  virtual void* native_handle() const { return nullptr; }
};

}  // namespace atl
