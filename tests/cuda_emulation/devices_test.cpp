// Facts that the emulator tells about devices, and a machine without any.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/cuda_emulation/fixtures.hpp"

namespace atl::samples {
namespace {

TEST(EmulatedDevices, HaveProperties) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0));
  EXPECT_STREQ(properties.name, "emulated device");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.multiProcessorCount, 4);
  EXPECT_EQ(properties.warpSize, 32);
  int multiprocessors = 0;
  require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(multiprocessors, 4);
  char bus_id[32] = {};
  require(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
  EXPECT_STREQ(bus_id, "0000:01:00.0");
}

TEST(EmulatedDevices, OthersDoNotExist) {
  int count = 0;
  require(cudaGetDeviceCount(&count));
  cudaDeviceProp properties{};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice");
}

TEST(EmulatedDevicesDeathTest, ThereMayBeNone) {
  // The program is started anew, because devices are made once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* before = std::getenv("ATOLL_EMULATION_DEVICES");
  const std::string devices = before == nullptr ? "1" : before;
  setenv("ATOLL_EMULATION_DEVICES", "0", 1);
  EXPECT_EXIT(
      {
        int count = 7;
        const cudaError_t error = cudaGetDeviceCount(&count);
        std::exit(error == cudaErrorNoDevice && count == 7 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  setenv("ATOLL_EMULATION_DEVICES", devices.c_str(), 1);
  GTEST_FLAG_SET(death_test_style, "fast");
}

}  // namespace
}  // namespace atl::samples
