// Device memory that host code can't touch, guards around allocations, pinned memory.
#include <cuda_emulation.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"
#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

constexpr std::size_t kHuge = std::size_t{64} << 30;

TEST(EmulatedMemory, IsAlignedAndPoisoned) {
  const DeviceArray<float> one(3);
  const DeviceArray<float> other(100000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.get()) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.get()) % 256, 0u);
  for (const float value : one.download()) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(other.download()[99999]));
}

TEST(EmulatedMemory, KeepsItsContentsWhileClosed) {
  std::vector<int> values(300000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const DeviceArray<int> array(values);
  EXPECT_EQ(array.download(), values);
  EXPECT_EQ(array.download(), values);
}

TEST(EmulatedMemory, AccountsForWhatIsAllocated) {
  std::size_t free_before = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free_before, &total));
  EXPECT_EQ(free_before, total - cuda_emulation::allocated_bytes());
  {
    const DeviceArray<char> array(5000);
    std::size_t free = 0;
    require(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, free_before - 5000);
  }
  std::size_t free = 0;
  require(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, free_before);
}

TEST(EmulatedMemory, RefusesMoreThanTheDeviceHas) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, kHuge), cudaErrorMemoryAllocation);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(EmulatedMemory, FreeingInAStreamCountsWhenItIsExecuted) {
  const TestStream stream;
  const std::size_t before = cuda_emulation::allocated_bytes();
  void* pointer = nullptr;
  require(cudaMallocAsync(&pointer, 1000, stream));
  require(cudaFreeAsync(pointer, stream));
  EXPECT_EQ(cuda_emulation::allocated_bytes(), before + 1000);
  EXPECT_EQ(cudaFreeAsync(pointer, stream), cudaErrorInvalidValue);
  require(cudaStreamSynchronize(stream));
  EXPECT_EQ(cuda_emulation::allocated_bytes(), before);
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedMemory, PoolsCountTheirOwnAllocations) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  require(cudaMemPoolCreate(&pool, &properties));
  const TestStream stream;
  void* pointer = nullptr;
  require(cudaMallocFromPoolAsync(&pointer, 700, pool, stream));
  const DeviceArray<char> elsewhere(50);
  std::uint64_t used = 0;
  require(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 700u);
  require(cudaFreeAsync(pointer, stream));
  require(cudaStreamSynchronize(stream));
  require(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  require(cudaMemPoolDestroy(pool));
}

TEST(EmulatedMemory, TellsWhatAPointerIs) {
  const DeviceArray<int> device(4);
  const PinnedArray<int> pinned(4);
  int pageable = 0;
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, device.get() + 3));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  require(cudaPointerGetAttributes(&attributes, pinned.get()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  require(cudaPointerGetAttributes(&attributes, &pageable));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST(EmulatedMemory, CopiesRows) {
  const DeviceArray<char> device(std::vector<char>(12, '.'));
  require(cudaMemcpy2DAsync(device.get(), 4, "ab---cd---ef---", 5, 2, 3, cudaMemcpyHostToDevice,
                            nullptr));
  require(cudaMemset2DAsync(device.get() + 3, 4, '!', 1, 2, nullptr));
  const std::vector<char> rows = device.download();
  EXPECT_EQ(std::string(rows.begin(), rows.end()), "ab.!cd.!ef..");
}

TEST(EmulatedMemory, RefusesCopiesThatDoNotFit) {
  const DeviceArray<char> device(8);
  char host[16] = {};
  EXPECT_EQ(cudaMemcpy(device.get(), host, 9, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.get() + 4, host, 5, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.get(), host, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device.get(), 0, 9), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(EmulatedMemoryDeathTest, HostCodeCantTouchIt) {
  const DeviceArray<int> array(std::vector<int>{1, 2});
  array.download();
  EXPECT_DEATH({ *static_cast<volatile int*>(array.get()) = 3; }, "host code touched");
  EXPECT_DEATH(
      {
        const int read = *static_cast<volatile int*>(array.get());
        static_cast<void>(read);
      },
      "host code touched device address .* byte 0 of an allocation of 8 bytes");
}

TEST(EmulatedMemoryDeathTest, KernelsCantLeaveAnAllocation) {
  const DeviceArray<float> array(64);
  EXPECT_DEATH(
      {
        write_past_end(nullptr, array.get(), 64);
        cudaDeviceSynchronize();
      },
      "out of bounds: kernel .*write_past_end.*byte 256 of an allocation of 256 bytes");
}

TEST(EmulatedMemoryDeathTest, WritesIntoTheAlignmentAreFoundAtTheEnd) {
  EXPECT_DEATH(
      {
        const DeviceArray<float> array(60);
        write_past_end(nullptr, array.get(), 60);
        cudaDeviceSynchronize();
      },
      "out of bounds: byte 240 of an allocation of 240 bytes was overwritten");
  EXPECT_DEATH(
      {
        const DeviceArray<float> array(60);
        write_past_end(nullptr, array.get(), -1);
        cudaDeviceSynchronize();
      },
      "out of bounds: byte -4 of an allocation of 240 bytes was overwritten");
}

TEST(EmulatedMemoryDeathTest, FreedMemoryIsGone) {
  const TestStream stream;
  float* pointer = nullptr;
  require(cudaMallocAsync(&pointer, 256, stream));
  require(cudaFreeAsync(pointer, stream));
  EXPECT_DEATH(
      {
        write_past_end(stream, pointer, 0);
        cudaDeviceSynchronize();
      },
      "kernel .*write_past_end.*touched device address");
  require(cudaStreamSynchronize(stream));
}

TEST(EmulatedMemoryDeathTest, FreedPinnedMemoryIsGone) {
  int* pointer = nullptr;
  require(cudaMallocHost(&pointer, 4));
  EXPECT_EQ(*pointer, -1);
  require(cudaFreeHost(pointer));
  EXPECT_DEATH({ *static_cast<volatile int*>(pointer) = 1; }, "");
}

}  // namespace
}  // namespace atl::samples
