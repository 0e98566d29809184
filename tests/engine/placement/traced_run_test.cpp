#include "engine/placement/traced_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/placement/epoch_tasks.hpp"
#include "engine/placement/simulated_epoch.hpp"
#include "engine/placement/simulator.hpp"
#include "engine/trace/trace_file.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

// A run that was not recorded but simulated with known factors.
class SimulatedRun : public ::testing::Test {
 protected:
  SimulatedRun() {
    run_.model.features = 20;
    run_.model.hidden = 16;
    run_.model.outputs = 4;
    run_.model.norm = Norm::kBatch;
    run_.partition.parts = {
        {.nodes = 9000, .central = 4000, .edges = 90000, .marginal_edges = 50000},
        {.nodes = 8000, .central = 5000, .edges = 95000, .marginal_edges = 40000}};
    run_.partition.forward_rows = run_.partition.backward_rows = {0, 3000, 2500, 0};
    run_.layers = layers_without_plan(run_.model);
    run_.phase_s.resize(2);
    for (Device& device : topology_.devices) device.progress_s_per_byte = 1e-8;
  }

  TaskGraph tasks(const Topology& topology, const PhaseCorrections& corrections) const {
    return epoch_tasks({topology, run_.model, run_.partition, corrections}, run_.layers,
                       TaskDetail::kPhases);
  }
  double epoch_s(const Topology& topology, const PhaseCorrections& corrections) const {
    return Simulator(topology).run(tasks(topology, corrections)).makespan_s;
  }
  // Records the trace of an epoch with these factors.
  void record(const PhaseCorrections& truth) {
    run_.phase_s.assign(2, {});
    const TaskGraph graph = tasks(topology_, truth);
    const TaskTimes times = Simulator(topology_).run(graph);
    for (TaskId id = 0; id < graph.size(); ++id) {
      const SimTask& task = graph.task(id);
      const std::optional<Phase> phase = phase_named(task.name);
      if (!phase) continue;
      const auto t = static_cast<std::size_t>(id);
      run_.phase_s[static_cast<std::size_t>(std::max(task.rank, 0))]
                  [{*phase, task.layer, std::string(task.direction) == "backward"}] +=
          times.end_s[t] - times.start_s[t];
    }
    run_.epoch_s = times.makespan_s;
  }

  TracedRun run_;
  Topology topology_ = small_topology(2, 1, 2e7);
};

TEST_F(SimulatedRun, IsReplayedExactlyAndOnChangedMachines) {
  PhaseCorrections truth(2, 3);
  for (int rank = 0; rank < 2; ++rank) {
    truth.set(rank, {Phase::kSpmmCentral, 1, false}, 0.5 + rank);
    truth.set(rank, {Phase::kSpmmMarginal, 2, true}, 2.0 - rank);
    truth.set(rank, {Phase::kPrepareCentral, 1, true}, 3.0);
    truth.set(rank, {Phase::kAllReduce, -1, false}, 7.0);
  }
  record(truth);
  const PhaseCorrections found = corrections_of(run_, topology_);
  EXPECT_THAT(epoch_s(topology_, found), DoubleNear(run_.epoch_s, 1e-3 * run_.epoch_s));
  EXPECT_THAT(found.factor(1, {Phase::kSpmmCentral, 1, false}), DoubleNear(1.5, 0.02));
  EXPECT_THAT(found.factor(0, {Phase::kSpmmMarginal, 2, true}), DoubleNear(2.0, 0.02));
  EXPECT_THAT(found.factor(0, {Phase::kPrepareCentral, 1, true}), DoubleNear(3.0, 0.05));
  EXPECT_THAT(found.factor(0, {Phase::kAllReduce, -1, false}), DoubleNear(7.0, 1e-6));
  for (const char* change : {"cards=0.1x", "cards=20x", "card(h1)=0.3x", "speed(0)=0.5x"}) {
    Topology changed = topology_;
    change_topology(changed, change);
    const double expected = epoch_s(changed, truth);
    EXPECT_THAT(epoch_s(changed, found), DoubleNear(expected, 0.01 * expected)) << change;
    EXPECT_GT(std::abs(expected / run_.epoch_s - 1), 0.05) << change;
  }
}

