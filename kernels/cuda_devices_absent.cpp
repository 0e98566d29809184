// Stands in for kernels/cuda/cuda_devices.cpp in a build without CUDA.
#include "kernels/cuda_devices.hpp"
#include "kernels/registry.hpp"

namespace atl {

CudaInstallation examine_cuda() {
  CudaInstallation found;
  cuda_device_count(found.why);
  return found;
}

}  // namespace atl
