#include "engine/placement/topology_probe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "kernels/registry.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

// Sizes at which figures mean nothing, but everything is done.
TopologyProbeOptions tiny() {
  TopologyProbeOptions options;
  options.kernels = {.columns = {4, 16}, .rows = 300, .degree = 5, .seconds = 1e-3};
  options.network = {.pairs_seconds = 60,
                     .message_seconds = 1e-5,
                     .largest_message = 64 << 10,
                     .progress_seconds = 4e-3};
  return options;
}

// The topology that every rank gets.
std::vector<Topology> probe(const std::string& backend_name, int ranks,
                            const TopologyProbeOptions& options) {
  std::vector<Topology> results(static_cast<std::size_t>(ranks));
  run_local_ranks(ranks, 60, [&](Transport& transport) {
    const auto backend = make_backend(backend_name, {.threads = 1, .local_rank = transport.rank()});
    const auto queue = backend->make_queue();
    const DeviceTransportChoice messages = make_device_transport("auto", transport, *backend);
    results[static_cast<std::size_t>(transport.rank())] =
        probe_topology(*backend, *queue, transport, messages.transport.get(), options);
  });
  return results;
}

void expect_rates(const std::vector<RateAtColumns>& rates) {
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_EQ(rates[0].columns, 4);
  EXPECT_EQ(rates[1].columns, 16);
  for (const RateAtColumns& rate : rates) {
    EXPECT_GT(rate.per_s, 0);
    EXPECT_TRUE(std::isfinite(rate.per_s));
  }
}

class TopologyProbe : public ::testing::TestWithParam<const char*> {};

TEST_P(TopologyProbe, EveryRankGetsTheSameUsableTopology) {
  require_backend(GetParam());
  if (IsSkipped() || HasFailure()) return;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    SCOPED_TRACE(ranks);
    const std::vector<Topology> results = probe(GetParam(), ranks, tiny());
    const Topology& topology = results[0];
    ASSERT_EQ(topology.ranks(), ranks);
    ASSERT_EQ(topology.hosts.size(), 1U);
    EXPECT_FALSE(topology.hosts[0].name.empty());
    EXPECT_TRUE(std::isinf(topology.hosts[0].send_bytes_per_s));
    EXPECT_TRUE(std::isinf(topology.hosts[0].receive_bytes_per_s));
    for (const Device& device : topology.devices) {
      EXPECT_EQ(device.host, 0);
      EXPECT_EQ(device.kind, std::string(GetParam()) == "cuda" ? "cuda" : "cpu");
      expect_rates(device.spmm_bytes_per_s);
      expect_rates(device.gemm_flop_per_s);
      EXPECT_GT(device.elementwise_bytes_per_s, 0);
      EXPECT_GT(device.quantize_bytes_per_s, 0);
      EXPECT_GE(device.progress_s_per_byte, 0);
      EXPECT_GE(device.polling_share, 0);
      EXPECT_LE(device.polling_share, 1);
      EXPECT_TRUE(std::isfinite(device.progress_s_per_byte));
      EXPECT_GT(device.memory_bytes, 1e6);
    }
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        EXPECT_GT(topology.link(from, to).latency_s, 0);
        EXPECT_GT(topology.link(from, to).bytes_per_s, 0);
        EXPECT_TRUE(std::isfinite(topology.link(from, to).bytes_per_s));
      }
    }
    const std::string text = to_json(topology).dump();
    for (const Topology& other : results) EXPECT_EQ(to_json(other).dump(), text);
    // The file is the topology, and it is a valid one.
    EXPECT_EQ(to_json(parse_topology(Json::parse(text), "probe")).dump(), text);
    const Topology read = parse_topology(Json::parse(text), "probe");
    for (std::size_t i = 0; i < read.links.size(); ++i) {
      EXPECT_EQ(read.links[i].bytes_per_s, topology.links[i].bytes_per_s);
      EXPECT_EQ(read.links[i].latency_s, topology.links[i].latency_s);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Backends, TopologyProbe, ::testing::Values("reference", "cpu", "cuda"),
                         [](const auto& test) { return std::string(test.param); });

