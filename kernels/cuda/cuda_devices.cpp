#include "kernels/cuda_devices.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>

#include "kernels/registry.hpp"

namespace atl {

namespace {

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

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

CudaDeviceInfo examine_device(int index, int count) {
  CudaDeviceInfo device;
  device.index = index;
  cudaDeviceProp properties{};
  if (const auto status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    device.name = fmt::format("unknown: {}", cudaGetErrorString(status));
    return device;
  }
  std::array<char, 64> pci_id{};
  cudaDeviceGetPCIBusId(pci_id.data(), static_cast<int>(pci_id.size()), index);
  device.name = properties.name;
  device.pci_id = pci_id.data();
  device.capability = 10 * properties.major + properties.minor;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.peers = peers_of(index, count);
  return device;
}

}  // namespace

CudaInstallation examine_cuda() {
  CudaInstallation found;
  int runtime = 0;
  int driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);  // leaves 0 where there is none
  found.runtime = version_text(runtime);
  found.driver = version_text(driver);
  const int count = cuda_device_count(found.why);
  for (int index = 0; index < count; ++index) found.devices.push_back(examine_device(index, count));
  cudaGetLastError();  // a device that could not be examined is no error of what comes later
  return found;
}

}  // namespace atl
