// NCCL between devices: on emulated ones in every build, on real ones where there are enough.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/engine/comm/nccl_fixtures.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

using Length = std::size_t (*)(int source, int destination);

// One all-to-all-v of patterns; checks what arrives and what is counted.
void exchange_patterns(DeviceRank& rank, Length length) {
  std::vector<std::unique_ptr<DeviceBytes>> sent;
  std::vector<std::unique_ptr<DeviceBytes>> received;
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  std::int64_t bytes = 0;
  const auto length_of = [&](int from, int to) { return from == to ? 0 : length(from, to); };
  for (int r = 0; r < rank.size; ++r) {
    sent.push_back(rank.bytes(pattern(length_of(rank.rank, r), 10 * rank.rank + r)));
    received.push_back(rank.bytes(length_of(r, rank.rank), 0));
    sends.emplace_back(sent.back()->span());
    receives.push_back(received.back()->span());
    bytes += std::ssize(sends.back());
  }
  const std::int64_t before = rank.device->bytes_sent();
  rank.device->all_to_all_v(sends, receives, kNcclHalo);
  rank.device->wait(rank.device->queue());
  EXPECT_EQ(rank.device->bytes_sent() - before, bytes);
  for (int r = 0; r < rank.size; ++r) {
    EXPECT_TRUE(received[static_cast<std::size_t>(r)]->download(*rank.compute) ==
                pattern(length_of(r, rank.rank), 10 * r + rank.rank))
        << "rank " << rank.rank << " from " << r;
  }
}

TEST_F(NcclOnThreeDevices, ExchangesMessagesOfAllLengths) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    EXPECT_EQ(rank.device->name(), "nccl");
    EXPECT_EQ(rank.device->bytes_sent(), 0);  // the start is no payload
    EXPECT_THAT(rank.choice.reason, HasSubstr("between 3 devices of 1 host"));
    exchange_patterns(rank, [](int, int) { return std::size_t{0}; });
    exchange_patterns(rank, [](int from, int to) {
      return static_cast<std::size_t>(from * 7 + to * 3) % 5 * 101;
    });
    exchange_patterns(rank, [](int from, int to) { return std::size_t{from < to ? 1U : 0U}; });
    exchange_patterns(rank, [](int from, int to) {
      const std::size_t mebibyte = std::size_t{1} << 20;
      return from == 2 && to == 0 ? 5 * mebibyte + 3 : mebibyte / 2 + static_cast<std::size_t>(to);
    });
  });
}

// Each transfer sends what the one before received: any other order shows.
TEST_F(NcclOnThreeDevices, TransfersRunInTheOrderOfTheCalls) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    const auto first = rank.bytes(pattern(1001, rank.rank));
    const auto second = rank.bytes(1001, 0);
    const auto third = rank.bytes(1001, 0);
    rank.shift(rank.next(), *first, rank.previous(), *second, kNcclHalo);
    rank.shift(rank.next(), *second, rank.previous(), *third, kNcclHalo);
    rank.shift(rank.next(), *third, rank.previous(), *first, kGradients);
    rank.shift(rank.next(), *first, rank.previous(), *second, kGradients);
    rank.device->wait(rank.device->queue());
    EXPECT_EQ(second->download(*rank.compute), pattern(1001, rank.previous()));
    EXPECT_EQ(first->download(*rank.compute), pattern(1001, rank.rank));
  });
}

TEST_F(NcclOnThreeDevices, OrdersWithOtherQueues) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    const auto sent = rank.bytes(4096, 0);
    const auto received = rank.bytes(4096, 0);
    const auto kept = rank.bytes(4096, 0);
    const auto source = rank.bytes(pattern(4096, rank.rank));
    Backend& backend = *rank.backend;
    Queue& transfers = rank.device->queue();
    backend.copy(*rank.compute, sent->span().data(), source->span().data(), 4096,
                 CopyKind::kDeviceToDevice);
    backend.wait_for(transfers, *rank.compute);
    rank.shift(rank.next(), *sent, rank.previous(), *received, kNcclHalo);
    backend.wait_for(*rank.compute, transfers);
    backend.copy(*rank.compute, kept->span().data(), received->span().data(), 4096,
                 CopyKind::kDeviceToDevice);
    rank.device->wait(*rank.compute);
    EXPECT_EQ(kept->download(*rank.compute), pattern(4096, rank.previous()));
  });
}

