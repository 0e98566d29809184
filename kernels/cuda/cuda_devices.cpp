#include "kernels/cuda_devices.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/libraries.hpp"

namespace atl {

namespace {

std::vector<int> peers_of(int device, int count) {
  std::vector<int> peers;
  for (int other = 0; other < count; ++other) {
    int reaches = 0;
    if (other != device && cudaDeviceCanAccessPeer(&reaches, device, other) == cudaSuccess &&
        reaches != 0) {
      peers.push_back(other);
    }
  }
  return peers;
}

CudaDeviceInfo examine_device(int index, int count, bool has_libraries) {
  CudaDeviceInfo info;
  info.index = index;
  try {
    const cuda::Device device = cuda::describe_device(index);
    info.name = device.name;
    info.pci_id = device.pci_id;
    info.capability = device.capability;
    info.memory_bytes = device.memory_bytes;
    info.peers = peers_of(index, count);
    if (has_libraries) info.obstacle = cuda::device_obstacle(device);
  } catch (const Error& error) {
    info.name = "unknown";
    info.obstacle = error.what();
  }
  return info;
}

std::string file_of(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) == 0 || info.dli_fname == nullptr ? "unknown" : info.dli_fname;
}

}  // namespace

CudaInstallation examine_cuda() {
  CudaInstallation found;
  int driver = 0;
  cudaDriverGetVersion(&driver);  // leaves 0 where there is none
  found.runtime = cuda::version_text(CUDART_VERSION);
  found.driver = cuda::version_text(driver);
  const int count = cuda_device_count(found.why);
  found.library_obstacle = cuda::library_obstacle();
  const bool has_libraries = found.library_obstacle.empty();
  if (has_libraries) {
    const cuda::Libraries& libraries = cuda::libraries();
    found.libraries = {file_of(reinterpret_cast<const void*>(libraries.cublasCreate)),
                       file_of(reinterpret_cast<const void*>(libraries.cublasLtCreate)),
                       file_of(reinterpret_cast<const void*>(libraries.cusparseCreate))};
  }
  for (int index = 0; index < count; ++index) {
    found.devices.push_back(examine_device(index, count, has_libraries));
  }
  cudaGetLastError();  // a device that could not be examined is no error of what comes later
  return found;
}

}  // namespace atl
