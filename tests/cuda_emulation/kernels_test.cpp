// Threads, barriers, warp exchange and shared memory of emulated kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"
#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

TEST(EmulatedKernel, RunsEveryThreadOnce) {
  const DeviceArray<int> in(std::vector<int>{4, 7, -1, 2, 70});
  const DeviceArray<int> out(5);
  require(add_one(nullptr, out.get(), in.get(), 5));
  EXPECT_THAT(out.download(), testing::ElementsAre(5, 8, 0, 3, 71));
}

TEST(EmulatedKernel, IndicesOfAThreeDimensionalGrid) {
  const DeviceArray<int> out(12 * 24);
  require(grid_indices(nullptr, out.get()));
  std::vector<int> expected(12 * 24);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(out.download(), expected);
}

TEST(EmulatedKernel, BarrierMakesSharedMemoryVisible) {
  std::vector<float> values(3 * 256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  const DeviceArray<float> in(values);
  const DeviceArray<float> out(3);
  require(block_sums(nullptr, out.get(), in.get(), 3));
  std::vector<float> expected;
  for (int block = 0; block < 3; ++block) {
    expected.push_back(
        std::accumulate(values.begin() + block * 256, values.begin() + block * 256 + 256, 0.0f));
  }
  EXPECT_EQ(out.download(), expected);
}

TEST(EmulatedKernel, AMissingBarrierGivesAWrongResult) {
  const DeviceArray<float> in(std::vector<float>(256, 1.0f));
  const DeviceArray<float> out(1);
  require(block_sums_without_barrier(nullptr, out.get(), in.get(), 1));
  EXPECT_NE(out.download()[0], 256.0f);
}

TEST(EmulatedKernel, SharedMemoryIsPoisonedBeforeEveryBlock) {
  const DeviceArray<float> out(96);
  require(read_fresh_shared(nullptr, out.get()));
  // Each of the four blocks overwrote the result of the one before.
  for (const float value : out.download()) EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedKernel, WarpIntrinsics) {
  const DeviceArray<int> out(10 * 32);
  require(warp_intrinsics(nullptr, out.get()));
  const std::vector<int> rows = out.download();
  const auto row = [&](int which, int lane) {
    return rows[static_cast<std::size_t>(which * 32 + lane)];
  };
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(row(0, lane), 5);
    EXPECT_EQ(row(1, lane), lane ^ 3);
    EXPECT_EQ(row(2, lane), lane < 28 ? lane + 4 : lane);
    EXPECT_EQ(row(3, lane), lane >= 4 ? lane - 4 : lane);
    EXPECT_EQ(static_cast<unsigned>(row(4, lane)), 0x49249249u);
    EXPECT_EQ(row(5, lane), 1);
    EXPECT_EQ(row(6, lane), 0);
    EXPECT_EQ(row(7, lane), 3 * (lane ^ 1));
    EXPECT_EQ(row(8, lane), lane / 8 * 8 + 1);
    EXPECT_EQ(row(9, lane), (lane + 8) % 32 / 8 * 8 + 1);
  }
}

TEST(EmulatedKernel, DisjointMasksExchangeApart) {
  const DeviceArray<int> out(32);
  require(half_warp_sums(nullptr, out.get()));
  std::vector<int> expected(32, 120);
  std::fill(expected.begin() + 16, expected.end(), 376);
  EXPECT_EQ(out.download(), expected);
}

TEST(EmulatedKernel, Atomics) {
  const DeviceArray<unsigned> out(std::vector<unsigned>{5});
  require(count_threads(nullptr, out.get()));
  EXPECT_EQ(out.download()[0], 5u + 8 * 96);
}

TEST(EmulatedKernel, Bfloat16RoundsToNearestEven) {
  std::vector<float> values(32, 0.0f);
  values[0] = 1.00390625f;  // halfway between 1 and 1.0078125: to the even 1
  values[1] = 1.01171875f;  // halfway between 1.0078125 and 1.015625: to the even 1.015625
  values[2] = -3.1415927f;
  const DeviceArray<float> in(values);
  const DeviceArray<float> out(32);
  require(bfloat16_round_trip(nullptr, out.get(), in.get()));
  const std::vector<float> rounded = out.download();
  EXPECT_EQ(rounded[0], 1.0f);
  EXPECT_EQ(rounded[1], 1.015625f);
  EXPECT_EQ(rounded[2], -3.140625f);
}

TEST(EmulatedKernelDeathTest, DivergenceAtBarriers) {
  EXPECT_DEATH(
      {
        half_block_at_barrier(nullptr);
        cudaDeviceSynchronize();
      },
      "half_block_at_barrier_kernel.*divergence");
  EXPECT_DEATH(
      {
        two_different_barriers(nullptr);
        cudaDeviceSynchronize();
      },
      "two_different_barriers_kernel.*divergence.*sample_kernels.cu");
}

TEST(EmulatedKernelDeathTest, DivergenceInWarp) {
  EXPECT_DEATH(
      {
        shuffle_with_exited_lane(nullptr);
        cudaDeviceSynchronize();
      },
      "divergence");
  EXPECT_DEATH(
      {
        shuffle_with_lane_at_barrier(nullptr);
        cudaDeviceSynchronize();
      },
      "divergence");
}

TEST(EmulatedKernel, RefusesInvalidLaunches) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(0);
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](int) {}, 1),
            cudaErrorInvalidConfiguration);
  config.gridDim = dim3(1);
  config.blockDim = dim3(1025);
  EXPECT_EQ(cudaLaunchKernelEx(
                &config, +[](int) {}, 1),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace atl::samples