// Between hosts; where the epoch hardly waits for it, nothing is learned.
TEST_F(SimulatedRun, ShowsHowFastTheNetworkReallyWas) {
  PhaseCorrections truth(2, 3);
  truth.set(0, {Phase::kSpmmCentral, 1, false}, 1.5);
  change_topology(topology_, "cards=0.5x");
  const Topology probed = topology_;
  for (const double speed : {0.8, 1.0, 1.2}) {
    topology_ = probed;
    change_topology(topology_, fmt::format("cards={}x", speed));
    record(truth);
    for (const PhaseCorrections& found :
         {corrections_of(run_, probed), common_corrections(run_, probed)}) {
      EXPECT_THAT(found.network_speed(), DoubleNear(speed, 0.01));
    }
    const PhaseCorrections found = corrections_of(run_, probed);
    const double replayed_s = mean_seconds(
        simulate_epochs(run_.setting(probed, found), run_.layers, TaskDetail::kPhases));
    EXPECT_THAT(replayed_s, DoubleNear(run_.epoch_s, 2e-3 * run_.epoch_s));
  }
  run_.epoch_s *= 10;  // which no network explains
  EXPECT_EQ(corrections_of(run_, probed).network_speed(), 1);
  topology_ = probed;
  change_topology(topology_, "cards=1000x");
  const Topology fast = topology_;
  change_topology(topology_, "cards=0.5x");
  record(truth);
  EXPECT_EQ(corrections_of(run_, fast).network_speed(), 1);
}

TEST_F(SimulatedRun, OtherPlansGetTheFactorOfThePhase) {
  PhaseCorrections truth(2, 3);
  for (int rank = 0; rank < 2; ++rank) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const bool backward : {false, true}) {
        truth.set(rank, {Phase::kSpmmCentral, layer, backward}, 0.5);
      }
    }
  }
  record(truth);
  // The first aggregate was kept: the run had no SpMM in layer 0.
  ASSERT_FALSE(run_.phase_s[0].contains({Phase::kSpmmCentral, 0, false}));
  const PhaseCorrections common = common_corrections(run_, topology_);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(common.factor(rank, {Phase::kSpmmCentral, 0, false}), DoubleNear(0.5, 0.02));
    EXPECT_THAT(common.factor(rank, {Phase::kSpmmCentral, 1, false}), DoubleNear(0.5, 0.02));
    EXPECT_THAT(common.factor(rank, {Phase::kSpmmMarginal, 1, false}), DoubleNear(1, 0.02));
  }
}

// Seconds of a layer's phases in which rows are multiplied with weights, forward.
double row_work_s(const TaskGraph& graph, const TaskTimes& times, int layer) {
  double seconds = 0;
  for (TaskId id = 0; id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    const std::optional<Phase> phase = phase_named(task.name);
    if (!phase || !is_row_work(*phase) || task.layer != layer) continue;
    if (std::string_view(task.direction) == "backward") continue;
    const auto t = static_cast<std::size_t>(id);
    seconds += times.end_s[t] - times.start_s[t];
  }
  return seconds;
}

