// Tests of layers in stages as plans see them: who has which layers, how long chunks take to flow
// through, what is sent, and when a plan is in stages.
#include "engine/placement/stage_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/files.hpp"
#include "engine/placement/group_plans.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kNodes = 64000;
constexpr std::int64_t kEdges = 640000;
constexpr std::int64_t kHidden = 64;

class StagePlanTest : public ::testing::Test {
 protected:
  StagePlanTest() {
    model_.kind = "gcnii";
    model_.layers = 8;
    model_.hidden = kHidden;
    model_.norm = Norm::kLayer;
    model_ = model_.sized({.features = kHidden, .outputs = kHidden, .nodes = kNodes}, 4);
    uncut_.parts.push_back({.nodes = kNodes, .central = kNodes, .edges = kEdges});
    uncut_.forward_rows = uncut_.backward_rows = {0};
  }

  StagePlan plan_on(const Topology& topology, int chunks, std::vector<int> bits = {32}) const {
    return find_stage_plan({.topology = topology,
                            .model = model_,
                            .uncut = uncut_,
                            .corrections = corrections_,
                            .chunks = chunks},
                           bits);
  }
  // Seconds that ranks compute in all.
  static double work(const StagePlan& plan) {
    const std::vector<double> seconds = computing_seconds(plan.epoch.tasks);
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }

  ModelConfig model_;
  PartitionQuality uncut_;
  PhaseCorrections corrections_;
};

Topology fast_network(int ranks) {
  Topology topology = small_topology(ranks, 1, 1e15);
  for (Device& device : topology.devices) {
    device.elementwise_bytes_per_s = 1e15;
    device.memory_bytes = 1e12;
  }
  return topology;
}

TEST_F(StagePlanTest, ASlowRankHasFewerLayers) {
  Topology topology = fast_network(4);
  EXPECT_THAT(plan_on(topology, 8).cut.first_layer, ElementsAre(0, 2, 4, 6));
  topology.devices[1].spmm_bytes_per_s[0].per_s /= 3;
  topology.devices[1].gemm_flop_per_s[0].per_s /= 3;
  // The others have seven layers for its one, which takes as long as three.
  const std::vector<int> first = plan_on(topology, 8).cut.first_layer;
  EXPECT_EQ(first[2] - first[1], 1);
}

TEST_F(StagePlanTest, ChunksFillThePipelineOnce) {
  // On one rank everything comes one after the other; on four equal ones K + S - 1 turns, each a
  // chunk of a stage, are what K S turns were.
  const double alone = plan_on(fast_network(1), 1).cost().seconds;
  const StagePlan taking_turns = plan_on(fast_network(4), 1);
  EXPECT_THAT(plan_on(fast_network(1), 16).cost().seconds, DoubleNear(alone, 1e-9 * alone));
  // The input's product is on all stages, and so are its gradients, which nobody waits for.
  EXPECT_GT(taking_turns.cost().seconds, alone);
  EXPECT_LT(taking_turns.cost().seconds, work(taking_turns));
  const StagePlan flowing = plan_on(fast_network(4), 16);
  const double slowest = std::ranges::max(computing_seconds(flowing.epoch.tasks));
  EXPECT_GT(flowing.cost().seconds, slowest);
  EXPECT_LT(flowing.cost().seconds, slowest * (16 + 3) / 16 * 1.0001);
  EXPECT_THAT(work(flowing), DoubleNear(work(taking_turns), 1e-9 * work(taking_turns)));
}

TEST_F(StagePlanTest, ASlowNetworkTakesAsLongAsTheBytesOfAStage) {
  // 1e6 bytes a second: a matrix forward, and one back.
  Topology topology = small_topology(4, 1, 1e6);
  for (Device& device : topology.devices) device.memory_bytes = 1e12;
  const StagePlan exact = plan_on(topology, 32);
  const double matrix_s = 4.0 * kNodes * kHidden / 1e6;
  // Forward before backward; the first and the last chunk wait for others.
  EXPECT_GT(exact.cost().seconds, 2 * matrix_s);
  EXPECT_LT(exact.cost().seconds, 2 * matrix_s * 1.3);
  EXPECT_NEAR(packet_sums(exact.epoch.tasks).bytes, 6 * 1e6 * matrix_s, 1);
  const StagePlan few = plan_on(topology, 32, {32, 4, 8});
  EXPECT_EQ(few.layers.front().bits, 4);
  EXPECT_LT(few.cost().seconds, exact.cost().seconds / 4);
}

