// The CUDA that this program and this machine have, for reports.
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
  std::string obstacle;    // why the cuda backend can't use it; empty if it can
};

struct CudaInstallation {
  std::string runtime;  // version this program was built with; empty: built without CUDA
  std::string driver;   // newest CUDA version that the driver serves; empty: no driver
  std::vector<CudaDeviceInfo> devices;
  std::string why;  // there is no device
  // Files of cuBLAS, cuBLASLt and cuSPARSE, and why they can't be used. A build without CUDA has
  // neither.
  std::vector<std::string> libraries;
  std::string library_obstacle;
};

// Runs a kernel on every device and makes the libraries' handles. Never throws: what is missing is
// said.
CudaInstallation examine_cuda();

}  // namespace atl