// Like an epoch: the compute queue's recording takes the queue of transfers along.
TEST_F(NcclOnThreeDevices, RecordedTransfersAreReplayed) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    Backend& backend = *rank.backend;
    const auto sent = rank.bytes(513, 0);
    const auto received = rank.bytes(513, 0);
    const auto returned = rank.bytes(513, 0);
    Queue& transfers = rank.device->queue();
    const auto recording = backend.record(*rank.compute, [&] {
      backend.wait_for(transfers, *rank.compute);
      rank.shift(rank.next(), *sent, rank.previous(), *received, kNcclHalo);
      rank.shift(rank.previous(), *received, rank.next(), *returned, kGradients);
      backend.wait_for(*rank.compute, transfers);
    });
    ASSERT_NE(recording, nullptr);
    for (int round = 1; round <= 3; ++round) {
      sent->upload(*rank.compute, pattern(513, 10 * round + rank.rank));
      backend.replay(*rank.compute, *recording);
      rank.device->wait(*rank.compute);
      EXPECT_EQ(received->download(*rank.compute), pattern(513, 10 * round + rank.previous()));
      EXPECT_EQ(returned->download(*rank.compute), pattern(513, 10 * round + rank.rank));
    }
    EXPECT_EQ(rank.device->bytes_sent(), 2 * 513);
  });
}

// Runs body on every rank but `silent`, which waits until the others have failed, and returns the
// errors of the others.
std::vector<Error> errors_without(int silent, int ranks, double timeout_seconds,
                                  const std::function<void(DeviceRank&)>& body) {
  std::atomic<int> ended{0};
  std::vector<Error> errors(static_cast<std::size_t>(ranks), Error(ErrorKind::kInput, ""));
  run_devices(ranks, timeout_seconds, [&](DeviceRank& rank) {
    if (rank.rank != silent) {
      errors[static_cast<std::size_t>(rank.rank)] = thrown_error([&] { body(rank); });
      ++ended;
    }
    while (ended < ranks - 1) std::this_thread::sleep_for(1ms);
  });
  errors.erase(errors.begin() + silent);
  return errors;
}

TEST_F(NcclOnThreeDevices, ASilentPeerEndsTheWaitWithTheNameOfTheTransfer) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = errors_without(2, 3, 0.5, [](DeviceRank& rank) {
    const auto sent = rank.bytes(64, 1);
    const auto received = rank.bytes(64, 0);
    // Between ranks 0 and 1 all is well.
    const int peer = 1 - rank.rank;
    rank.shift(peer, *sent, peer, *received, kGradients);
    rank.shift(2, *sent, 2, *received, kNcclHalo);
    rank.device->wait(rank.device->queue());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
  for (int r = 0; r < 2; ++r) {
    const Error& error = errors[static_cast<std::size_t>(r)];
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_EQ(error.what(),
              fmt::format("rank {} saw no transfer end for 0.5 s while waiting for layer 1 "
                          "forward halo exchange of epoch 4 with rank 2; is a rank stopped or its "
                          "host unreachable?",
                          r));
  }
}

TEST_F(NcclOnTwoDevices, ASilentPeerOfAReplayIsNoticed) {
  const auto errors = errors_without(1, 2, 0.5, [](DeviceRank& rank) {
    Backend& backend = *rank.backend;
    const auto sent = rank.bytes(64, 1);
    const auto received = rank.bytes(64, 0);
    Queue& transfers = rank.device->queue();
    const auto recording = backend.record(*rank.compute, [&] {
      backend.wait_for(transfers, *rank.compute);
      rank.shift(1, *sent, 1, *received, kNcclHalo);
      backend.wait_for(*rank.compute, transfers);
    });
    backend.replay(*rank.compute, *recording);
    rank.device->wait(*rank.compute);
  });
  EXPECT_EQ(errors[0].kind(), ErrorKind::kTimeout);
  EXPECT_THAT(errors[0].what(),
              HasSubstr("while waiting for what follows the start of NCCL with rank 1"));
}

// Rank 1 answers the first of the two recorded transfers only.
TEST_F(NcclOnTwoDevices, ATransferWithinAReplayIsNamed) {
  std::atomic<bool> ended{false};
  run_devices(2, 0.5, [&](DeviceRank& rank) {
    Backend& backend = *rank.backend;
    const auto sent = rank.bytes(64, 1);
    const auto received = rank.bytes(64, 0);
    const int peer = rank.next();
    if (rank.rank == 1) {
      rank.shift(peer, *sent, peer, *received, kNcclHalo);
      rank.device->wait(rank.device->queue());
      while (!ended) std::this_thread::sleep_for(1ms);
      return;
    }
    const auto recording = backend.record(rank.device->queue(), [&] {
      rank.shift(peer, *sent, peer, *received, kNcclHalo);
      rank.shift(peer, *sent, peer, *received, kGradients);
    });
    backend.replay(*rank.compute, *recording);
    const Error error = thrown_error([&] { rank.device->wait(*rank.compute); });
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(),
                HasSubstr("while waiting for gradient all-reduce of epoch 4 with rank 1;"));
    ended = true;
  });
}

