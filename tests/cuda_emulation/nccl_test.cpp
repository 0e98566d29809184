// Emulated NCCL between threads of this process, one emulated device each.
#include <cuda_emulation.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/fixtures.hpp"
#include "tests/cuda_emulation/sample_kernels.hpp"

namespace atl::samples {
namespace {

constexpr int kRanks = 3;
// Before the first CUDA call of the program, which makes the devices.
const int kDevicesSet = setenv("ATOLL_EMULATION_DEVICES", "3", 0);

// Runs body(rank) in a thread per rank, each with a device of its own.
void on_ranks(const std::function<void(int)>& body) {
  ASSERT_EQ(kDevicesSet, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&body, rank] {
      require(cudaSetDevice(rank));
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

ncclUniqueId unique_id() {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

ncclResult_t poll(ncclComm_t comm) {
  ncclResult_t result = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &result), ncclSuccess);
  return result;
}

void poll_until_ready(ncclComm_t comm) {
  while (poll(comm) == ncclInProgress) std::this_thread::yield();
}

ncclComm_t make_nonblocking(int rank, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, kRanks, id, rank, &config), ncclInProgress);
  poll_until_ready(comm);
  return comm;
}

// Sends `value` to every other rank and receives theirs.
ncclResult_t exchange(ncclComm_t comm, int rank, const int* value, int* received,
                      cudaStream_t stream) {
  ncclGroupStart();
  for (int peer = 0; peer < kRanks; ++peer) {
    if (peer == rank) continue;
    ncclSend(value, 1, ncclInt32, peer, comm, stream);
    ncclRecv(received + peer, 1, ncclInt32, peer, comm, stream);
  }
  return ncclGroupEnd();
}

TEST(EmulatedNccl, ExchangeInStreamOrder) {
  const ncclUniqueId id = unique_id();
  on_ranks([&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{10 * rank});
    const DeviceArray<int> received(std::vector<int>(kRanks, -5));
    require(add_one(stream, value.get(), value.get(), 1));
    ASSERT_EQ(exchange(comm, rank, value.get(), received.get(), stream), ncclSuccess);
    require(add_one(stream, received.get(), received.get(), kRanks));
    require(cudaStreamSynchronize(stream));
    std::vector<int> expected{2, 12, 22};
    expected[static_cast<std::size_t>(rank)] = -4;
    EXPECT_EQ(received.download(), expected);
    ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(EmulatedNccl, OneRankDrivesTheStreamsThatItNeeds) {
  // Rank 0 synchronizes; the others only queued their part and wait for rank 0 on the host.
  const ncclUniqueId id = unique_id();
  std::barrier queued(kRanks);
  std::barrier done(kRanks);
  on_ranks([&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{rank});
    const DeviceArray<int> received(kRanks);
    ASSERT_EQ(exchange(comm, rank, value.get(), received.get(), stream), ncclSuccess);
    queued.arrive_and_wait();
    if (rank == 0) require(cudaStreamSynchronize(stream));
    done.arrive_and_wait();
    ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(EmulatedNccl, NonBlockingWorkIsQueuedWhenItWasPolled) {
  const ncclUniqueId id = unique_id();
  on_ranks([&](int rank) {
    ncclComm_t comm = make_nonblocking(rank, id);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{rank});
    const DeviceArray<int> received(std::vector<int>(kRanks, 7));
    EXPECT_EQ(exchange(comm, rank, value.get(), received.get(), stream), ncclInProgress);
    require(cudaStreamSynchronize(stream));  // too early: the group is not in the stream yet
    EXPECT_THAT(received.download(), testing::Each(7));
    EXPECT_EQ(poll(comm), ncclInProgress);
    EXPECT_EQ(poll(comm), ncclSuccess);
    require(cudaStreamSynchronize(stream));
    std::vector<int> expected{0, 1, 2};
    expected[static_cast<std::size_t>(rank)] = 7;
    EXPECT_EQ(received.download(), expected);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    poll_until_ready(comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(EmulatedNccl, ReplayedFromAGraph) {
  const ncclUniqueId id = unique_id();
  on_ranks([&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{100 * rank});
    const DeviceArray<int> received(std::vector<int>(kRanks, 0));
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    require(add_one(stream, value.get(), value.get(), 1));
    ASSERT_EQ(exchange(comm, rank, value.get(), received.get(), stream), ncclSuccess);
    cudaGraph_t graph = nullptr;
    require(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t executable = nullptr;
    require(cudaGraphInstantiate(&executable, graph, 0));
    for (int epoch = 1; epoch <= 3; ++epoch) {
      require(cudaGraphLaunch(executable, stream));
      if (epoch == 2) continue;
      std::vector<int> expected{epoch, 100 + epoch, 200 + epoch};
      expected[static_cast<std::size_t>(rank)] = 0;
      EXPECT_EQ(received.download(), expected);
    }
    require(cudaGraphExecDestroy(executable));
    require(cudaGraphDestroy(graph));
    ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(EmulatedNccl, APeerThatNeverComesLeavesQueriesNotReady) {
  const ncclUniqueId id = unique_id();
  std::barrier done(kRanks);
  on_ranks([&](int rank) {
    ncclComm_t comm = make_nonblocking(rank, id);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{rank});
    const DeviceArray<int> received(std::vector<int>(kRanks, 7));
    if (rank != 2) {
      exchange(comm, rank, value.get(), received.get(), stream);
      poll_until_ready(comm);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
        EXPECT_EQ(poll(comm), ncclSuccess);
      }
    }
    done.arrive_and_wait();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_EQ(poll(comm), ncclInternalError);
    require(cudaStreamSynchronize(stream));  // the abort ended the transfers
    cudaGetLastError();
  });
}

TEST(EmulatedNccl, AnAbortEndsAWaitOfAnotherThread) {
  const ncclUniqueId id = unique_id();
  std::barrier done(kRanks);
  on_ranks([&](int rank) {
    ncclComm_t comm = make_nonblocking(rank, id);
    const TestStream stream;
    const DeviceArray<int> value(std::vector<int>{rank});
    if (rank == 0) {
      ncclSend(value.get(), 1, ncclInt32, 1, comm, stream);
      poll_until_ready(comm);
      std::thread aborting([comm] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ncclCommAbort(comm);
      });
      require(cudaStreamSynchronize(stream));
      aborting.join();
    }
    done.arrive_and_wait();
    if (rank != 0) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    }
  });
}

TEST(EmulatedNccl, RefusesTwoRanksOnOneDevice) {
  const ncclUniqueId id = unique_id();
  on_ranks([&](int rank) {
    require(cudaSetDevice(rank / 2));
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), testing::HasSubstr("Duplicate GPU"));
  });
}

TEST(EmulatedNccl, RefusesHostMemoryAndWrongPeers) {
  const ncclUniqueId id = unique_id();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  int host = 0;
  EXPECT_EQ(ncclSend(&host, 1, ncclInt32, 0, comm, nullptr), ncclInvalidArgument);
  const DeviceArray<int> value(1);
  EXPECT_EQ(ncclSend(value.get(), 1, ncclInt32, 1, comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclSend(value.get(), 1, ncclInt32, 0, comm, nullptr), ncclInvalidArgument);
}

}  // namespace
}  // namespace atl::samples
