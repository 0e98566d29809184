// The order of operations on a device.
#pragma once

namespace atl {

// An ordered sequence of operations on one device (a CUDA stream; nothing on a CPU).
class Queue {
 public:
  virtual ~Queue() = default;
  // What libraries of the device call it (cudaStream_t); null on a CPU.
  virtual void* native_handle() const { return nullptr; }
};

}  // namespace atl