TEST_F(NcclOnTwoDevices, NothingWorksAfterAnError) {
  const auto errors = errors_without(1, 2, 0.2, [](DeviceRank& rank) {
    const auto sent = rank.bytes(64, 1);
    const auto received = rank.bytes(64, 0);
    rank.shift(1, *sent, 1, *received, kNcclHalo);
    EXPECT_EQ(thrown_error([&] { rank.device->wait(rank.device->queue()); }).kind(),
              ErrorKind::kTimeout);
    EXPECT_TRUE(rank.backend->is_idle(rank.device->queue()));  // the abort has emptied it
    EXPECT_THAT(thrown_error([&] { rank.device->wait(*rank.compute); }).what(),
                HasSubstr("NCCL was aborted after an error"));
    rank.shift(1, *sent, 1, *received, kNcclHalo);
  });
  EXPECT_EQ(errors[0].kind(), ErrorKind::kCommunication);
  EXPECT_STREQ(errors[0].what(), "NCCL was aborted after an error and carries no messages");
}

// The start is a wait too.
TEST_F(NcclOnTwoDevices, APeerThatNeverStartsIsNamed) {
  std::atomic<bool> ended{false};
  run_local_ranks(2, 0.5, [&](Transport& transport) {
    const auto backend = make_backend("cuda", {.threads = 1, .device = transport.rank()});
    if (transport.rank() == 0) {
      const Error error =
          thrown_error([&] { make_nccl_transport(transport, *backend, nccl_unique_id()); });
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.what(), HasSubstr("waiting for the start of NCCL with rank 1;"));
      ended = true;
    }
    while (!ended) std::this_thread::sleep_for(1ms);
  });
}

// Three transfers that take longer together than the timeout, but none alone.
TEST_F(NcclOnTwoDevices, TheTimeoutRunsFromTheLastTransferThatEnded) {
  run_devices(2, 2.0, [](DeviceRank& rank) {
    const auto sent = rank.bytes(64, rank.rank);
    const auto received = rank.bytes(64, 9);
    for (int i = 0; i < 3; ++i) {
      if (rank.rank == 1) std::this_thread::sleep_for(1s);
      rank.shift(rank.next(), *sent, rank.previous(), *received, kNcclHalo);
      if (rank.rank == 1) rank.device->wait(rank.device->queue());
    }
    rank.device->wait(rank.device->queue());
    EXPECT_EQ(received->download(*rank.compute),
              std::vector<std::byte>(64, static_cast<std::byte>(rank.previous())));
  });
}

