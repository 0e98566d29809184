// Shared by tests of NCCL: the devices they need, labels, and bytes to recognise.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/comm/device_rank.hpp"
#include "tests/support/require_nccl.hpp"

namespace atl {

inline constexpr double kNcclTimeout = 60;
inline constexpr OperationLabel kNcclHalo{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};
inline constexpr OperationLabel kGradients{.operation = "gradient all-reduce", .epoch = 4};

template <int kDevices>
class OnDevices : public testing::Test {
 protected:
  void SetUp() override { require_nccl_devices(kDevices); }
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
