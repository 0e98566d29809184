#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "engine/comm/watchdog.hpp"
#include "tests/engine/comm/transport_cases.hpp"

namespace atl {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr double kTimeout = 60;
constexpr OperationLabel kHalo{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};

class LocalTransportCases : public testing::TestWithParam<std::tuple<int, TransportCase>> {};

TEST_P(LocalTransportCases, Holds) {
  const int ranks = std::get<0>(GetParam());
  const TransportCase& transport_case = std::get<1>(GetParam());
  std::atomic<int> ran{0};
  run_local_ranks(ranks, kTimeout, [&](Transport& transport) {
    EXPECT_EQ(transport.name(), "local");
    EXPECT_EQ(transport.size(), ranks);
    transport_case.run(transport);
    ++ran;
  });
  EXPECT_EQ(ran, ranks);
}

INSTANTIATE_TEST_SUITE_P(Local, LocalTransportCases,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5),
                                          testing::ValuesIn(transport_cases())),
                         [](const auto& instance) {
                           return std::string(std::get<1>(instance.param).name) + "On" +
                                  std::to_string(std::get<0>(instance.param));
                         });

INSTANTIATE_TEST_SUITE_P(LocalGroups, LocalTransportCases,
                         testing::Combine(testing::Values(1, 3, 6),
                                          testing::ValuesIn(group_cases())),
                         [](const auto& instance) {
                           return std::string(std::get<1>(instance.param).name) + "On" +
                                  std::to_string(std::get<0>(instance.param));
                         });

// The error that run_local_ranks throws; fails the test if it throws none.
Error error_of(int ranks, double timeout_seconds, const std::function<void(Transport&)>& body) {
  try {
    run_local_ranks(ranks, timeout_seconds, body);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kInput, "no error");
}

// Sends one byte from every rank to every other.
std::unique_ptr<PendingTransfer> start_bytes(Transport& transport, std::vector<std::byte>& received,
                                             const OperationLabel& label = kHalo) {
  static constexpr std::byte kSent{7};
  received.resize(transport.size());
  std::vector<std::span<const std::byte>> sends(transport.size());
  std::vector<std::span<std::byte>> receives(transport.size());
  for (int r = 0; r < transport.size(); ++r) {
    if (r == transport.rank()) continue;
    sends[r] = std::span(&kSent, 1);
    receives[r] = std::span(&received[r], 1);
  }
  return transport.all_to_all_v(sends, receives, label);
}

TEST(LocalTransport, WaitAnyReportsInOrderOfArrival) {
  std::atomic<bool> second_has_arrived{false};
  run_local_ranks(3, kTimeout, [&](Transport& transport) {
    std::vector<std::byte> received;
    if (transport.rank() == 1) {
      while (!second_has_arrived) std::this_thread::yield();
    }
    const auto pending = start_bytes(transport, received);
    if (transport.rank() == 0) {
      EXPECT_EQ(pending->wait_any(), 2);
      second_has_arrived = true;
      EXPECT_EQ(pending->wait_any(), 1);
    }
    pending->wait_all();
  });
}

// A packet has arrived when it was delivered, not when somebody waited for it.
TEST(LocalTransport, PacketsArriveWhenTheyAreDelivered) {
  std::atomic<bool> delivered{false};
  run_local_ranks(2, kTimeout, [&](Transport& transport) {
    std::vector<std::byte> received;
    const auto pending = start_bytes(transport, received);
    if (transport.rank() == 1) delivered = true;
    if (transport.rank() == 0) {
      while (!delivered) std::this_thread::yield();
      const auto before_the_wait = std::chrono::steady_clock::now();
      pending->wait_all();
      const std::vector<PacketTimes> packets = pending->packet_times();
      ASSERT_EQ(packets.size(), 2U);
      for (const PacketTimes& packet : packets) {
        EXPECT_EQ(packet.peer, 1);
        EXPECT_EQ(packet.bytes, 1);
        EXPECT_LE(packet.done, before_the_wait);
      }
      EXPECT_NE(packets[0].received, packets[1].received);
    }
    pending->wait_all();
  });
}

