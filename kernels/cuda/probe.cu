// The smallest kernel: whether a device runs code of this build.
#include "kernels/cuda/device.hpp"

namespace atl::cuda {

namespace {

__global__ void probe_kernel() {}

}  // namespace

cudaError_t launch_probe() {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, 1, 1);
  config.blockDim = dim3(1, 1, 1);
  return cudaLaunchKernelEx(&config, probe_kernel);
}

}  // namespace atl::cuda
