#include "kernels/cuda_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/require_device.hpp"

namespace atl {
namespace {

TEST(CudaDevices, AreThoseOfTheBackend) {
  require_backend("cuda");
  if (IsSkipped() || HasFailure()) return;
  const CudaInstallation found = examine_cuda();
  std::string why;
  ASSERT_EQ(static_cast<int>(found.devices.size()), cuda_device_count(why));
  EXPECT_EQ(found.why, "");
  EXPECT_EQ(found.library_obstacle, "");
  EXPECT_EQ(found.libraries.size(), 3U);
  EXPECT_THAT(found.runtime, testing::MatchesRegex("[0-9]+\\.[0-9]+"));
  EXPECT_THAT(found.driver, testing::MatchesRegex("[0-9]+\\.[0-9]+"));
  for (const CudaDeviceInfo& device : found.devices) {
    const auto backend = make_backend("cuda", {.threads = 1, .device = device.index});
    EXPECT_EQ(device.obstacle, "");
    EXPECT_EQ(device.pci_id, backend->device_id());
    EXPECT_THAT(backend->device(), testing::StartsWith(device.name));
    EXPECT_THAT(backend->device(), testing::HasSubstr(std::to_string(device.capability)));
    EXPECT_GE(device.memory_bytes, backend->available_bytes());
    for (const int peer : device.peers) {
      EXPECT_NE(peer, device.index);
      EXPECT_LT(peer, static_cast<int>(found.devices.size()));
    }
  }
}

TEST(CudaDevices, TheirAbsenceHasAReason) {
  std::string why;
  if (cuda_device_count(why) > 0) GTEST_SKIP() << "there are devices";
  const CudaInstallation found = examine_cuda();
  EXPECT_TRUE(found.devices.empty());
  EXPECT_EQ(found.why, why);
  EXPECT_NE(found.why, "");
}

}  // namespace
}  // namespace atl
