#include "kernels/cuda/device.hpp"

#include <array>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "kernels/cuda/launch.hpp"

namespace atl {

int cuda_device_count(std::string& why) {
  int count = 0;  // stays as it is where there is no driver
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    why = "this machine has no NVIDIA driver, or one older than this build needs";
  } else if (status == cudaSuccess || status == cudaErrorNoDevice) {
    why = "this machine has no NVIDIA device, or none that is visible (CUDA_VISIBLE_DEVICES)";
  } else {
    why = fmt::format("CUDA does not start: {} ({})", cudaGetErrorString(status),
                      cudaGetErrorName(status));
  }
  return 0;
}

namespace cuda {

namespace {

int choose_index(const BackendOptions& options, int count) {
  if (options.device < 0) return options.local_rank % count;
  if (options.device < count) return options.device;
  fail_option("device {}: this machine has {}, allowed are 0 to {}", options.device, count,
              count - 1);
}

}  // namespace

std::string Device::describe() const {
  return fmt::format("{} (device {}, sm_{}, {})", name, index, capability,
                     format_bytes(memory_bytes));
}

Device choose_device(const BackendOptions& options) {
  std::string why;
  const int count = cuda_device_count(why);
  if (count == 0) fail(ErrorKind::kDevice, "backend cuda: {}", why);
  Device device;
  device.index = choose_index(options, count);
  check(cudaSetDevice(device.index), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  std::array<char, 64> pci_id{};
  check(cudaDeviceGetPCIBusId(pci_id.data(), static_cast<int>(pci_id.size()), device.index),
        "cudaDeviceGetPCIBusId");
  device.name = properties.name;
  device.capability = 10 * properties.major + properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.pci_id = pci_id.data();
  const cudaError_t status = launch_probe();
  if (status != cudaSuccess) {
    cudaGetLastError();
    fail(ErrorKind::kDevice,
         "backend cuda: {} does not run kernels of this build: {} ({}); built with "
         "-DCMAKE_CUDA_ARCHITECTURES={} it would",
         device.describe(), cudaGetErrorString(status), cudaGetErrorName(status),
         device.capability);
  }
  return device;
}

}  // namespace cuda

}  // namespace atl
