#include "engine/placement/simulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pair {
  int from = 0;
  int to = 0;
};
std::vector<double> shares(const Topology& topology, const std::vector<Pair>& pairs) {
  FairShares shares(topology);
  for (const Pair& pair : pairs) shares.add(shares.flow(pair.from, pair.to));
  const std::span<const double> rates = shares.compute();
  return {rates.begin(), rates.end()};
}

TEST(FairShares, OneFlowGetsItsLinkOrItsCard) {
  Topology topology = small_topology(2, 1, 100);
  EXPECT_THAT(shares(topology, {{0, 1}}), ElementsAre(100));
  topology.links[0 * 2 + 1].bytes_per_s = 30;
  EXPECT_THAT(shares(topology, {{0, 1}}), ElementsAre(30));
  topology.links[0 * 2 + 1].bytes_per_s = 1000;
  topology.hosts[1].receive_bytes_per_s = 70;
  EXPECT_THAT(shares(topology, {{0, 1}, {1, 0}}), ElementsAre(70, 100));
}

TEST(FairShares, WhatOneFlowCannotUseTheOthersGet) {
  // Three flows leave host 0 (card 90): the one to the host that receives 10 leaves 80 to two.
  Topology topology = small_topology(4, 1, 90);
  topology.hosts[1].receive_bytes_per_s = 10;
  EXPECT_THAT(shares(topology, {{0, 1}, {0, 2}, {0, 3}}), ElementsAre(10, 40, 40));
  // Another sender to host 2 gets what 0 -> 2, limited by its own card, leaves of host 2.
  EXPECT_THAT(shares(topology, {{0, 1}, {0, 2}, {0, 3}, {1, 2}}), ElementsAre(10, 40, 40, 50));
}

TEST(FairShares, InsideAHostTheCardDoesNotCount) {
  const Topology topology = small_topology(2, 2, 100);
  EXPECT_THAT(shares(topology, {{0, 1}, {0, 2}, {1, 3}, {1, 2}}),
              ElementsAre(1e9, 100.0 / 3, 100.0 / 3, 100.0 / 3));
}

// Max-min fair: no capacity exceeded, and every flow has a bottleneck, a full resource on which no
// flow gets more.
TEST(FairShares, EveryFlowHasABottleneck) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int hosts = 2 + static_cast<int>(random() % 4);
    Topology topology = small_topology(hosts, 2, 100);
    for (Host& host : topology.hosts) {
      host.send_bytes_per_s =
          random() % 5 == 0 ? kInfinity : 1 + static_cast<double>(random() % 100);
      host.receive_bytes_per_s =
          random() % 5 == 0 ? kInfinity : 1 + static_cast<double>(random() % 100);
    }
    for (Link& link : topology.links) link.bytes_per_s = 1 + static_cast<double>(random() % 100);
    std::vector<Pair> flows;
    for (int f = 0; f < 20; ++f) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(2 * hosts));
      const int to = static_cast<int>(random() % static_cast<unsigned>(2 * hosts));
      if (from / 2 != to / 2) flows.push_back({from, to});
    }
    const std::vector<double> rates = shares(topology, flows);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const double link = topology.link(flows[f].from, flows[f].to).bytes_per_s;
      EXPECT_LE(rates[f], link);
      bool limited = rates[f] >= link * (1 - 1e-9);
      for (const bool sends : {true, false}) {
        const auto host = [&](const Pair& flow) { return (sends ? flow.from : flow.to) / 2; };
        double sum = 0;
        double most = 0;
        for (std::size_t g = 0; g < flows.size(); ++g) {
          if (host(flows[g]) != host(flows[f])) continue;
          sum += rates[g];
          most = std::max(most, rates[g]);
        }
        const Host& card = topology.hosts[static_cast<std::size_t>(host(flows[f]))];
        const double capacity = sends ? card.send_bytes_per_s : card.receive_bytes_per_s;
        EXPECT_LE(sum, capacity * (1 + 1e-9));
        if (sum >= capacity * (1 - 1e-9) && rates[f] >= most * (1 - 1e-9)) limited = true;
      }
      EXPECT_TRUE(limited) << "flow " << f << " of round " << round;
    }
  }
}

