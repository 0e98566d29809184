#include "engine/comm/device_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "kernels/registry.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr OperationLabel kDeviceExchange{.operation = "test exchange"};

// Counts what reaches the library.
class CountingTransport final : public DeviceTransport {
 public:
  CountingTransport() : DeviceTransport(1, 3) {}
  std::string name() const override { return "counting"; }
  Queue& queue() override { return *queue_; }
  void wait(Queue&) override {}
  int calls = 0;

 private:
  std::unique_ptr<DeviceTransport> do_split(Transport* group) override {
    return group == nullptr ? nullptr : std::make_unique<CountingTransport>();
  }
  void do_all_to_all_v(const std::vector<std::span<const std::byte>>&,
                       const std::vector<std::span<std::byte>>&, const OperationLabel&) override {
    ++calls;
  }
  std::unique_ptr<Backend> backend_ = make_backend("cpu", {.threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->make_queue();
};

TEST(DeviceTransport, CountsPayload) {
  CountingTransport transport;
  std::array<std::byte, 100> memory{};
  const std::span<const std::byte> all(memory);
  transport.all_to_all_v({all.first(7), {}, all}, {{}, {}, std::span(memory)}, kDeviceExchange);
  EXPECT_EQ(transport.bytes_sent(), 107);
  transport.all_to_all_v({{}, {}, {}}, {{}, {}, {}}, kDeviceExchange);
  EXPECT_EQ(transport.bytes_sent(), 107);
  transport.add_bytes_sent(107);
  EXPECT_EQ(transport.bytes_sent(), 214);
  EXPECT_EQ(transport.calls, 2);
}

TEST(DeviceTransport, GroupsCountInWhatTheyWereSplitFrom) {
  run_local_ranks(1, 60, [](Transport& control) {
    CountingTransport transport;
    const auto group = transport.split(&control);
    const auto inner = group->split(&control);
    EXPECT_EQ(transport.split(nullptr), nullptr);
    std::array<std::byte, 100> memory{};
    inner->all_to_all_v({std::span<const std::byte>(memory), {}, {}}, {{}, {}, {}},
                        kDeviceExchange);
    group->add_bytes_sent(7);
    EXPECT_EQ(inner->bytes_sent(), 100);
    EXPECT_EQ(group->bytes_sent(), 107);
    EXPECT_EQ(transport.bytes_sent(), 107);
  });
}

TEST(DeviceTransportDeathTest, RefusesHalfAMessageToItselfAndMissingEntries) {
  CountingTransport transport;
  std::array<std::byte, 4> memory{};
  const std::span<const std::byte> one(memory);
  EXPECT_DEATH(transport.all_to_all_v({{}, one, {}}, {{}, {}, {}}, kDeviceExchange),
               "rank 1 sends 4 bytes to itself and receives 0");
  EXPECT_DEATH(transport.all_to_all_v({{}, {}, {}}, {{}, std::span(memory), {}}, kDeviceExchange),
               "rank 1 sends 0 bytes to itself and receives 4");
  EXPECT_DEATH(transport.all_to_all_v({{}, {}}, {{}, {}, {}}, kDeviceExchange),
               "2 sends and 3 receives for 3 ranks");
}

// The reasons that make_device_transport gives on every rank of a world of CPUs.
std::vector<std::string> reasons_on_cpus(int ranks, const std::string& choice) {
  std::vector<std::string> reasons(static_cast<std::size_t>(ranks));
  run_local_ranks(ranks, 60, [&](Transport& transport) {
    const auto backend =
        make_backend(transport.rank() % 2 == 0 ? "cpu" : "reference", {.threads = 1});
    const auto made = make_device_transport(choice, transport, *backend);
    EXPECT_EQ(made.transport, nullptr);
    reasons[static_cast<std::size_t>(transport.rank())] = made.reason;
  });
  return reasons;
}

TEST(MakeDeviceTransport, HostsTalkThroughTheirTransport) {
  EXPECT_THAT(reasons_on_cpus(3, "auto"),
              testing::Each("no rank computes on a CUDA device: messages travel through host "
                            "memory and local"));
  EXPECT_THAT(reasons_on_cpus(2, "staging"),
              testing::Each("--transport local was given: messages travel through host memory "
                            "and local"));
}

TEST(MakeDeviceTransport, OneRankHasNothingToSend) {
  for (const std::string choice : {"auto", "staging"}) {
    EXPECT_THAT(reasons_on_cpus(1, choice), testing::Each("there is one rank and so no message"));
  }
}

TEST(MakeDeviceTransport, NcclIsRefusedOnEveryRank) {
  for (const int ranks : {1, 3}) {
    std::atomic<int> refused{0};
    run_local_ranks(ranks, 60, [&](Transport& transport) {
      const auto backend = make_backend("cpu", {.threads = 1});
      const Error error = thrown_error([&] { make_device_transport("nccl", transport, *backend); });
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      EXPECT_STREQ(error.what(),
                   "--transport nccl: no rank computes on a CUDA device; use auto or local");
      ++refused;
    });
    EXPECT_EQ(refused, ranks);
  }
}

TEST(LocalTransport, CheckPeersSeesAFailedRank) {
  std::atomic<bool> failed{false};
  std::atomic<bool> seen{false};
  const Error error = thrown_error([&] {
    run_local_ranks(2, 60, [&](Transport& transport) {
      if (transport.rank() == 1) {
        failed = true;
        fail_input("rank 1 has no file");
      }
      while (!failed) std::this_thread::yield();
      try {
        for (;;) transport.check_peers();
      } catch (const Error& found) {
        EXPECT_EQ(found.kind(), ErrorKind::kCommunication);
        EXPECT_STREQ(found.what(), "rank 0 stops because rank 1 failed");
        seen = true;
      }
    });
  });
  EXPECT_TRUE(seen);
  EXPECT_STREQ(error.what(), "rank 1 has no file");
}

}  // namespace
}  // namespace atl
