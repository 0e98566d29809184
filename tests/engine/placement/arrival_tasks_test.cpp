// Marginal rows in order of arrival, as tasks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/placement/epoch_tasks.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

constexpr std::int64_t kColumns = 256;  // a message is a KiB
constexpr double kCard = 100 << 20;     // bytes/s: a MiB takes 10 ms

// A layer of GCN on three hosts. Rank 0 gets 2 MiB from rank 1, in four pieces, and 512 KiB from
// rank 2, which travel whole; forward alone. Their marginal rows say when they set out.
struct ThreeHosts {
  ThreeHosts(std::int64_t marginal_of_1, std::int64_t marginal_of_2,
             std::int64_t rows_of_1 = 2048) {
    model.kind = "gcn";
    model.layers = 1;
    model.features = 8;
    model.outputs = kColumns;
    model.norm = Norm::kNone;
    parts.parts = {{.nodes = 4096, .central = 2048, .edges = 8192, .marginal_edges = 6144},
                   {.nodes = marginal_of_1, .edges = 1, .marginal_edges = 1},
                   {.nodes = marginal_of_2, .edges = 1, .marginal_edges = 1}};
    parts.forward_rows = {0, rows_of_1, 512, 0, 0, 0, 0, 0, 0};
    parts.backward_rows.assign(9, 0);
  }

  TaskGraph tasks(Arrival arrival, TaskDetail detail, double bits = 32) const {
    const EpochSetting setting{.topology = topology,
                               .model = model,
                               .partition = parts,
                               .corrections = none,
                               .arrival = planned_arrival(arrival, topology, model)};
    const LayerPlan layer{{MultiplyOrder::kMultiplyFirst, false}, bits};
    return epoch_tasks(setting, std::span(&layer, 1), detail);
  }

  Topology topology = small_topology(3, 1, kCard);
  ModelConfig model;
  PartitionQuality parts;
  PhaseCorrections none;
};

// When the tasks of this name on a rank run, forward, in their order.
struct Times {
  std::vector<double> start_ms, end_ms;
};
Times times_of(const TaskGraph& graph, const TaskTimes& times, const char* name, int rank) {
  Times found;
  for (TaskId id = 0; id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.name != std::string(name) || task.rank != rank) continue;
    if (task.direction != std::string("forward")) continue;
    found.start_ms.push_back(1e3 * times.start_s[static_cast<std::size_t>(id)]);
    found.end_ms.push_back(1e3 * times.end_s[static_cast<std::size_t>(id)]);
  }
  return found;
}

struct Simulated {
  Times sent_by_1, sent_by_2, groups;
  double makespan_s = 0;
};
Simulated forward_of(const ThreeHosts& of, Arrival arrival) {
  const TaskGraph graph = of.tasks(arrival, TaskDetail::kPhases);
  Simulator simulator(of.topology);
  const TaskTimes times = simulator.run(graph);
  return {times_of(graph, times, "packet", 1), times_of(graph, times, "packet", 2),
          times_of(graph, times, "spmm marginal", 0), times.makespan_s};
}

// Both share the card of rank 0 from when the second sets out. By hand: rank 1 sends alone for u
// ms, two of its pieces and some of the third, and then each of both at half the rate for the 10 ms
// that rank 2 needs. The card has 25 ms of work.
TEST(ArrivalTasks, AWholePacketThatComesLateHoldsUpTheFirstGroup) {
  const ThreeHosts of(/*marginal_of_1=*/1024, /*marginal_of_2=*/4700);
  const Simulated simulated = forward_of(of, Arrival::kAuto);
  ASSERT_EQ(simulated.sent_by_1.end_ms.size(), 4U);
  ASSERT_EQ(simulated.sent_by_2.end_ms.size(), 1U);
  const double first = simulated.sent_by_1.start_ms.front();
  const double late = simulated.sent_by_2.start_ms.front();
  const double u = late - first;
  ASSERT_GT(u, 10);
  ASSERT_LT(u, 15);
  const double ends[] = {first + 5, first + 10, late + 2 * (15 - u), first + 25};
  for (std::size_t piece = 0; piece < 4; ++piece) {
    EXPECT_NEAR(simulated.sent_by_1.end_ms[piece], ends[piece], 1e-6) << piece;
  }
  EXPECT_NEAR(simulated.sent_by_2.end_ms[0], late + 10, 1e-6);
  const auto& [start, end] = simulated.groups;
  ASSERT_EQ(start.size(), 4U);
  EXPECT_NEAR(start[0], late + 10, 1e-6);
  EXPECT_NEAR(start[1], end[0], 1e-6);
  EXPECT_NEAR(start[2], end[1], 1e-6);
  ASSERT_GT(end[2], first + 25);  // the last piece is there
  EXPECT_NEAR(start[3], end[2], 1e-6);
}

