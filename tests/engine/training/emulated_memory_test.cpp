// A model's use of a device's memory, to the byte: an emulated device gives what is asked for.
#include <gtest/gtest.h>

#include "engine/program/parameters.hpp"
#include "kernels/registry.hpp"

namespace atl {
namespace {

TEST(DeviceMemoryOf, ParametersIsWhatTheyCount) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t cols : {13, 16, 47}) {
      const auto backend = make_backend("cuda", {.device = 0});
      const auto queue = backend->make_queue();
      ParameterStore parameters(dtype, /*pads_operands=*/true);
      parameters.declare({"weight", 0, 20, cols, Initialisation::kGlorotUniform});
      parameters.declare({"bias", 0, 1, cols, Initialisation::kZeros});
      const std::int64_t before = backend->available_bytes();
      parameters.allocate(*backend, *queue, 1);
      EXPECT_EQ(before - backend->available_bytes(), parameters.bytes())
          << to_string(dtype) << ", " << cols;
    }
  }
}

}  // namespace
}  // namespace atl
