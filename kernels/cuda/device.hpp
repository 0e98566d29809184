// The devices of this machine and the choice among them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "kernels/registry.hpp"

namespace atl::cuda {

struct Device {
  int index = 0;
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 90 for compute capability 9.0
  int multiprocessors = 1;
  std::int64_t memory_bytes = 0;
  std::string pci_id;  // "0000:19:00.0"

  std::string describe() const;  // "NVIDIA H200 (device 0, sm_90, 139.7 GiB)"
};

// The device of these options, made the current one of the calling thread. Throws Error{kDevice} if
// there is none, if the driver is missing or too old, or if this build has no code for the device;
// Error{kOption} if the index is out of range.
Device choose_device(const BackendOptions& options);

// Queues a kernel that does nothing on the current device (probe.cu).
cudaError_t launch_probe();

}  // namespace atl::cuda