// Rates are remembered by counts, and forgotten when there are many: it must not show.
TEST(FairShares, WhatIsRememberedIsWhatWasComputed) {
  std::mt19937 random(2);
  for (const int hosts : {4, 12}) {  // few flows, which are remembered, and many
    Topology topology = small_topology(hosts, 1, 100);
    for (Host& host : topology.hosts) {
      host.send_bytes_per_s = 1 + static_cast<double>(random() % 100);
      host.receive_bytes_per_s = 1 + static_cast<double>(random() % 100);
    }
    std::vector<FairShares::Flow> flows;
    std::vector<int> counts;
    FairShares kept(topology);
    for (int from = 0; from < hosts; ++from) {
      for (int to = 0; to < hosts; ++to) {
        if (from == to) continue;
        flows.push_back(kept.flow(from, to));
        counts.push_back(0);
        kept.add(flows.back(), 0);
      }
    }
    for (int step = 0; step < 2000; ++step) {
      if (step % 500 == 499) {
        kept.count_none();
        std::ranges::fill(counts, 0);
      }
      const std::size_t flow = random() % flows.size();
      const int change = counts[flow] > 0 && random() % 2 == 0 ? -1 : 1;
      counts[flow] += change;
      kept.count(static_cast<int>(flow), change);
      FairShares fresh(topology);
      for (std::size_t f = 0; f < flows.size(); ++f) fresh.add(flows[f], counts[f]);
      EXPECT_TRUE(std::ranges::equal(kept.compute(), fresh.compute())) << "step " << step;
    }
  }
}

SimTask compute(int rank, double seconds) {
  return {.kind = TaskKind::kCompute, .rank = rank, .seconds = seconds};
}
SimTask transfer(int from, int to, double bytes) {
  return {.kind = TaskKind::kTransfer, .rank = from, .destination = to, .bytes = bytes};
}
TaskId add(TaskGraph& graph, const SimTask& task, std::vector<TaskId> after = {}) {
  return graph.add(task, after);
}

TEST(Simulator, NothingTakesNoTime) {
  const Topology topology = small_topology(2, 1, 100);
  EXPECT_EQ(Simulator(topology).run(TaskGraph(2)).makespan_s, 0);
}

TEST(Simulator, ARankComputesInOrderAndWaitsForMessages) {
  const Topology topology = small_topology(2, 1, 100, 0.5);
  TaskGraph graph(2);
  const TaskId packed = add(graph, compute(0, 1));
  const TaskId packet = add(graph, transfer(0, 1, 200), {packed});
  add(graph, compute(0, 4));
  const TaskId central = add(graph, compute(1, 2));
  const TaskId marginal = add(graph, compute(1, 3), {packet});
  const TaskId after = add(graph, compute(1, 1));
  Simulator simulator(topology);
  const TaskTimes& times = simulator.run(graph);
  // 1 + 0.5 of latency + 200 / 100.
  EXPECT_THAT(times.start_s, ElementsAre(0, 1, 1, 0, 3.5, 6.5));
  EXPECT_THAT(times.end_s, ElementsAre(1, 3.5, 5, 2, 6.5, 7.5));
  EXPECT_EQ(times.end_s[static_cast<std::size_t>(central)], 2);
  EXPECT_EQ(times.end_s[static_cast<std::size_t>(marginal)], 6.5);
  EXPECT_EQ(times.makespan_s, times.end_s[static_cast<std::size_t>(after)]);
  // The same again: nothing is left over from the first run.
  EXPECT_THAT(simulator.run(graph).end_s, ElementsAre(1, 3.5, 5, 2, 6.5, 7.5));
}

TEST(Simulator, TransfersShareACardAndSpeedUpWhenOneEnds) {
  const Topology topology = small_topology(3, 1, 100);
  TaskGraph graph(3);
  add(graph, transfer(0, 1, 100));
  add(graph, transfer(0, 2, 300));
  // 50 each until 2 s, then 200 left at 100.
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(2, 4));
}

TEST(Simulator, TransfersSlowTheComputingOfBothRanks) {
  Topology topology = small_topology(2, 1, 100);
  topology.devices[0].progress_s_per_byte = 0.002;  // 0.2 of the processor at 100 bytes/s
  topology.devices[1].progress_s_per_byte = 1;      // more than there is: 0.05 are left
  TaskGraph graph(2);
  add(graph, transfer(0, 1, 1000));  // 10 s
  add(graph, compute(0, 10));        // 8 done by then
  add(graph, compute(1, 0.6));       // 0.5 done by then
  const std::vector<double> ends = Simulator(topology).run(graph).end_s;
  EXPECT_THAT(ends[0], DoubleNear(10, 1e-9));
  EXPECT_THAT(ends[1], DoubleNear(12, 1e-9));
  EXPECT_THAT(ends[2], DoubleNear(10.1, 1e-9));
}

