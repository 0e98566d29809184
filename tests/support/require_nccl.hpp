// Tests of messages that travel from device to device need a device for each rank, because NCCL
// takes no two ranks on one. With fewer, or without NCCL, they are skipped visibly, or fail if
// ATOLL_REQUIRE_DEVICES asks for that many.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "engine/comm/device_transport.hpp"
#include "kernels/registry.hpp"

namespace atl {

// How many ranks may use NCCL here.
inline int nccl_devices() {
  std::string why;
  return nccl_version().empty() ? 0 : cuda_device_count(why);
}

// Call it first in SetUp() or the test's body, which must return if IsSkipped() or HasFailure().
inline void require_nccl_devices(int count) {
  const int found = nccl_devices();
  if (found >= count) return;
  const char* required = std::getenv("ATOLL_REQUIRE_DEVICES");
  if (required != nullptr && std::atoi(required) >= count) {
    FAIL() << "ATOLL_REQUIRE_DEVICES=" << required << ", but NCCL can use " << found;
  }
  GTEST_SKIP() << count << " CUDA devices and NCCL are needed, there are " << found;
}

}  // namespace atl
