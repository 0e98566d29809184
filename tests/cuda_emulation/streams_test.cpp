// Streams that execute nothing before something needs it; events, queries, errors.
#include <cuda_emulation.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"
#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) {
    require(cudaEventCreateWithFlags(&event_, flags));
  }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

constexpr cudaMemcpyKind kUp = cudaMemcpyHostToDevice;
constexpr cudaMemcpyKind kDown = cudaMemcpyDeviceToHost;

TEST(EmulatedStream, ExecutesNothingBeforeItIsNeeded) {
  const TestStream stream;
  const DeviceArray<int> device(std::vector<int>{1});
  PinnedArray<int> host(1);
  const std::size_t kernels = cuda_emulation::executed_kernels();
  require(add_one(stream, device.get(), device.get(), 1));
  require(cudaMemcpyAsync(host.get(), device.get(), 4, kDown, stream));
  EXPECT_EQ(host[0], -1) << "a read without synchronizing must see poison";
  EXPECT_EQ(cuda_emulation::executed_kernels(), kernels);
  require(cudaStreamSynchronize(stream));
  EXPECT_EQ(cuda_emulation::executed_kernels(), kernels + 1);
  EXPECT_EQ(host[0], 2);
}

TEST(EmulatedStream, CountsWhatTheHostWaitsFor) {
  const TestStream stream;
  const TestEvent event;
  const DeviceArray<int> device(std::vector<int>{1});
  PinnedArray<int> pinned(1);
  int pageable = 0;
  std::size_t waits = cuda_emulation::host_waits();
  const auto waited = [&] {
    const std::size_t before = std::exchange(waits, cuda_emulation::host_waits());
    return waits - before;
  };
  require(add_one(stream, device.get(), device.get(), 1));
  require(cudaMemcpyAsync(pinned.get(), device.get(), 4, kDown, stream));
  require(cudaEventRecord(event, stream));
  cudaStreamQuery(stream);
  EXPECT_EQ(waited(), 0U);
  require(cudaMemcpyAsync(&pageable, device.get(), 4, kDown, stream));
  EXPECT_EQ(waited(), 1U);
  require(cudaStreamSynchronize(stream));
  require(cudaEventSynchronize(event));
  require(cudaDeviceSynchronize());
  EXPECT_EQ(waited(), 3U);
}

TEST(EmulatedStream, ExecutesOnlyTheStreamThatIsNeeded) {
  const TestStream one;
  const TestStream other;
  const DeviceArray<int> device(std::vector<int>{1, 1});
  require(add_one(one, device.get(), device.get(), 1));
  require(add_one(other, device.get() + 1, device.get() + 1, 1));
  const std::size_t pending = cuda_emulation::pending_items();
  require(cudaStreamSynchronize(one));
  EXPECT_EQ(cuda_emulation::pending_items(), pending - 1);
  require(cudaDeviceSynchronize());
  EXPECT_EQ(cuda_emulation::pending_items(), 0u);
  EXPECT_THAT(device.download(), testing::ElementsAre(2, 2));
}

TEST(EmulatedStream, AMissingWaitBetweenStreamsGivesAWrongResult) {
  const TestStream producer;
  const TestStream consumer;
  const DeviceArray<int> values(1);
  PinnedArray<int> host(1);
  require(cudaMemsetAsync(values.get(), 0, 4, producer));
  require(cudaMemcpyAsync(host.get(), values.get(), 4, kDown, consumer));
  require(cudaStreamSynchronize(consumer));
  EXPECT_EQ(host[0], -1);
  require(cudaStreamSynchronize(producer));
}

TEST(EmulatedStream, AnEventOrdersStreams) {
  const TestStream producer;
  const TestStream consumer;
  const TestEvent ready;
  const DeviceArray<int> values(1);
  PinnedArray<int> host(1);
  require(cudaMemsetAsync(values.get(), 0, 4, producer));
  require(cudaEventRecord(ready, producer));
  require(add_one(producer, values.get(), values.get(), 1));  // after the event: not needed
  require(cudaStreamWaitEvent(consumer, ready));
  require(cudaMemcpyAsync(host.get(), values.get(), 4, kDown, consumer));
  require(cudaStreamSynchronize(consumer));
  EXPECT_EQ(host[0], 0);
  EXPECT_THAT(values.download(), testing::ElementsAre(1));
}

TEST(EmulatedStream, AWaitHoldsForTheRecordThatWasThere) {
  const TestStream one;
  const TestStream other;
  const TestEvent event;
  const DeviceArray<int> values(std::vector<int>{5});
  require(cudaStreamWaitEvent(other, event));  // never recorded: nothing to wait for
  require(add_one(one, values.get(), values.get(), 1));
  require(cudaEventRecord(event, one));
  require(cudaStreamSynchronize(other));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  require(cudaEventSynchronize(event));
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaGetLastError();
}