TEST(Simulator, PollingSlowsComputingWhileAnythingIsUnderWay) {
  Topology topology = small_topology(3, 1, 100);
  topology.devices[0].polling_share = 0.5;
  topology.devices[1].polling_share = 0.2;
  topology.devices[1].progress_s_per_byte = 0.003;  // 0.3 at 100 bytes/s
  TaskGraph graph(3);
  add(graph, transfer(0, 1, 200));  // 2 s
  add(graph, transfer(0, 2, 200));  // sharing the card: both take 4 s
  add(graph, compute(0, 4));        // 2 done by then, at half speed however many are under way
  add(graph, compute(1, 4));        // at 1 - 0.2 - 0.15 until then
  const std::vector<double> ends = Simulator(topology).run(graph).end_s;
  EXPECT_THAT(ends[0], DoubleNear(4, 1e-9));
  EXPECT_THAT(ends[2], DoubleNear(6, 1e-9));
  EXPECT_THAT(ends[3], DoubleNear(4 + 4 - 4 * 0.65, 1e-9));
}

// Three packets of 100 bytes to the ranks of host 1 count as three flows against the one to host 2.
TEST(Simulator, JoinedPacketsAreSoManyFlows) {
  Topology topology = small_topology(3, 3, 100);
  TaskGraph graph(9);
  SimTask joined = transfer(0, 3, 300);
  joined.packets = 3;
  const TaskId packets = add(graph, joined);
  add(graph, transfer(1, 6, 200));
  add(graph, compute(4, 1), {packets});
  // 25 each until 4 s, then 100 bytes left at 100.
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(4, 5, 5));
  // Computing of the sender is slowed by three packets, of each receiver by one.
  for (const int rank : {0, 4, 6}) topology.devices[rank].progress_s_per_byte = 0.01;
  TaskGraph slowed(9);
  add(slowed, joined);
  add(slowed, compute(0, 3));
  add(slowed, compute(4, 3));
  add(slowed, compute(6, 3));
  // 3 s at 100 bytes/s in all: 0.05 are left to rank 0, two thirds to rank 4, all to rank 6.
  const std::vector<double> ends = Simulator(topology).run(slowed).end_s;
  EXPECT_THAT(ends[0], DoubleNear(3, 1e-9));
  EXPECT_THAT(ends[1], DoubleNear(3 + 3 - 0.15, 1e-9));
  EXPECT_THAT(ends[2], DoubleNear(3 + 3 - 2, 1e-9));
  EXPECT_THAT(ends[3], DoubleNear(3, 1e-9));
}

TEST(Simulator, WithAToleranceAlmostEqualTransfersEndTogether) {
  const Topology topology = small_topology(2, 2, 100);
  TaskGraph graph(4);
  add(graph, transfer(0, 2, 100));
  add(graph, transfer(1, 3, 104));
  add(graph, transfer(0, 3, 200));
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(3, 3.08, 4.04));
  // 4 of 104 bytes are left at 3 s, less than a twentieth; 200 are never almost sent before.
  EXPECT_THAT(Simulator(topology, 0.05).run(graph).end_s, ElementsAre(3, 3, 4));
}

TEST(Simulator, ACollectiveWaitsForAllAndHoldsAll) {
  const Topology topology = small_topology(2, 1, 100);
  TaskGraph graph(2);
  const TaskId a = add(graph, compute(0, 1));
  const TaskId b = add(graph, compute(1, 5));
  const TaskId sum = add(graph, {.kind = TaskKind::kDelay, .seconds = 2}, {a, b});
  add(graph, compute(0, 1), {sum});
  add(graph, compute(1, 2), {sum});
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(1, 5, 7, 8, 9));
}

// The third rank's packet shares the card with the one under way alone.
TEST(Simulator, QueuedTransfersFollowOneAnotherWithoutFurtherLatency) {
  const Topology topology = small_topology(3, 1, 100, 0.5);
  TaskGraph graph(3);
  const TaskId packed = add(graph, compute(0, 1));
  const TaskId first = add(graph, transfer(0, 1, 200), {packed});
  SimTask queued = transfer(0, 1, 100);
  queued.queues = true;
  add(graph, queued, {packed, first});
  add(graph, transfer(0, 2, 100), {packed});
  // From 1.5 s on at 50 bytes/s each, until 100 bytes to rank 2 are there at 3.5 s; 100 more bytes
  // of the first take one second, and so do those that wait for them.
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(1, 4.5, 5.5, 3.5));
  // Posted while the first is under way: what is left of the latency then.
  TaskGraph late(3);
  const TaskId begin = add(late, compute(0, 1));
  const TaskId under_way = add(late, transfer(0, 1, 200), {begin});
  const TaskId posted = add(late, compute(0, 2.25));
  add(late, queued, {posted, under_way});
  EXPECT_THAT(Simulator(topology).run(late).end_s, ElementsAre(1, 3.5, 3.25, 4.75));
}

