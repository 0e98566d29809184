#include "kernels/cuda/device.hpp"

#include <array>

#include "base/memory.hpp"
#include "kernels/cuda/handles.hpp"

namespace atl {

namespace {

// The version of the first driver that serves CUDA of this build's major version.
std::string driver_needed() {
  constexpr int kMajor = CUDART_VERSION / 1000;
  if (kMajor == 12) return "525";
  if (kMajor == 13) return "580";
  return fmt::format("for CUDA {}", kMajor);
}

// For messages, which all say both.
std::string versions() {
  int driver = 0;
  cudaDriverGetVersion(&driver);  // leaves 0 where there is none
  const std::string built = fmt::format("built with CUDA {}", cuda::version_text(CUDART_VERSION));
  if (driver == 0) return built;
  return fmt::format("driver for CUDA up to {}; {}", cuda::version_text(driver), built);
}

std::string describe(cudaError_t status) {
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace

int cuda_device_count(std::string& why) {
  int count = 0;  // stays as it is where there is no driver
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (status == cudaErrorInsufficientDriver && driver == 0) {
    why = fmt::format("this machine has no NVIDIA driver ({}): install version {} or later",
                      versions(), driver_needed());
  } else if (status == cudaErrorInsufficientDriver) {
    why = fmt::format(
        "the NVIDIA driver is too old ({}): update it to version {} or later, or use a build for "
        "CUDA {}",
        versions(), driver_needed(), driver / 1000);
  } else if (status == cudaSuccess || status == cudaErrorNoDevice) {
    why = fmt::format(
        "this machine has no NVIDIA device, or none that is visible ({}): see nvidia-smi and "
        "CUDA_VISIBLE_DEVICES",
        versions());
  } else {
    why = fmt::format("CUDA does not start: {} ({}): see nvidia-smi", describe(status), versions());
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

// They stay for the first queue.
void make_handles(int device) {
  idle_handles<cublasHandle_t>().put(device, take_blas(device));
  idle_handles<cublasLtHandle_t>().put(device, take_blas_lt(device));
  idle_handles<cusparseHandle_t>().put(device, take_sparse(device));
}

}  // namespace

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string Device::describe() const {
  return fmt::format("{} (device {}, sm_{}, {})", name, index, capability,
                     format_bytes(memory_bytes));
}

Device describe_device(int index) {
  Device device;
  device.index = index;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  std::array<char, 64> pci_id{};
  check(cudaDeviceGetPCIBusId(pci_id.data(), static_cast<int>(pci_id.size()), index),
        "cudaDeviceGetPCIBusId");
  device.name = properties.name;
  device.capability = 10 * properties.major + properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.pci_id = pci_id.data();
  return device;
}

std::string library_obstacle() {
  try {
    libraries();
    return "";
  } catch (const Error& error) {
    return fmt::format("{} ({})", error.what(), versions());
  }
}

std::string device_obstacle(const Device& device) {
  cudaError_t status = cudaSetDevice(device.index);
  if (status == cudaSuccess) status = launch_probe();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    return fmt::format(
        "{} does not run kernels of this build: {} ({}): build it with "
        "-DCMAKE_CUDA_ARCHITECTURES={}",
        device.describe(), atl::describe(status), versions(), device.capability);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return fmt::format("{} does not run a kernel: {} ({}): see nvidia-smi", device.describe(),
                       atl::describe(status), versions());
  }
  try {
    make_handles(device.index);
    return "";
  } catch (const Error& error) {
    return fmt::format(
        "{}: {} ({}): the library may be of another version than the driver, or the device's "
        "memory taken",
        device.describe(), error.what(), versions());
  }
}

Device choose_device(const BackendOptions& options) {
  std::string why;
  const int count = cuda_device_count(why);
  const auto refuse = [&](const std::string& obstacle) {
    throw UnusableBackend("cuda", {obstacle, count > 0});
  };
  if (count == 0) refuse(why);
  const int index = choose_index(options, count);
  if (const std::string obstacle = library_obstacle(); !obstacle.empty()) refuse(obstacle);
  const Device device = describe_device(index);
  if (const std::string obstacle = device_obstacle(device); !obstacle.empty()) refuse(obstacle);
  return device;
}

}  // namespace cuda

}  // namespace atl