// The product with the weight stands before the sum over neighbours in the run, in phases that took
// four times what their work says, and behind it in the plan, in phases that took a tenth of it.
TEST_F(SimulatedRun, RowWorkKeepsItsFactorInAnotherAlgebra) {
  const auto row_work = [&](const PhaseCorrections& corrections) {
    const TaskGraph graph = tasks(topology_, corrections);
    return row_work_s(graph, Simulator(topology_).run(graph), 1);
  };
  // No messages beside them, which take some of the time of phases.
  for (Device& device : topology_.devices) device.progress_s_per_byte = 0;
  ASSERT_EQ(run_.layers[1].algebra.order, MultiplyOrder::kMultiplyFirst);
  const double by_rates = row_work({});
  PhaseCorrections truth(2, 3);
  for (int rank = 0; rank < 2; ++rank) {
    truth.set(rank, {Phase::kPrepareMarginal, 1, false}, 4);
    truth.set(rank, {Phase::kPrepareCentral, 1, false}, 4);
    truth.set(rank, {Phase::kCompleteMarginal, 1, false}, 0.1);
    truth.set(rank, {Phase::kCompleteCentral, 1, false}, 0.1);
  }
  record(truth);
  const double measured = row_work(truth);
  const PhaseCorrections common = common_corrections(run_, topology_);
  EXPECT_NEAR(row_work(common), measured, 0.01 * measured);
  run_.layers[1].algebra.order = MultiplyOrder::kAggregateFirst;
  const double planned_by_rates = row_work({});
  EXPECT_NEAR(row_work(common) / planned_by_rates, measured / by_rates, 0.05 * measured / by_rates);
}

TEST_F(SimulatedRun, ComputedHaloRowsHaveTheFactorOfOtherRows) {
  PhaseCorrections truth(2, 3);
  for (int rank = 0; rank < 2; ++rank) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const bool backward : {false, true}) {
        for (std::size_t p = 0; p < kPhaseNames.size(); ++p) {
          truth.set(rank, {static_cast<Phase>(p), layer, backward}, 2);
        }
      }
    }
  }
  for (Device& device : topology_.devices) device.progress_s_per_byte = 0;
  record(truth);
  const PhaseCorrections common = common_corrections(run_, topology_);
  EXPECT_THAT(common.factor(0, {Phase::kRecompute, 0, false}), DoubleNear(2, 0.02));
}

TEST_F(SimulatedRun, NeedsATopologyOfAsManyRanks) {
  const Topology three = small_topology(3, 1, 1e6);
  EXPECT_THAT(thrown_error([&] { corrections_of(run_, three); }).what(),
              HasSubstr("the run has 2 ranks, the topology 3"));
}

// Seconds of an epoch of a rank in which it neither waited for messages nor met others in a sum,
// the mean of the epochs after the first two.
double busy_seconds(const RankTrace& rank) {
  double busy_us = 0;
  int epochs = 0;
  for (const TraceEvent& epoch : rank.events) {
    if (epoch.lane != kEpochLane || epoch.name != "epoch" || epoch.tag.epoch <= 2) continue;
    ++epochs;
    busy_us += epoch.duration_us();
    for (const TraceEvent& event : rank.events) {
      const bool inside = event.begin_us >= epoch.begin_us && event.end_us <= epoch.end_us;
      const bool waits = event.name == "wait" || event.name == "all-reduce";
      if (event.lane == kHostLane && inside && waits) busy_us -= event.duration_us();
    }
  }
  return busy_us / 1e6 / epochs;
}

// They have the number of the epoch before and the same names of phases.
TEST(RecordedRun, HasNothingOfEvaluationsInItsPhases) {
  const TempDir dir;
  TrainOptions options = small_options();
  options.trace = true;
  options.run_dir = dir.path() / "run";
  options.optimizer.epochs = 4;
  options.eval_every = 1;
  train_in_folder(2, make_sbm(dir, false), options);
  const TracedRun run = read_traced_run(options.run_dir);
  ASSERT_EQ(run.epochs, 2);  // of which the median is the mean
  ASSERT_EQ(run.phase_s.size(), 2U);
  const Trace trace = read_trace(options.run_dir / "trace.json");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    double sum = 0;
    for (const auto& [place, seconds] : run.phase_s[rank]) {
      if (place.phase != Phase::kAllReduce) sum += seconds;
    }
    // Times in the trace are rounded to nanoseconds.
    EXPECT_NEAR(sum, busy_seconds(trace.ranks[rank]), 1e-3 * sum);
    EXPECT_LE(sum, 1.0001 * run.epoch_s);
  }
}

}  // namespace
}  // namespace atl
