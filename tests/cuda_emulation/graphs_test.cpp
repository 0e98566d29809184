// Capture of streams and replay of graphs.
#include <cuda_emulation.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"
#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

constexpr cudaStreamCaptureMode kMode = cudaStreamCaptureModeThreadLocal;

class EmulatedGraph : public testing::Test {
 protected:
  void SetUp() override {
    require(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    require(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
  }
  void TearDown() override {
    cudaGetLastError();
    if (graph_ != nullptr) require(cudaGraphDestroy(graph_));
    require(cudaEventDestroy(fork_));
    require(cudaEventDestroy(join_));
  }
  void add(cudaStream_t stream) { require(add_one(stream, values_.get(), values_.get(), 1)); }
  cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    require(cudaStreamIsCapturing(stream, &status));
    return status;
  }

  TestStream stream_;
  TestStream other_;
  DeviceArray<int> values_{std::vector<int>{0}};
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  cudaGraph_t graph_ = nullptr;
};

TEST_F(EmulatedGraph, ReplaysWhatWasCaptured) {
  require(cudaStreamBeginCapture(stream_, kMode));
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusActive);
  add(stream_);
  require(cudaEventRecord(fork_, stream_));
  require(cudaStreamWaitEvent(other_, fork_));
  EXPECT_EQ(status(other_), cudaStreamCaptureStatusActive);
  add(other_);
  require(cudaEventRecord(join_, other_));
  require(cudaStreamWaitEvent(stream_, join_));
  add(stream_);
  require(cudaStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(status(other_), cudaStreamCaptureStatusNone);
  std::size_t nodes = 0;
  require(cudaGraphGetNodes(graph_, nullptr, &nodes));
  EXPECT_EQ(nodes, 3u);
  EXPECT_THAT(values_.download(), testing::ElementsAre(0)) << "capturing executes nothing";

  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph_, 0));
  require(cudaGraphLaunch(executable, stream_));
  require(cudaGraphLaunch(executable, stream_));
  require(cudaGraphExecDestroy(executable));
  EXPECT_THAT(values_.download(), testing::ElementsAre(6));
}

TEST_F(EmulatedGraph, AMissingDependencyBetweenBranchesShows) {
  // Both branches are joined at the end, but the copy doesn't wait for what it copies.
  const DeviceArray<int> copy(1);
  require(cudaStreamBeginCapture(stream_, kMode));
  require(cudaEventRecord(fork_, stream_));
  require(cudaStreamWaitEvent(other_, fork_));
  for (int i = 0; i < 50; ++i) add(stream_);
  require(cudaMemcpyAsync(copy.get(), values_.get(), 4, cudaMemcpyDeviceToDevice, other_));
  require(cudaEventRecord(join_, other_));
  require(cudaStreamWaitEvent(stream_, join_));
  require(cudaStreamEndCapture(stream_, &graph_));
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph_, 0));
  require(cudaGraphLaunch(executable, stream_));
  EXPECT_NE(copy.download()[0], 50);
  EXPECT_THAT(values_.download(), testing::ElementsAre(50));
  require(cudaGraphExecDestroy(executable));
}

TEST_F(EmulatedGraph, AnUnjoinedStreamIsAnError) {
  require(cudaStreamBeginCapture(stream_, kMode));
  require(cudaEventRecord(fork_, stream_));
  require(cudaStreamWaitEvent(other_, fork_));
  add(other_);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusNone);
  EXPECT_EQ(status(other_), cudaStreamCaptureStatusNone);
}

TEST_F(EmulatedGraph, SynchronizingInvalidates) {
  require(cudaStreamBeginCapture(stream_, kMode));
  add(stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(add_one(stream_, values_.get(), values_.get(), 1), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusNone);
}

TEST_F(EmulatedGraph, AllocatingInvalidates) {
  require(cudaStreamBeginCapture(stream_, kMode));
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraph, CopyingPageableMemoryInvalidates) {
  require(cudaStreamBeginCapture(stream_, kMode));
  int host = 0;
  EXPECT_EQ(cudaMemcpyAsync(values_.get(), &host, 4, cudaMemcpyHostToDevice, stream_),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraph, AnEventFromOutsideInvalidates) {
  require(cudaEventRecord(fork_, other_));
  require(cudaStreamBeginCapture(stream_, kMode));
  EXPECT_EQ(cudaStreamWaitEvent(stream_, fork_), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraph, ACapturedEventCantBeWaitedForByTheHost) {
  require(cudaStreamBeginCapture(stream_, kMode));
  require(cudaEventRecord(fork_, stream_));
  EXPECT_EQ(cudaEventSynchronize(fork_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraph, OnlyTheStreamThatBeganMayEnd) {
  require(cudaStreamBeginCapture(stream_, kMode));
  require(cudaEventRecord(fork_, stream_));
  require(cudaStreamWaitEvent(other_, fork_));
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(EmulatedGraph, PinnedMemoryIsReadAtEachReplay) {
  PinnedArray<int> host(1);
  require(cudaStreamBeginCapture(stream_, kMode));
  require(cudaMemcpyAsync(values_.get(), host.get(), 4, cudaMemcpyHostToDevice, stream_));
  require(cudaStreamEndCapture(stream_, &graph_));
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph_, 0));
  for (const int value : {5, 9}) {
    host[0] = value;
    require(cudaGraphLaunch(executable, stream_));
    EXPECT_THAT(values_.download(), testing::ElementsAre(value));
  }
  require(cudaGraphExecDestroy(executable));
}

}  // namespace
}  // namespace atl::samples