TEST_F(NcclOnTwoDevices, AFailedRankEndsTheOthersWaitAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<bool> waits{false};
  std::atomic<bool> seen{false};
  const Error error = thrown_error([&] {
    run_devices(2, kNcclTimeout, [&](DeviceRank& rank) {
      if (rank.rank == 1) {
        while (!waits) std::this_thread::sleep_for(1ms);
        fail_input("part 1 is damaged");
      }
      const auto sent = rank.bytes(64, 1);
      const auto received = rank.bytes(64, 0);
      rank.shift(1, *sent, 1, *received, kNcclHalo);
      waits = true;
      const Error found = thrown_error([&] { rank.device->wait(rank.device->queue()); });
      EXPECT_EQ(found.kind(), ErrorKind::kCommunication);
      seen = true;
    });
  });
  EXPECT_TRUE(seen);
  EXPECT_STREQ(error.what(), "part 1 is damaged");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

// A group of this rank's, or null in both planes.
struct DeviceGroup {
  DeviceGroup(DeviceRank& rank, int number)
      : control(rank.transport.split(number, "stage " + std::to_string(number))),
        device(rank.device->split(control.get())) {}
  // Sends to one member and receives from another.
  void shift(int to, const DeviceBytes& sent, int from, DeviceBytes& received,
             const OperationLabel& label) {
    std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(control->size()));
    std::vector<std::span<std::byte>> receives(sends.size());
    sends[static_cast<std::size_t>(to)] = sent.span();
    receives[static_cast<std::size_t>(from)] = received.span();
    device->all_to_all_v(sends, receives, label);
  }
  std::unique_ptr<Transport> control;
  std::unique_ptr<DeviceTransport> device;
};

// Each transfer sends what the one before received, so any other order shows. Rank 1 is in no
// group.
TEST_F(NcclOnThreeDevices, TransfersOfAGroupAndOfTheJobTakeTurns) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    DeviceGroup group(rank, rank.rank == 1 ? Transport::kNoGroup : 4);
    EXPECT_EQ(group.device == nullptr, rank.rank == 1);
    if (group.device) {
      EXPECT_EQ(&group.device->queue(), &rank.device->queue());
    }
    const auto first = rank.bytes(pattern(1001, rank.rank));
    const auto second = rank.bytes(1001, 0);
    const auto third = rank.bytes(1001, 0);
    std::int64_t bytes = 3 * 1001;
    rank.shift(rank.next(), *first, rank.previous(), *second, kNcclHalo);
    if (group.device) {
      const int other = 1 - group.control->rank();
      EXPECT_EQ(group.device->bytes_sent(), 0);  // the start is no payload
      group.shift(other, *second, other, *third, kNcclHalo);
      EXPECT_EQ(group.device->bytes_sent(), 1001);
      bytes += 1001;
    } else {
      rank.backend->copy(rank.device->queue(), third->span().data(), second->span().data(), 1001,
                         CopyKind::kDeviceToDevice);
    }
    rank.shift(rank.next(), *third, rank.previous(), *first, kGradients);
    rank.shift(rank.next(), *first, rank.previous(), *second, kGradients);
    rank.device->wait(rank.device->queue());
    // After the first transfer ranks 0, 1, 2 have what was of 2, 0, 1; 0 and 2 change places.
    constexpr int kThird[] = {1, 0, 2};
    EXPECT_EQ(third->download(*rank.compute), pattern(1001, kThird[rank.rank]));
    EXPECT_EQ(first->download(*rank.compute), pattern(1001, kThird[rank.previous()]));
    EXPECT_EQ(second->download(*rank.compute), pattern(1001, kThird[(rank.rank + 1) % 3]));
    EXPECT_EQ(rank.device->bytes_sent(), bytes);
  });
}