// The network part with hosts given: two of two ranks.
void probe_network(const NetworkProbeOptions& options,
                   const std::function<void(Topology&, NetworkProbe&, KernelProbe&)>& body) {
  run_local_ranks(4, 60, [&](Transport& transport) {
    Topology topology{
        .devices = std::vector<Device>(4), .hosts = std::vector<Host>(2), .links = {}};
    for (std::size_t r = 2; r < 4; ++r) topology.devices[r].host = 1;
    const auto backend = make_backend("cpu", {.threads = 1});
    const auto queue = backend->make_queue();
    TraceRecorder trace(transport.rank());
    Reducer reducer(*backend, *queue, transport, nullptr, trace);
    const Rank rank{*backend, *queue, transport, nullptr, trace, reducer};
    NetworkProbe network(rank, topology, options);
    KernelProbe kernels(*backend, *queue, tiny().kernels, 1e9);
    body(topology, network, kernels);
  });
}

TEST(NetworkProbe, HostsThatTalkHaveLimits) {
  std::mutex mutex;
  std::vector<std::vector<double>> limits;
  probe_network(tiny().network, [&](Topology& found, NetworkProbe& network, KernelProbe& kernels) {
    network.measure_pairs();
    EXPECT_EQ(network.skipped_pairs(), 0);
    network.measure_hosts();
    EXPECT_GE(network.measure_progress(kernels, 16).s_per_byte, 0);
    const std::vector<Host>& hosts = found.hosts;
    // Not clearly less than one pair alone.
    EXPECT_GE(1.1 * hosts[0].send_bytes_per_s, found.link(0, 2).bytes_per_s);
    EXPECT_GE(1.1 * hosts[1].send_bytes_per_s, found.link(3, 0).bytes_per_s);
    EXPECT_GE(1.1 * hosts[1].receive_bytes_per_s, found.link(0, 3).bytes_per_s);
    for (const Host& host : hosts) {
      EXPECT_TRUE(std::isfinite(host.send_bytes_per_s));
      EXPECT_TRUE(std::isfinite(host.receive_bytes_per_s));
    }
    const std::lock_guard lock(mutex);
    limits.push_back({hosts[0].send_bytes_per_s, hosts[0].receive_bytes_per_s,
                      hosts[1].send_bytes_per_s, hosts[1].receive_bytes_per_s});
  });
  for (const auto& of_rank : limits) EXPECT_EQ(of_rank, limits[0]);
}

TEST(NetworkProbe, PairsWithoutTimeCountAsTheirLikes) {
  NetworkProbeOptions options = tiny().network;
  options.pairs_seconds = 1e-9;  // over after the first pair, which is measured in any case
  probe_network(options, [&](Topology& found, NetworkProbe& network, KernelProbe&) {
    network.measure_pairs();
    EXPECT_EQ(network.skipped_pairs(), 11);
    found.for_each_pair([&](int from, int to) {
      EXPECT_EQ(found.link(from, to).bytes_per_s, found.link(0, 1).bytes_per_s);
      EXPECT_EQ(found.link(from, to).latency_s, found.link(0, 1).latency_s);
    });
  });
}

// Work is counted by hand: every row of the graph once around.
TEST(KernelProbe, CountsWhatStepsDo) {
  const auto backend = make_backend("reference", {});
  const auto queue = backend->make_queue();
  const KernelProbeOptions options{.columns = {4, 16}, .rows = 20000, .degree = 5, .seconds = 1};
  KernelProbe probe(*backend, *queue, options, 1e12);
  // 20,000 rows are three steps on a host: 8192, 8192 and 3616.
  double bytes = 0;
  for (int step = 0; step < 3; ++step) bytes += probe.spmm_step(4);
  EXPECT_EQ(bytes, (20000.0 * 5 + 20000) * 4 * 4);
  EXPECT_EQ(probe.gemm_step(16), 2.0 * 8192 * 16 * 16);
  EXPECT_EQ(probe.gemm_step(16), 2.0 * 8192 * 16 * 16);
  EXPECT_EQ(probe.gemm_step(4), 2.0 * 3616 * 4 * 4);
  EXPECT_EQ(probe.elementwise_step(4), 2.0 * 8192 * 4 * 4);
  EXPECT_EQ(probe.quantize_step(4), 5000.0 * 4 * 4);
  EXPECT_EQ(probe.quantize_step(16), 5000.0 * 16 * 4);
}