TEST(LocalTransport, BarrierHoldsAllRanks) {
  std::atomic<int> entered{0};
  run_local_ranks(5, kTimeout, [&](Transport& transport) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      transport.barrier({.operation = "barrier"});
      EXPECT_GE(entered, 5 * round);
      transport.barrier({.operation = "barrier"});
    }
  });
}

TEST(LocalTransport, SilentRankIsNamed) {
  std::atomic<int> ended{0};
  const Error error = error_of(3, 1, [&](Transport& transport) {
    std::vector<std::byte> received;
    if (transport.rank() == 2) {
      while (ended < 2) std::this_thread::sleep_for(1ms);  // silent for as long as anyone waits
      return;
    }
    try {
      start_bytes(transport, received)->wait_all();
    } catch (...) {
      ++ended;
      throw;
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), testing::MatchesRegex(
                                "rank [01] heard nothing from rank 2 for 1 s while waiting for "
                                "layer 1 forward halo exchange of epoch 4; is that rank stopped "
                                "or its host unreachable\\?"));
}

TEST(LocalTransport, SeveralSilentRanksAreNamed) {
  std::atomic<bool> ended{false};
  const Error error = error_of(3, 0.05, [&](Transport& transport) {
    if (transport.rank() != 0) {
      while (!ended) std::this_thread::sleep_for(1ms);
      return;
    }
    std::vector<std::byte> received;
    try {
      start_bytes(transport, received)->wait_all();
    } catch (...) {
      ended = true;
      throw;
    }
  });
  EXPECT_STREQ(error.what(),
               "rank 0 heard nothing from ranks 1, 2 for 0.05 s while waiting for layer 1 forward "
               "halo exchange of epoch 4; are those ranks stopped or their hosts unreachable?");
}

TEST(LocalTransport, DroppedTransferThatTimesOutIsReported) {
  std::atomic<bool> ended{false};
  const Error error = error_of(2, 0.05, [&](Transport& transport) {
    if (transport.rank() == 1) {
      while (!ended) std::this_thread::sleep_for(1ms);
      return;
    }
    std::vector<std::byte> received;
    { const auto pending = start_bytes(transport, received); }
    ended = true;
    EXPECT_THROW(transport.barrier({.operation = "barrier"}), Error);
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 0 heard nothing from rank 1"));
}

// Ranks of one process are alive while they work.
TEST(LocalTransport, WorkingRankIsWaitedFor) {
  run_local_ranks(3, 0.1, [&](Transport& transport) {
    const HeartbeatScope scope(transport, {"the partition"});
    if (transport.rank() == 0) std::this_thread::sleep_for(500ms);
    transport.barrier({"the partition"});
    if (transport.rank() == 1) std::this_thread::sleep_for(500ms);
    transport.barrier({"the partition"});
  });
}

TEST(LocalTransport, SilentRankIsNamedBesideOneThatWorks) {
  std::atomic<int> ended{0};
  const Error error = error_of(3, 0.1, [&](Transport& transport) {
    std::vector<std::byte> received;
    if (transport.rank() == 2) {
      while (ended == 0) std::this_thread::sleep_for(1ms);
      return;
    }
    const HeartbeatScope scope(transport, {"the partition"});
    if (transport.rank() == 0) {
      while (ended == 0) std::this_thread::sleep_for(1ms);
      return;
    }
    try {
      start_bytes(transport, received)->wait_all();
    } catch (...) {
      ++ended;
      throw;
    }
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 1 heard nothing from rank 2 for 0.1 s"));
}

// Once its work is done a rank has to say something.
TEST(LocalTransport, RankThatWorkedIsSilentWithoutItsScope) {
  std::atomic<int> ended{0};
  const Error error = error_of(2, 0.1, [&](Transport& transport) {
    std::vector<std::byte> received;
    if (transport.rank() == 1) {
      { const HeartbeatScope scope(transport, {"the partition"}); }
      while (ended == 0) std::this_thread::sleep_for(1ms);
      return;
    }
    try {
      start_bytes(transport, received)->wait_all();
    } catch (...) {
      ++ended;
      throw;
    }
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 0 heard nothing from rank 1 for 0.1 s"));
}

// A process that was stopped has not seen yet what came meanwhile.
TEST(Watchdog, OwnSilenceDoesNotCount) {
  Watchdog watchdog(0.2);
  std::this_thread::sleep_for(300ms);  // nobody looks
  EXPECT_FALSE(watchdog.expired());
  const auto start = std::chrono::steady_clock::now();
  while (!watchdog.expired()) std::this_thread::sleep_for(5ms);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 150ms);
}

// The others wait without a deadline, so only the failing rank can wake them.
TEST(LocalTransport, FirstErrorWakesAllAndIsRethrown) {
  std::atomic<int> woken{0};
  const Error error = error_of(4, 0, [&](Transport& transport) {
    if (transport.rank() == 2) fail_input("part 2 is damaged");
    try {
      transport.barrier({.operation = "barrier"});
    } catch (const Error& stopped) {
      EXPECT_EQ(stopped.kind(), ErrorKind::kCommunication);
      EXPECT_THAT(stopped.what(), HasSubstr("because rank 2 failed"));
      ++woken;
      throw;
    }
  });
  EXPECT_STREQ(error.what(), "part 2 is damaged");
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(woken, 3);
}

TEST(LocalTransport, OtherExceptionsAreRethrownToo) {
  EXPECT_THROW(run_local_ranks(2, 0,
                               [](Transport& transport) {
                                 if (transport.rank() == 1) throw std::logic_error("bug");
                                 transport.barrier({.operation = "barrier"});
                               }),
               std::logic_error);
}

// Rank 0 unwinds over a transfer whose peer never answers; with an endless timeout it would hang.
TEST(LocalTransport, UnwindingWaitsForNothing) {
  const Error error = error_of(2, 0, [](Transport& transport) {
    std::vector<std::byte> received;
    if (transport.rank() == 1) {
      transport.broadcast({}, 0, {.operation = "nothing"});
      for (;;) transport.barrier({.operation = "barrier"});
    }
    transport.broadcast({}, 0, {.operation = "nothing"});
    const auto pending = start_bytes(transport, received);
    fail_input("stop");
  });
  EXPECT_STREQ(error.what(), "stop");
}

TEST(LocalTransport, AbortEndsAllRanks) {
  const Error error = error_of(3, 0, [](Transport& transport) {
    if (transport.rank() == 1) return transport.abort(2);
    transport.barrier({.operation = "barrier"});
  });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_STREQ(error.what(), "rank 1 ended the run with exit code 2");
}

TEST(LocalTransport, UnequalLengthsAreAnError) {
  const Error error = error_of(2, 0, [](Transport& transport) {
    std::vector<std::byte> bytes(transport.rank() == 0 ? 16 : 12);
    transport.broadcast(bytes, 1, {.operation = "weights"});
    transport.barrier({.operation = "barrier"});
  });
  EXPECT_STREQ(error.what(),
               "rank 0 expected 16 bytes from rank 1 in weights, but that rank sent 12 in weights");
}

TEST(LocalTransportDeath, SendingToOneselfIsABug) {
  EXPECT_DEATH(run_local_ranks(1, 0,
                               [](Transport& transport) {
                                 const std::byte byte{};
                                 transport.all_to_all_v({std::span(&byte, 1)}, {{}}, kHalo);
                               }),
               "rank 0 sends to itself");
}

}  // namespace
}  // namespace atl