TEST_F(NcclOnThreeDevices, GroupsAreSplitAgainAndRecorded) {
  run_devices(3, kNcclTimeout, [](DeviceRank& rank) {
    DeviceGroup all(rank, 0);
    const auto control = all.control->split(rank.rank / 2, "pair");
    const auto device = all.device->split(control.get());
    Backend& backend = *rank.backend;
    const auto sent = rank.bytes(513, 0);
    const auto received = rank.bytes(513, 0);
    const auto returned = rank.bytes(513, 0);
    const int size = control->size();
    const auto peer = static_cast<std::size_t>(size - 1 - control->rank());
    const auto recording = backend.record(*rank.compute, [&] {
      backend.wait_for(device->queue(), *rank.compute);
      std::vector<std::span<const std::byte>> sends(static_cast<std::size_t>(size));
      std::vector<std::span<std::byte>> receives(sends.size());
      sends[peer] = sent->span();
      receives[peer] = received->span();
      device->all_to_all_v(sends, receives, kNcclHalo);
      all.shift(rank.next(), *received, rank.previous(), *returned, kGradients);
      backend.wait_for(*rank.compute, device->queue());
    });
    ASSERT_NE(recording, nullptr);
    constexpr int kPeers[] = {1, 0, 2};
    for (int round = 1; round <= 3; ++round) {
      sent->upload(*rank.compute, pattern(513, 10 * round + rank.rank));
      backend.replay(*rank.compute, *recording);
      device->wait(*rank.compute);
      EXPECT_EQ(received->download(*rank.compute), pattern(513, 10 * round + kPeers[rank.rank]));
      EXPECT_EQ(returned->download(*rank.compute),
                pattern(513, 10 * round + kPeers[rank.previous()]));
    }
    EXPECT_EQ(rank.device->bytes_sent(), 2 * 513);
  });
}

// Rank 2 falls silent in its group; rank 1, in another, is told by the control plane.
TEST_F(NcclOnThreeDevices, ASilentMemberOfAGroupIsNamedWithIt) {
  std::atomic<bool> ended{false};
  const Error error = thrown_error([&] {
    run_devices(3, 0.5, [&](DeviceRank& rank) {
      DeviceGroup group(rank, rank.rank % 2);
      const auto sent = rank.bytes(64, 1);
      const auto received = rank.bytes(64, 0);
      if (rank.rank == 0) {
        group.shift(1, *sent, 1, *received, kNcclHalo);
        const Error silent = thrown_error([&] { group.device->wait(rank.device->queue()); });
        EXPECT_THAT(thrown_error([&] { rank.device->wait(*rank.compute); }).what(),
                    HasSubstr("NCCL was aborted after an error"));
        ended = true;
        throw Error(silent);
      }
      while (!ended) std::this_thread::sleep_for(1ms);
      for (;;) rank.transport.check_peers();
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_STREQ(error.what(),
               "rank 0 saw no transfer end for 0.5 s while waiting for layer 1 forward halo "
               "exchange of epoch 4 in stage 0 (ranks 0 and 2) with rank 2; is a rank stopped or "
               "its host unreachable?");
}

TEST_F(NcclOnTwoDevices, ARankThatIsMissingInASplitIsNamed) {
  std::atomic<bool> ended{false};
  run_devices(2, 0.5, [&](DeviceRank& rank) {
    const auto control = rank.transport.split(0, "stage 0");
    if (rank.rank == 0) {
      const Error error = thrown_error([&] { rank.device->split(control.get()); });
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.what(), HasSubstr("waiting for NCCL's split into groups with rank 1;"));
      ended = true;
    }
    while (!ended) std::this_thread::sleep_for(1ms);
  });
}

// An exception that passes by leaves nobody waiting.
TEST_F(NcclOnTwoDevices, UnwindingDoesNotWaitForTransfers) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(run_devices(2, kNcclTimeout,
                           [](DeviceRank& rank) {
                             const auto sent = rank.bytes(64, 1);
                             const auto received = rank.bytes(64, 0);
                             if (rank.rank == 0) {
                               rank.shift(1, *sent, 1, *received, kNcclHalo);
                               throw std::runtime_error("enough");
                             }
                             while (true) {
                               rank.transport.check_peers();
                               std::this_thread::sleep_for(1ms);
                             }
                           }),
               std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);  // less than any limit of the transport
}

}  // namespace
}  // namespace atl
