#include "engine/placement/sub_topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;

std::vector<int> kinds_of(const Topology& topology) {
  std::vector<int> kinds;
  for (const ScheduledHost& host : scheduled_hosts(topology)) kinds.push_back(host.kind);
  return kinds;
}

TEST(ScheduledHosts, HaveASlotForEachRank) {
  Topology topology = small_topology(3, 2, 1e6);
  topology.devices.pop_back();
  topology.links.clear();
  topology.links.resize(25, {0, 1e6});
  const std::vector<ScheduledHost> hosts = scheduled_hosts(topology);
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].name, "h0");
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[2].slots, 1);
  EXPECT_THAT(kinds_of(topology), ElementsAre(0, 0, 1));
}

TEST(ScheduledHosts, AreOfOneKindAsExactlyAsRatesAreKnown) {
  EXPECT_THAT(kinds_of(small_topology(3, 2, 1e6)), ElementsAre(0, 0, 0));
  Topology slower = small_topology(3, 2, 1e6);
  slower.devices[2].gemm_flop_per_s[0].per_s *= 0.97;
  EXPECT_THAT(kinds_of(slower), ElementsAre(0, 0, 0));
  slower.devices[2].gemm_flop_per_s[0].per_s *= 0.9;
  EXPECT_THAT(kinds_of(slower), ElementsAre(0, 1, 0));
  Topology cards = small_topology(4, 1, 1e6);
  cards.hosts[3].send_bytes_per_s /= 2;
  EXPECT_THAT(kinds_of(cards), ElementsAre(0, 0, 0, 1));
  Topology memory = small_topology(2, 1, 1e6);
  memory.devices[1].memory_bytes *= 2;
  EXPECT_THAT(kinds_of(memory), ElementsAre(0, 1));
}

TEST(ScheduledHosts, WithOtherNeighboursAreOfOtherKinds) {
  // Two racks of two hosts: links inside of one are ten times as fast.
  Topology racks = small_topology(4, 1, 1e6);
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(2, 3)}) {
    racks.link(a, b).bytes_per_s = racks.link(b, a).bytes_per_s = 1e7;
  }
  EXPECT_THAT(kinds_of(racks), ElementsAre(0, 0, 1, 1));
}

TEST(SubTopology, HasTheFirstRanksOfItsHosts) {
  Topology topology = small_topology(4, 3, 1e6);
  topology.hosts[3].receive_bytes_per_s = 5e5;
  // Every link and every rank can be told from all others.
  topology.for_each_pair(
      [&](int from, int to) { topology.link(from, to).latency_s = 100 * from + to; });
  for (std::size_t r = 0; r < topology.devices.size(); ++r) {
    topology.devices[r].elementwise_bytes_per_s = static_cast<double>(r + 1);
  }
  const Topology part = sub_topology(topology, {.hosts = {1, 3}, .ranks_per_host = 2});
  ASSERT_EQ(part.ranks(), 4);
  ASSERT_EQ(part.hosts.size(), 2U);
  EXPECT_EQ(part.hosts[0].name, "h1");
  EXPECT_EQ(part.hosts[1].receive_bytes_per_s, 5e5);
  const std::vector<int> ranks = {3, 4, 9, 10};
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(part.device(r).host, r / 2);
    EXPECT_EQ(part.device(r).island, r / 2);
    EXPECT_EQ(part.device(r).elementwise_bytes_per_s, ranks[static_cast<std::size_t>(r)] + 1);
    for (int to = 0; to < 4; ++to) {
      if (to == r) continue;
      EXPECT_EQ(part.link(r, to).latency_s,
                100 * ranks[static_cast<std::size_t>(r)] + ranks[static_cast<std::size_t>(to)]);
    }
  }
}

TEST(SubTopology, KeepsIslandsThatSpanHosts) {
  Topology topology = small_topology(3, 2, 1e6);
  for (Device& device : topology.devices) device.island = device.host == 1 ? 0 : 1;
  const Topology part = sub_topology(topology, {.hosts = {0, 2}, .ranks_per_host = 2});
  for (const Device& device : part.devices) EXPECT_EQ(device.island, 0);
  const Topology all = sub_topology(topology, {.hosts = {0, 1, 2}, .ranks_per_host = 1});
  EXPECT_EQ(all.device(0).island, 0);
  EXPECT_EQ(all.device(1).island, 1);
  EXPECT_EQ(all.device(2).island, 0);
}

}  // namespace
}  // namespace atl
