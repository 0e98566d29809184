// Tests that need a device are skipped visibly without one, or fail if ATOLL_REQUIRE_GPU=1.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/registry.hpp"

namespace atl {

// Call it first in SetUp() or the test's body, which must return if IsSkipped() or HasFailure().
inline void require_backend(const std::string& name) {
  if (name != "cuda") return;
  std::string why;
  if (cuda_device_count(why) > 0) return;
  const char* required = std::getenv("ATOLL_REQUIRE_GPU");
  if (required != nullptr && std::string(required) == "1") {
    FAIL() << "ATOLL_REQUIRE_GPU=1, but: " << why;
  }
  GTEST_SKIP() << why;
}

}  // namespace atl
