// The devices of this machine, what stands in the way of using them, and the choice among them.
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

// The device of these options, made the current one of the calling thread. Throws UnusableBackend
// if there is none, or an obstacle; Error{kOption} if the index is out of range.
Device choose_device(const BackendOptions& options);

// Why the cuda backend can't use any device, or this one, of those that are there; empty if it can.
// The first loads the libraries. The second runs a kernel and makes the libraries' handles on the
// device, which becomes the current one of the calling thread.
std::string library_obstacle();
std::string device_obstacle(const Device& device);
// CUDA's description of a device. Throws Error{kDevice}.
Device describe_device(int index);

// "13.0"; "" for 0.
std::string version_text(int version);
// Queues a kernel that does nothing on the current device (probe.cu).
cudaError_t launch_probe();

}  // namespace atl::cuda