TEST(EmulatedStream, PageableMemoryIsReadAtTheCallAndPinnedWhenExecuted) {
  const TestStream stream;
  const DeviceArray<int> device(2);
  std::vector<int> pageable{10};
  PinnedArray<int> pinned(1);
  pinned[0] = 20;
  require(cudaMemcpyAsync(device.get(), pageable.data(), 4, kUp, stream));
  require(cudaMemcpyAsync(device.get() + 1, pinned.get(), 4, kUp, stream));
  pageable[0] = 11;
  pinned[0] = 21;  // wrong in a real program: too early
  EXPECT_THAT(device.download(), testing::ElementsAre(10, 21));
}

TEST(EmulatedStream, ACopyToPageableMemoryIsCompleteAtReturn) {
  const TestStream stream;
  const DeviceArray<int> device(std::vector<int>{7});
  int host = 0;
  require(add_one(stream, device.get(), device.get(), 1));
  require(cudaMemcpyAsync(&host, device.get(), 4, kDown, stream));
  EXPECT_EQ(host, 8);
}

TEST(EmulatedStream, QueriesMakeProgress) {
  const TestStream stream;
  const TestEvent event;
  const DeviceArray<int> device(std::vector<int>{7});
  require(add_one(stream, device.get(), device.get(), 1));
  require(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
}

TEST(EmulatedStream, TheNullStreamSynchronizesWithBlockingStreamsOnly) {
  cudaStream_t blocking = nullptr;
  require(cudaStreamCreate(&blocking));
  const TestStream apart;
  const DeviceArray<int> device(std::vector<int>{0, 0});
  require(add_one(blocking, device.get(), device.get(), 1));
  require(add_one(apart, device.get() + 1, device.get() + 1, 1));
  std::vector<int> host(2);
  require(cudaMemcpy(host.data(), device.get(), 8, kDown));
  EXPECT_THAT(host, testing::ElementsAre(1, 0));
  require(cudaDeviceSynchronize());
  require(cudaStreamDestroy(blocking));
}

TEST(EmulatedStream, ADestroyedStreamStillDoesItsWork) {
  const DeviceArray<int> device(std::vector<int>{3});
  {
    const TestStream stream;
    require(add_one(stream, device.get(), device.get(), 1));
  }
  EXPECT_THAT(device.download(), testing::ElementsAre(4));
  EXPECT_EQ(cuda_emulation::pending_items(), 0u);
}

TEST(EmulatedStream, HostFunctionsRunInOrderAndWithoutBeingAskedFor) {
  const TestStream stream;
  std::atomic<int> calls{0};
  const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  require(cudaLaunchHostFunc(stream, count, &calls));
  require(cudaStreamSynchronize(stream));
  EXPECT_EQ(calls, 1);
  require(cudaLaunchHostFunc(stream, count, &calls));
  while (calls != 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(EmulatedStream, HostFunctionsMayNotCallCuda) {
  const TestStream stream;
  cudaError_t error = cudaSuccess;
  const auto call = [](void* result) {
    *static_cast<cudaError_t*>(result) = cudaDeviceSynchronize();
  };
  require(cudaLaunchHostFunc(stream, call, &error));
  require(cudaStreamSynchronize(stream));
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST(EmulatedStream, EventsMeasureTime) {
  const TestStream stream;
  const TestEvent start(cudaEventDefault);
  const TestEvent end(cudaEventDefault);
  const TestEvent without_timing;
  require(cudaEventRecord(start, stream));
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  require(cudaLaunchHostFunc(stream, sleep, nullptr));
  require(cudaEventRecord(end, stream));
  require(cudaEventRecord(without_timing, stream));
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  require(cudaEventSynchronize(without_timing));
  require(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 20.0f);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, without_timing),
            cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(EmulatedStream, AFailedKernelIsAStickyError) {
  const TestStream stream;
  const DeviceArray<int> device(std::vector<int>{1});
  cuda_emulation::fail_next_kernel(cudaErrorLaunchFailure);
  EXPECT_EQ(add_one(stream, device.get(), device.get(), 1), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_EQ(add_one(stream, device.get(), device.get(), 1), cudaErrorLaunchFailure);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 1), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  cuda_emulation::clear_errors();
  EXPECT_THAT(device.download(), testing::ElementsAre(1));
}

TEST(EmulatedStream, UnknownHandlesAreRefused) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  require(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  cudaEvent_t event = nullptr;
  require(cudaEventCreate(&event));
  require(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventRecord(event), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(EmulatedStream, SeveralThreadsDriveTheirOwnStreams) {
  const DeviceArray<int> device(std::vector<int>(4, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&device, t] {
      const TestStream stream;
      for (int i = 0; i < 50; ++i) {
        require(add_one(stream, device.get() + t, device.get() + t, 1));
        if (i % 7 == 0) require(cudaStreamSynchronize(stream));
      }
      require(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(device.download(), testing::ElementsAre(50, 50, 50, 50));
}

}  // namespace
}  // namespace atl::samples
