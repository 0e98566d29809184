#include "engine/placement/sum_cost.hpp"

#include <gtest/gtest.h>

#include "engine/placement/cost_model.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

const SumRoute kPairs{{{0, 1}, {2, 3}}, -1};

// 4,000 bytes on two hosts of two ranks; cards of 1e6 bytes/s, 1e9 inside.
TEST(SumCost, CountsStepsByHand) {
  const Topology topology = small_topology(2, 2, 1e6);
  // A host sends 4 blocks of 1,000 bytes, twice.
  EXPECT_NEAR(sum_seconds(topology, 4000, {}), 2 * 4e-3, 1e-12);
  // Inside 2,000 bytes per pair, twice; across, a host sends 2 halves of 2,000, twice.
  EXPECT_NEAR(sum_seconds(topology, 4000, kPairs), 2 * 2e-6 + 2 * 2e-3, 1e-12);
  // The server's host receives the values of two ranks, and sends them to two.
  EXPECT_NEAR(sum_seconds(topology, 4000, {{}, 1}), 2 * 8e-3, 1e-12);
}

TEST(SumCost, OffersWhatThePlacesAllow) {
  const auto names = [](const Topology& topology) {
    std::vector<std::string> result;
    for (const SumRoute& route : other_sum_routes(topology, 4000)) result.push_back(name_of(route));
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(small_topology(1, 1, 1e6)), Names{});
  EXPECT_EQ(names(small_topology(2, 2, 1e6)), (Names{"hierarchical", "parameter-server"}));
  EXPECT_EQ(names(small_topology(4, 1, 1e6)), Names{"parameter-server"});
  EXPECT_EQ(names(small_topology(1, 4, 1e6)), Names{"parameter-server"});
  Topology uneven = small_topology(2, 2, 1e6);
  uneven.devices[3].host = uneven.devices[3].island = 0;
  EXPECT_EQ(names(uneven), Names{"parameter-server"});
  Topology split = small_topology(2, 4, 1e6);  // islands of two ranks inside the hosts
  for (int r = 0; r < 8; ++r) split.devices[static_cast<std::size_t>(r)].island = r / 2;
  EXPECT_EQ(names(split), (Names{"hierarchical", "hierarchical", "parameter-server"}));
  EXPECT_EQ(other_sum_routes(small_topology(2, 2, 1e6), 4000).front(), kPairs);
  // The server is where the card is fast.
  Topology fast = small_topology(3, 1, 1e6);
  fast.hosts[1].send_bytes_per_s = fast.hosts[1].receive_bytes_per_s = 1e8;
  for (int from = 0; from < 3; ++from)
    fast.links[static_cast<std::size_t>(3 * from + 1)] = {0, 1e8};
  EXPECT_EQ(other_sum_routes(fast, 4000).back().server, 1);
}

}  // namespace
}  // namespace atl