TEST(Simulator, EmptyTransfersTakeTheirLatency) {
  const Topology topology = small_topology(2, 1, 100, 0.25);
  TaskGraph graph(2);
  const TaskId packet = add(graph, transfer(0, 1, 0));
  add(graph, compute(1, 0), {packet});
  EXPECT_THAT(Simulator(topology).run(graph).end_s, ElementsAre(0.25, 0.25));
}

// Against steps of a fixed length, which need no events: random tasks on random machines.
TEST(Simulator, AgreesWithSmallSteps) {
  std::mt19937 random(7);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / 4294967296.0;
  };
  for (int round = 0; round < 20; ++round) {
    Topology topology = small_topology(2, 2, uniform(50, 200), uniform(0, 0.05));
    for (Device& device : topology.devices) {
      device.progress_s_per_byte = uniform(0, 0.003);
      device.polling_share = uniform(0, 0.2);
    }
    TaskGraph graph(4);
    for (int t = 0; t < 24; ++t) {
      std::vector<TaskId> after;
      for (int d = 0; d < 2 && t > 0; ++d) {
        if (random() % 2 == 0)
          after.push_back(static_cast<TaskId>(random() % static_cast<unsigned>(t)));
      }
      const int rank = static_cast<int>(random() % 4);
      if (random() % 2 == 0) {
        add(graph, compute(rank, uniform(0.1, 1)), after);
      } else {
        add(graph,
            transfer(rank, (rank + 1 + static_cast<int>(random() % 3)) % 4, uniform(10, 100)),
            after);
      }
    }
    // One step at a time.
    constexpr double kStep = 1e-4;
    const auto tasks = static_cast<std::size_t>(graph.size());
    std::vector<double> left(tasks), started(tasks, -1), ended(tasks, -1);
    double now = 0;
    for (std::size_t done = 0; done < tasks; now += kStep) {
      std::vector<Pair> flows;
      std::vector<std::size_t> travelling, computing;
      std::vector<bool> busy(4, false);
      for (std::size_t t = 0; t < tasks; ++t) {
        const auto id = static_cast<TaskId>(t);
        const SimTask& task = graph.task(id);
        const bool computes = task.kind == TaskKind::kCompute;
        if (ended[t] >= 0) continue;
        const auto rank = static_cast<std::size_t>(task.rank);
        if (computes && busy[rank]) continue;
        if (computes) busy[rank] = true;  // the first of its rank, ready or not
        bool ready = true;
        for (const TaskId earlier : graph.dependencies(id)) {
          ready = ready && ended[static_cast<std::size_t>(earlier)] >= 0;
        }
        if (!ready) continue;
        if (started[t] < 0) {
          started[t] = now;
          left[t] = computes ? task.seconds : task.bytes;
        }
        if (computes) {
          computing.push_back(t);
        } else if (now - started[t] >= topology.link(task.rank, task.destination).latency_s) {
          travelling.push_back(t);
          flows.push_back({task.rank, task.destination});
        }
      }
      const std::vector<double> rates = shares(topology, flows);
      std::vector<double> speed(4, 1);
      std::vector<bool> polls(4, false);
      for (std::size_t f = 0; f < flows.size(); ++f) {
        for (const int rank : {flows[f].from, flows[f].to}) {
          const auto r = static_cast<std::size_t>(rank);
          speed[r] -= topology.devices[r].progress_s_per_byte * rates[f];
          if (!polls[r]) speed[r] -= topology.devices[r].polling_share;
          polls[r] = true;
        }
        left[travelling[f]] -= rates[f] * kStep;
      }
      for (const std::size_t t : computing) {
        left[t] -=
            kStep *
            std::max(0.05,
                     speed[static_cast<std::size_t>(graph.task(static_cast<TaskId>(t)).rank)]);
      }
      for (std::size_t t = 0; t < tasks; ++t) {
        if (started[t] < 0 || ended[t] >= 0 || left[t] > 0) continue;
        ended[t] = now + kStep;
        ++done;
      }
    }
    const TaskTimes times = Simulator(topology).run(graph);
    // A step of delay at each end of a chain of tasks.
    EXPECT_NEAR(times.makespan_s, now, 60 * kStep) << "round " << round;
  }
}

}  // namespace
}  // namespace atl