TEST(KernelProbe, TakesFewerRowsWhereMemoryIsShort) {
  const auto backend = make_backend("reference", {});
  const auto queue = backend->make_queue();
  const KernelProbeOptions options{.columns = {16}, .rows = 20000, .degree = 4, .seconds = 1};
  // Per row 2 * 16 * 4 bytes of matrices, 4 * 4 of edges and 64 of the rest: 208.
  KernelProbe probe(*backend, *queue, options, 208.0 * 1000 * 8);
  EXPECT_EQ(probe.gemm_step(16), 2.0 * 1000 * 16 * 16);
}

// Links of 5 GB/s between the pairs, and of `slow` else.
std::vector<Link> links_of(std::size_t ranks, double slow,
                           const std::vector<std::pair<int, int>>& fast) {
  std::vector<Link> links(ranks * ranks, Link{1e-6, slow});
  for (const auto& [a, b] : fast) {
    links[static_cast<std::size_t>(a) * ranks + static_cast<std::size_t>(b)].bytes_per_s = 5e9;
    links[static_cast<std::size_t>(b) * ranks + static_cast<std::size_t>(a)].bytes_per_s = 5e9;
  }
  return links;
}

using Islands = std::vector<int>;

Islands islands_of(const std::vector<int>& host_of, const std::vector<Link>& links) {
  Topology topology{.devices = {}, .hosts = {}, .links = links};
  for (const int host : host_of) topology.devices.emplace_back().host = host;
  find_islands(topology);
  Islands islands;
  for (const Device& device : topology.devices) islands.push_back(device.island);
  return islands;
}

TEST(Islands, RanksOfOneHostAreOne) {
  EXPECT_EQ(islands_of({0}, links_of(1, 5e9, {})), Islands({0}));
  EXPECT_EQ(islands_of({0, 0, 0}, links_of(3, 5e9, {})), Islands({0, 0, 0}));
  EXPECT_EQ(islands_of({0, 1, 0, 1}, links_of(4, 1e9, {{0, 2}, {1, 3}})), Islands({0, 1, 0, 1}));
  EXPECT_EQ(islands_of({1, 1, 0, 0}, links_of(4, 1e9, {{0, 1}, {2, 3}})), Islands({0, 0, 1, 1}));
}

TEST(Islands, ClearlyFasterGroupsAreSeveral) {
  const std::vector<std::pair<int, int>> pairs{{0, 2}, {1, 3}};
  EXPECT_EQ(islands_of({0, 0, 0, 0}, links_of(4, 2.5e9, pairs)), Islands({0, 1, 0, 1}));
  EXPECT_EQ(islands_of({0, 0, 0, 0}, links_of(4, 2.6e9, pairs)), Islands({0, 0, 0, 0}));
  EXPECT_EQ(islands_of({0, 0, 0}, links_of(3, 1e9, {{1, 2}})), Islands({0, 1, 1}));
  // The slower direction counts.
  std::vector<Link> links = links_of(4, 1e9, pairs);
  links[0 * 4 + 2].bytes_per_s = 1e9;
  EXPECT_EQ(islands_of({0, 0, 0, 0}, links), Islands({0, 1, 2, 1}));
}

TEST(Islands, FastLinksThatFormNoGroupsMakeNone) {
  EXPECT_EQ(islands_of({0, 0, 0}, links_of(3, 1e9, {{0, 1}, {1, 2}})), Islands({0, 0, 0}));
  EXPECT_EQ(islands_of({0, 0, 0, 0}, links_of(4, 1e9, {{0, 1}, {1, 2}, {2, 3}, {3, 0}})),
            Islands({0, 0, 0, 0}));
}

