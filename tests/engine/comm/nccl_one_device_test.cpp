// NCCL on one device: what can be tried on a host with a single one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "tests/engine/comm/nccl_fixtures.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(NcclOnOneDevice, AWorldOfOneStarts) {
  run_devices(1, kNcclTimeout, [](DeviceRank& rank) {
    EXPECT_THAT(rank.choice.reason, HasSubstr("between 1 device of 1 host"));
    rank.device->all_to_all_v({{}}, {{}}, kNcclHalo);
    rank.device->wait(rank.device->queue());
    rank.device->wait(*rank.compute);
    EXPECT_EQ(rank.device->bytes_sent(), 0);
  });
}

TEST_F(NcclOnOneDevice, AWorldOfOneIsSplit) {
  run_devices(1, kNcclTimeout, [](DeviceRank& rank) {
    const auto control = rank.transport.split(3, "alone");
    const auto device = rank.device->split(control.get());
    const auto sent = rank.bytes(pattern(513, 5));
    const auto received = rank.bytes(513, 0);
    device->all_to_all_v({sent->span()}, {received->span()}, kNcclHalo);
    device->wait(*rank.compute);
    device->wait(device->queue());
    EXPECT_EQ(received->download(*rank.compute), pattern(513, 5));
    EXPECT_EQ(rank.device->bytes_sent(), 513);
    EXPECT_EQ(rank.device->split(nullptr), nullptr);
  });
}

// One device can show NCCL's kernels, groups that are polled, and their order with other queues.
TEST_F(NcclOnOneDevice, ARankSendsToItself) {
  run_devices(1, kNcclTimeout, [](DeviceRank& rank) {
    Backend& backend = *rank.backend;
    Queue& transfers = rank.device->queue();
    for (const std::size_t length : {1, 513, 1 << 20}) {
      const auto source = rank.bytes(pattern(length, 3));
      const auto sent = rank.bytes(length, 0);
      const auto received = rank.bytes(length, 0);
      const auto kept = rank.bytes(length, 0);
      const auto bytes = static_cast<std::int64_t>(length);
      backend.copy(*rank.compute, sent->span().data(), source->span().data(), bytes,
                   CopyKind::kDeviceToDevice);
      backend.wait_for(transfers, *rank.compute);
      rank.shift(0, *sent, 0, *received, kNcclHalo);
      backend.wait_for(*rank.compute, transfers);
      backend.copy(*rank.compute, kept->span().data(), received->span().data(), bytes,
                   CopyKind::kDeviceToDevice);
      rank.device->wait(*rank.compute);
      EXPECT_EQ(kept->download(*rank.compute), pattern(length, 3)) << length;
    }
    EXPECT_EQ(rank.device->bytes_sent(), 1 + 513 + (1 << 20));
  });
}

TEST_F(NcclOnOneDevice, AMessageToItselfIsRecordedAndReplayed) {
  run_devices(1, kNcclTimeout, [](DeviceRank& rank) {
    Backend& backend = *rank.backend;
    const auto sent = rank.bytes(513, 0);
    const auto received = rank.bytes(513, 0);
    Queue& transfers = rank.device->queue();
    // Memory that NCCL allocates for its first message can't be recorded.
    rank.shift(0, *sent, 0, *received, kNcclHalo);
    rank.device->wait(transfers);
    const auto recording = backend.record(*rank.compute, [&] {
      backend.wait_for(transfers, *rank.compute);
      rank.shift(0, *sent, 0, *received, kNcclHalo);
      backend.wait_for(*rank.compute, transfers);
    });
    ASSERT_NE(recording, nullptr);
    for (int round = 1; round <= 3; ++round) {
      sent->upload(*rank.compute, pattern(513, round));
      backend.replay(*rank.compute, *recording);
      rank.device->wait(*rank.compute);
      EXPECT_EQ(received->download(*rank.compute), pattern(513, round));
    }
  });
}

// An exception ends the communicator with messages under way; the next one in the process works.
TEST_F(NcclOnOneDevice, AnAbortLeavesNothingBehind) {
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 2; ++round) {
    EXPECT_THROW(run_devices(1, kNcclTimeout,
                             [](DeviceRank& rank) {
                               const auto sent = rank.bytes(1 << 20, 1);
                               const auto received = rank.bytes(1 << 20, 0);
                               rank.shift(0, *sent, 0, *received, kNcclHalo);
                               throw std::runtime_error("enough");
                             }),
                 std::runtime_error);
  }
  run_devices(1, kNcclTimeout, [](DeviceRank& rank) {
    const auto sent = rank.bytes(64, 7);
    const auto received = rank.bytes(64, 0);
    rank.shift(0, *sent, 0, *received, kNcclHalo);
    rank.device->wait(rank.device->queue());
    EXPECT_EQ(received->download(*rank.compute), std::vector<std::byte>(64, std::byte{7}));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST_F(NcclOnOneDevice, TwoRanksOnOneDeviceGoThroughTheHost) {
  run_local_ranks(2, kNcclTimeout, [](Transport& transport) {
    const auto backend = make_backend("cuda", {.threads = 1, .device = 0});
    const auto made = make_device_transport("auto", transport, *backend);
    EXPECT_EQ(made.transport, nullptr);
    EXPECT_THAT(made.reason, testing::MatchesRegex(
                                 "ranks 0 and 1 share device .+ of host .+, which NCCL refuses: "
                                 "messages travel through pinned memory and local"));
    const Error error = thrown_error([&] { make_device_transport("nccl", transport, *backend); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), HasSubstr("ranks 0 and 1 share device "));
  });
}

TEST_F(NcclOnOneDevice, ARankOnTheCpuMakesAllGoThroughTheHost) {
  run_local_ranks(2, kNcclTimeout, [](Transport& transport) {
    const auto backend =
        make_backend(transport.rank() == 0 ? "cuda" : "cpu", {.threads = 1, .device = 0});
    const auto made = make_device_transport("auto", transport, *backend);
    EXPECT_EQ(made.transport, nullptr);
    EXPECT_EQ(made.reason,
              "rank 1 computes on no CUDA device (backend cpu): messages travel through pinned "
              "memory and local");
  });
}

}  // namespace
}  // namespace atl