TEST_F(StagePlanTest, TheModelMustAllowThem) {
  model_.norm = Norm::kBatch;
  const Error error = thrown_error([&] { plan_on(fast_network(4), 8); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("--norm layer or none"));
  model_.norm = Norm::kLayer;
  EXPECT_THAT(thrown_error([&] { plan_on(fast_network(9), 8); }).what(),
              HasSubstr("9 ranks, and the model has 8 layers"));
}

TEST_F(StagePlanTest, AreForCpusAndForFewEnoughMatrices) {
  Topology topology = fast_network(4);
  topology.devices[1].kind = "cuda";
  EXPECT_THAT(thrown_error([&] { plan_on(topology, 8); }).what(),
              HasSubstr("rank 1 of the topology has kind cuda"));
  model_.jump = Jump::kConcatenate;
  model_.layers = 16;
  EXPECT_THAT(
      thrown_error([&] { plan_on(fast_network(2), 64); }).what(),
      HasSubstr(
          "--chunks 64: 5 matrices of values go from one stage to another; allowed are 1 to 51"));
}

TEST_F(StagePlanTest, RanksNeedMemoryForAllNodes) {
  Topology topology = fast_network(4);
  EXPECT_EQ(plan_on(topology, 8).missing_bytes, 0);
  topology.devices[2].memory_bytes = 4.0 * kNodes * kHidden;  // a single matrix
  EXPECT_GT(plan_on(topology, 8).missing_bytes, 0);
}

// A graph in four parts of which each sends so many rows to each other one.
class StageChoiceTest : public StagePlanTest {
 protected:
  BestPlan best(const Topology& topology, std::int64_t rows, bool is_fixed = false) {
    CutCandidate cut{.name = "cut", .options = {}, .quality = {}};
    for (int p = 0; p < 4; ++p) {
      cut.quality.parts.push_back({.nodes = kNodes / 4,
                                   .central = kNodes / 8,
                                   .edges = kEdges / 4,
                                   .marginal_edges = kEdges / 8});
      for (int from = 0; from < 4; ++from) {
        cut.quality.forward_rows.push_back(from == p ? 0 : rows);
      }
    }
    cut.quality.backward_rows = cut.quality.forward_rows;
    std::vector<GroupPlans> plans;
    plans.emplace_back(topology, model_, 1, GroupPlans::Setting{{cut}, {32}, corrections_, 32, {}});
    plans.front().search({.search = "none"});
    StageChoice stages{.found = plan_on(topology, 32),
                       .refused = "",
                       .partition = {},
                       .chunks = 32,
                       .stale_from = 6,
                       .widths = 1,
                       .is_fixed = is_fixed};
    return best_plan(plans, topology, {.search = "none"}, {}, stages);
  }
};

TEST_F(StageChoiceTest, StagesAreChosenWhereTheCutIsBad) {
  Topology topology = small_topology(4, 1, 1e6);
  for (Device& device : topology.devices) device.memory_bytes = 1e12;
  const BestPlan bad = best(topology, kNodes / 4);
  ASSERT_TRUE(bad.plan.stages.has_value());
  EXPECT_THAT(bad.plan.stages->first_layer, ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(bad.plan.stages->chunks, 32);
  EXPECT_EQ(bad.plan.stages->stale_from, 6);
  EXPECT_EQ(bad.plan.group_ranks, 4);
  EXPECT_LT(1.1 * bad.plan.predicted_ms, bad.plan.default_ms);
  const Json& stages = bad.plan.search.at("groups").back();
  EXPECT_EQ(stages.at("ms"), bad.plan.predicted_ms);
  const std::string text = to_text(bad.plan);
  EXPECT_THAT(text, HasSubstr("stage 1            layers 2 to 3"));
  EXPECT_THAT(text, HasSubstr("in stages"));
  EXPECT_THAT(text, HasSubstr("chosen"));
}

TEST_F(StageChoiceTest, StagesAreNotChosenWhereTheyGainLittle) {
  Topology topology = small_topology(4, 1, 1e6);
  for (Device& device : topology.devices) device.memory_bytes = 1e12;
  const BestPlan good = best(topology, 10);
  EXPECT_FALSE(good.plan.stages.has_value());
  EXPECT_THAT(to_text(good.plan), HasSubstr("in stages"));
  // Unless nothing else was asked for.
  EXPECT_TRUE(best(topology, 10, /*is_fixed=*/true).plan.stages.has_value());
}

TEST_F(StageChoiceTest, PlansKeepStages) {
  Topology topology = small_topology(4, 1, 1e6);
  for (Device& device : topology.devices) device.memory_bytes = 1e12;
  Plan plan = best(topology, kNodes / 4).plan;
  const TempDir dir;
  const auto file = dir.path() / "plan.json";
  write_plan(plan, file);
  EXPECT_EQ(read_plan(file).stages, plan.stages);
  const auto error_of = [&](const PlannedStages& stages) {
    plan.stages = stages;
    write_plan(plan, file);
    const Error error = thrown_error([&] { read_plan(file); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  EXPECT_THAT(error_of({{0, 2, 4}, 32, 6}), HasSubstr("'first_layers' is [0, 2, 4]"));
  EXPECT_THAT(error_of({{0, 2, 2, 6}, 32, 6}), HasSubstr("one for each of 4 ranks"));
  EXPECT_THAT(error_of({{1, 2, 4, 6}, 32, 6}), HasSubstr("ascending numbers of 8 layers from 0"));
  EXPECT_THAT(error_of({{0, 2, 4, 8}, 32, 6}), HasSubstr("'first_layers'"));
  EXPECT_THAT(error_of({{}, 32, 6}), HasSubstr("'first_layers' is []"));
  EXPECT_THAT(error_of({{0, 2, 4, 6}, 65, 6}), HasSubstr("'chunks' is 65; allowed are 1 to 64"));
  EXPECT_THAT(error_of({{0, 2, 4, 6}, 32, 1}), HasSubstr("'stale_from' is 1; allowed are epochs"));
  plan.group_ranks = 2;
  EXPECT_THAT(error_of({{0, 2, 4, 6}, 32, 6}), HasSubstr("beside 'group_ranks' 2"));
}

}  // namespace
}  // namespace atl
