// What CUDA this program and this machine have, for reports: nothing is set up on a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atl {

struct CudaDeviceInfo {
  int index = 0;
  std::string name;    // "NVIDIA H200"
  std::string pci_id;  // as Backend::device_id()
  int capability = 0;  // 90 for compute capability 9.0
  std::int64_t memory_bytes = 0;
  std::vector<int> peers;  // devices whose memory this one reaches without the host
};

struct CudaInstallation {
  std::string runtime;  // version this program was built with; empty: built without CUDA
  std::string driver;   // newest CUDA version that the driver serves; empty: no driver
  std::vector<CudaDeviceInfo> devices;
  std::string why;  // there is no device
};

// Never throws: what is missing is said in `why`.
CudaInstallation examine_cuda();

}  // namespace atl
