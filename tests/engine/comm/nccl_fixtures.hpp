// What tests of NCCL share: the devices they need, labels, and bytes to recognise.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/engine/comm/device_rank.hpp"

namespace atl {

inline constexpr double kNcclTimeout = 60;
inline constexpr OperationLabel kNcclHalo{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};
inline constexpr OperationLabel kGradients{.operation = "gradient all-reduce", .epoch = 4};

// Skipped visibly with fewer devices or without NCCL, or failed if ATOLL_REQUIRE_DEVICES asks for
// that many.
template <int kDevices>
class OnDevices : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    const int found = nccl_version().empty() ? 0 : cuda_device_count(why);
    if (found >= kDevices) return;
    const char* required = std::getenv("ATOLL_REQUIRE_DEVICES");
    if (required != nullptr && std::atoi(required) >= kDevices) {
      FAIL() << "ATOLL_REQUIRE_DEVICES=" << required << ", but NCCL can use " << found;
    }
    GTEST_SKIP() << kDevices << " CUDA devices and NCCL are needed, there are " << found;
  }
};
using NcclOnOneDevice = OnDevices<1>;
using NcclOnTwoDevices = OnDevices<2>;
using NcclOnThreeDevices = OnDevices<3>;

inline std::vector<std::byte> pattern(std::size_t length, int seed) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 37 + i * 7 + (i >> 8) * 3 +
                                      (i >> 16));
  }
  return bytes;
}

}  // namespace atl