double bytes_cost(const ProgressSample& alone, const ProgressSample& beside, double bytes) {
  return progress_cost(alone, alone, beside, bytes).s_per_byte;
}

// 10 units of work in 10 s alone; 1e9 bytes beside.
TEST(ProgressCost, IsTheSlowingWhereProcessorsAreFree) {
  // One thread all the time; messages need 2 s of processor, of which 1 s was taken from it.
  EXPECT_NEAR(bytes_cost({10, 10, 10, 0}, {9, 10, 11, 0}, 1e9), 1e-9, 1e-18);
  // Not slower at all: another processor moved them.
  EXPECT_EQ(bytes_cost({10, 10, 10, 0}, {10, 10, 11, 0}, 1e9), 0);
  EXPECT_EQ(bytes_cost({10, 10, 10, 0}, {11, 10, 11, 0}, 1e9), 0);
  // Noise is no more than what messages can have needed.
  EXPECT_NEAR(bytes_cost({10, 10, 10, 0}, {5, 10, 6, 0}, 1e9), 1e-9, 1e-18);
  // Three threads.
  EXPECT_EQ(bytes_cost({10, 10, 29, 0}, {10, 10, 31, 0}, 1e9), 0);
}

TEST(ProgressCost, IsAllProcessorTimeWhereProcessorsAreShared) {
  // A quota of 40 %: work went from 10 to 8, and 2 * 0.4 s of processor time to messages, which is
  // 2 s of computing at that quota.
  EXPECT_NEAR(bytes_cost({10, 10, 4, 0}, {8, 10, 4, 0}, 1e9), 2e-9, 1e-18);
  // By chance there was more of the processor beside messages.
  EXPECT_NEAR(bytes_cost({10, 10, 4, 0}, {12, 10, 5, 0}, 1e9), 0.5e-9, 1e-18);
  EXPECT_EQ(bytes_cost({10, 10, 4, 0}, {10, 10, 3.9, 0}, 1e9), 0);
}

TEST(ProgressCost, LeavesOutWhatTravelledAfterwards) {
  // Half of the bytes were on their way after computing had ended.
  EXPECT_NEAR(bytes_cost({10, 10, 10, 0}, {9, 10, 11, 10}, 1e9), 2e-9, 1e-18);
}

TEST(ProgressCost, OfAnUnknownProcessorIsTheSlowing) {
  EXPECT_NEAR(bytes_cost({10, 10, 0, 0}, {9, 10, 0, 0}, 1e9), 1e-9, 1e-18);
  EXPECT_EQ(bytes_cost({10, 10, 0, 0}, {11, 10, 0, 0}, 1e9), 0);
  EXPECT_EQ(bytes_cost({10, 10, 0, 0}, {9, 10, 0, 0}, 0), 0);
}

TEST(ProgressCost, PollingIsAShareOfTheTimeAndNotOfTheBytes) {
  const ProgressSample alone{10, 10, 10, 0};
  // 9 units of work with polling; 7 with as much polling and 1e9 bytes.
  const ProgressCost cost = progress_cost(alone, {9, 10, 10, 5}, {7, 10, 10, 0}, 1e9);
  EXPECT_NEAR(cost.polling_share, 0.1, 1e-12);
  EXPECT_NEAR(cost.s_per_byte, 2e-9, 1e-18);
  // All of the slowing is polling: nothing is left for the bytes.
  EXPECT_EQ(progress_cost(alone, {8, 10, 10, 0}, {9, 10, 10, 0}, 1e9).s_per_byte, 0);
  // At half a processor 0.5 s of polling cost 1 s.
  EXPECT_NEAR(progress_cost({10, 10, 5, 0}, {9, 10, 5, 0}, {9, 10, 5, 0}, 1e9).polling_share, 0.1,
              1e-12);
}

}  // namespace
}  // namespace atl
