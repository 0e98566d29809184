// The tests' own tools must fail when they should.
#include "tests/kernels/harness.hpp"

#include <gtest/gtest-spi.h>

#include <cstring>
#include <limits>

namespace atl {

namespace {

TEST(Tools, NaNNeverPassesAComparison) {
  EXPECT_FATAL_FAILURE(expect_close({std::numeric_limits<double>::quiet_NaN()}, {1}, 1e9, "found"),
                       "found: element 0");
  EXPECT_FATAL_FAILURE(expect_close({1}, {std::numeric_limits<double>::quiet_NaN()}, 1e9, "NaN"),
                       "NaN");
  EXPECT_FATAL_FAILURE(expect_close({std::numeric_limits<double>::quiet_NaN()},
                                    {std::numeric_limits<double>::quiet_NaN()}, 1e9, "both"),
                       "both");
  EXPECT_FATAL_FAILURE(expect_close({1, 2}, {1}, 1, "lengths"), "lengths");
  EXPECT_FATAL_FAILURE(expect_close({1.1}, {1}, 0.01, "far"), "far");
  expect_close({1.01}, {1}, 0.01, "near");
}

TEST(Tools, InfinityIsCloseToNothingElse) {
  const double infinity = std::numeric_limits<double>::infinity();
  expect_close({infinity, -infinity}, {infinity, -infinity}, 0, "same");
  EXPECT_FATAL_FAILURE(expect_close({1}, {std::numeric_limits<double>::infinity()}, 1, "expected"),
                       "expected: element 0");
  EXPECT_FATAL_FAILURE(expect_close({std::numeric_limits<double>::infinity()}, {1}, 1, "found"),
                       "found: element 0");
}

TEST(Tools, NumbersOfBf16MayBeOneStepApart) {
  expect_close_bf16({1 + 0x1p-7, 1 - 0x1p-8, 2 + 0x1p-6, -256}, {1, 1, 2, -258}, 0, "one step");
  EXPECT_FATAL_FAILURE(expect_close_bf16({1 + 0x1p-6}, {1}, 0, "two"), "two: element 0");
  EXPECT_FATAL_FAILURE(expect_close_bf16({1 - 0x1p-7}, {1}, 0, "below"), "below: element 0");
  EXPECT_FATAL_FAILURE(expect_close_bf16({0x1p-7}, {0}, 0x1p-15, "zero"), "zero: element 0");
  EXPECT_FATAL_FAILURE(expect_close_bf16({std::numeric_limits<double>::quiet_NaN()}, {1}, 1, "NaN"),
                       "NaN");
}

TEST(Tools, AWriteOutsideAnOutputIsSeen) {
  // Byte offsets from the first element of a 2 x 2 output with 3 elements of padding.
  for (const std::int64_t offset : {-1, 8, 19, 40}) {
    EXPECT_NONFATAL_FAILURE(
        {
          Harness h("reference");
          const MatrixView y = h.output(2, 2);
          std::byte& byte = static_cast<std::byte*>(y.data)[offset];
          byte = ~byte;
        },
        "wrote byte");
  }
}

TEST(Tools, AChangedInputIsSeen) {
  EXPECT_NONFATAL_FAILURE(
      {
        Harness h("reference");
        const auto values = h.input_span<float>({1, 2});
        const_cast<float&>(values[1]) = 3;
      },
      "wrote byte 6");
}

}  // namespace

}  // namespace atl