// Rank 1 is late now, when the other packet has come; its pieces take 5 ms each.
TEST(ArrivalTasks, GroupsFollowThePiecesOfALatePacket) {
  const ThreeHosts of(/*marginal_of_1=*/6000, /*marginal_of_2=*/1024);
  const Simulated simulated = forward_of(of, Arrival::kAuto);
  const double late = simulated.sent_by_1.start_ms.front();
  ASSERT_GT(late, simulated.sent_by_2.end_ms.front());
  ASSERT_EQ(simulated.groups.start_ms.size(), 4U);
  double all_ms = 0;
  for (std::size_t group = 0; group < 4; ++group) {
    const double own_ms = simulated.groups.end_ms[group] - simulated.groups.start_ms[group];
    ASSERT_LT(own_ms, 5);
    all_ms += own_ms;
    EXPECT_NEAR(simulated.groups.start_ms[group], late + 5.0 * static_cast<double>(group + 1), 1e-6)
        << group;
  }
  // Without it all rows wait for the last piece, and take as long.
  const Simulated off = forward_of(of, Arrival::kOff);
  ASSERT_EQ(off.groups.start_ms.size(), 1U);
  EXPECT_NEAR(off.groups.start_ms[0], late + 20, 1e-6);
  EXPECT_NEAR(off.groups.end_ms[0] - off.groups.start_ms[0], all_ms, 1e-6);
  EXPECT_NEAR(off.makespan_s - simulated.makespan_s,
              1e-3 * (off.groups.end_ms[0] - simulated.groups.end_ms[3]), 1e-9);
}

// Rank 0 posts last here. Half a MiB waits for it, 60 KiB don't.
TEST(ArrivalTasks, LargePacketsSetOutWhenTheirReceiverHasPosted) {
  const ThreeHosts of(1024, 1024, /*rows_of_1=*/60);
  const TaskGraph graph = of.tasks(Arrival::kOff, TaskDetail::kPhases);
  Simulator simulator(of.topology);
  const TaskTimes times = simulator.run(graph);
  const auto packed_ms = [&](int rank) { return times_of(graph, times, "pack", rank).end_ms[0]; };
  ASSERT_GT(packed_ms(0), packed_ms(1) + 1);
  ASSERT_GT(packed_ms(0), packed_ms(2) + 1);
  EXPECT_EQ(times_of(graph, times, "packet", 1).start_ms[0], packed_ms(1));
  EXPECT_EQ(times_of(graph, times, "packet", 2).start_ms[0], packed_ms(0));
}

TEST(ArrivalTasks, MergedTasksTakeAsLong) {
  for (const double bits : {32.0, 16.0}) {
    const ThreeHosts of(6000, 1024, /*rows_of_1=*/4096);
    Simulator simulator(of.topology);
    const TaskGraph phases = of.tasks(Arrival::kAuto, TaskDetail::kPhases, bits);
    const TaskGraph merged = of.tasks(Arrival::kAuto, TaskDetail::kMerged, bits);
    EXPECT_LT(merged.size(), phases.size());
    const double seconds = simulator.run(phases).makespan_s;
    EXPECT_NEAR(simulator.run(merged).makespan_s, seconds, 1e-9);
    EXPECT_EQ(packet_sums(merged).bytes, packet_sums(phases).bytes);
    EXPECT_NEAR(packet_sums(merged).rows, 4096 + 512, 1e-9);
    // One unpacking forward for each group.
    const auto unpackings = std::ranges::count_if(phases.tasks(), [](const SimTask& task) {
      return task.name == std::string("unpack") && task.rank == 0 &&
             task.direction == std::string("forward");
    });
    EXPECT_EQ(unpackings, bits == 32 ? 0 : 4);
  }
}

// Where each packet travels whole there is nothing to be computed before the others.
TEST(ArrivalTasks, SmallPacketsLeaveMergedTasksAsTheyWere) {
  const ThreeHosts of(1024, 1024, /*rows_of_1=*/1023);
  Simulator simulator(of.topology);
  const TaskGraph off = of.tasks(Arrival::kOff, TaskDetail::kMerged);
  const TaskGraph on = of.tasks(Arrival::kAuto, TaskDetail::kMerged);
  EXPECT_EQ(on.size(), off.size());
  const double seconds = simulator.run(off).makespan_s;
  EXPECT_NEAR(simulator.run(on).makespan_s, seconds, 1e-12);
}

TEST(ArrivalTasks, AutoIsForCpusThatHoldPartsAlone) {
  ThreeHosts of(1024, 1024);
  EXPECT_EQ(planned_arrival(Arrival::kAuto, of.topology, of.model), Arrival::kAuto);
  EXPECT_EQ(planned_arrival(Arrival::kOff, of.topology, of.model), Arrival::kOff);
  of.topology.devices[1].kind = "cuda";
  EXPECT_EQ(planned_arrival(Arrival::kAuto, of.topology, of.model), Arrival::kOff);
  EXPECT_EQ(planned_arrival(Arrival::kOn, of.topology, of.model), Arrival::kOn);
  of.topology.devices[1].kind = "cpu";
  of.model.column_share.ranks = 3;
  EXPECT_EQ(planned_arrival(Arrival::kAuto, of.topology, of.model), Arrival::kOff);
  // Messages of attention are those of no cover.
  EXPECT_TRUE(orders_rows(Arrival::kAuto, /*covers=*/true));
  EXPECT_FALSE(orders_rows(Arrival::kAuto, /*covers=*/false));
  EXPECT_TRUE(orders_rows(Arrival::kOn, /*covers=*/false));
  EXPECT_FALSE(orders_rows(Arrival::kOff, /*covers=*/true));
}

}  // namespace
}  // namespace atl
