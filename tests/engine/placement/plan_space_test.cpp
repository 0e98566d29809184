#include "engine/placement/plan_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "engine/placement/critical_path.hpp"
#include "engine/placement/plan_search.hpp"
#include "tests/engine/placement/made_parts.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Ge;

ModelConfig three_layers() {
  ModelConfig model;
  model.features = 100;
  model.hidden = 16;
  model.outputs = 4;
  model.norm = Norm::kBatch;
  model.relations = 2;
  model.edge_features = 2;
  return model;
}

// A ring of `nodes` nodes with some chords, both directions of every edge.
Csr ring_with_chords(int nodes) {
  std::vector<std::vector<std::int32_t>> neighbours(static_cast<std::size_t>(nodes));
  const auto join = [&](int a, int b) {
    neighbours[static_cast<std::size_t>(a)].push_back(b);
    neighbours[static_cast<std::size_t>(b)].push_back(a);
  };
  for (int i = 0; i < nodes; ++i) join(i, (i + 1) % nodes);
  for (int i = 0; i + 5 < nodes; i += 7) join(i, i + 5);
  Csr csr;
  csr.row_ptr = {0};
  for (auto& row : neighbours) {
    std::sort(row.begin(), row.end());
    csr.col_idx.insert(csr.col_idx.end(), row.begin(), row.end());
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

class PlanSpaceTest : public ::testing::Test {
 protected:
  std::vector<CutCandidate> cuts() {
    return cut_candidates({csr_.view(), true}, {}, PartitionOptions(), topology_, model_);
  }
  Csr csr_ = ring_with_chords(2000);
  Topology topology_ = small_topology(2, 2, 1e6);
  ModelConfig model_ = three_layers();
};

TEST_F(PlanSpaceTest, SlowRanksGetSmallParts) {
  for (auto* rates :
       {&topology_.devices[3].spmm_bytes_per_s, &topology_.devices[3].gemm_flop_per_s}) {
    (*rates)[0].per_s /= 2;
  }
  topology_.devices[3].elementwise_bytes_per_s /= 2;
  const std::vector<CutCandidate> found = cuts();
  ASSERT_EQ(found[1].name, "shares by speed");
  const auto& parts = found[1].quality.parts;
  // 2 : 2 : 2 : 1 of 2,000 nodes.
  EXPECT_NEAR(static_cast<double>(parts[3].nodes), 2000.0 / 7, 30);
  EXPECT_NEAR(static_cast<double>(parts[0].nodes), 4000.0 / 7, 40);
  const std::vector<LayerPlan> layers = layers_without_plan(model_);
  const PhaseCorrections none;
  const auto slowest = [&](const CutCandidate& cut) {
    return std::ranges::max(computing_seconds(
        epoch_tasks({topology_, model_, cut.quality, none}, layers, TaskDetail::kMerged)));
  };
  EXPECT_LT(slowest(found[1]), 0.7 * slowest(found[0]));
}

// Training cuts again by the options, also those of parts that were only put in another order.
TEST_F(PlanSpaceTest, CandidatesAreWhatTheirOptionsCut) {
  for (const bool alike : {true, false}) {
    if (!alike) topology_.devices[1].elementwise_bytes_per_s /= 3;
    std::vector<std::string> names;
    const std::vector<CutCandidate> found = cuts();
    const GraphView graph{csr_.view(), true};
    for (const CutCandidate& cut : found) {
      names.push_back(cut.name);
      const auto part_of = partition_graph(graph, 4, cut.options, {});
      const LocalGraphBuilder builder(graph, part_of, 4);
      EXPECT_EQ(
          measure_quality(builder, {}, normalised_shares(cut.options.weights, 4)).forward_rows,
          cut.quality.forward_rows)
          << cut.name;
    }
    EXPECT_EQ(std::ranges::count(names, "shares by speed"), alike ? 0 : 1);
    EXPECT_EQ(std::ranges::count(names, "islands first, shares by speed"), alike ? 0 : 1);
    EXPECT_EQ(std::ranges::count(names, "best order of parts"), 1);
  }
}

// All that one step of an epoch sees, counted block by block.
TEST_F(PlanSpaceTest, ABlockHasTheMeanOfAllBlocks) {
  constexpr int kBlocks = 5;
  GraphBlocks blocks{.count = kBlocks};
  for (int i = 0; i < 2000; ++i) blocks.of_node.push_back(i / 40 % kBlocks);
  const GraphView graph{csr_.view(), true};
  const PhaseCorrections none;
  const std::vector<CutCandidate> found =
      cut_candidates(graph, {}, PartitionOptions(), topology_, model_, none, blocks);
  for (const CutCandidate& cut : found) {
    ASSERT_TRUE(cut.block.has_value());
    const auto part_of = partition_graph(graph, 4, cut.options, {});
    std::map<std::pair<int, int>, std::set<std::int32_t>> read;  // nodes by (reader, owner)
    std::vector<std::int64_t> nodes(4), edges(4);
    for (int i = 0; i < 2000; ++i) {
      const auto row = static_cast<std::size_t>(i);
      ++nodes[static_cast<std::size_t>(part_of[row])];
      for (const std::int32_t source : csr_.view().row(i)) {
        const auto column = static_cast<std::size_t>(source);
        if (blocks.of_node[row] != blocks.of_node[column]) continue;
        ++edges[static_cast<std::size_t>(part_of[row])];
        if (part_of[row] != part_of[column]) read[{part_of[row], part_of[column]}].insert(source);
      }
    }
    // Divided by five and rounded.
    const auto expect_mean = [](std::int64_t mean, std::int64_t all) {
      EXPECT_LE(std::abs(kBlocks * mean - all), kBlocks / 2);
    };
    for (int to = 0; to < 4; ++to) {
      const PartQuality& part = cut.block->parts[static_cast<std::size_t>(to)];
      expect_mean(part.nodes, nodes[static_cast<std::size_t>(to)]);
      expect_mean(part.edges, edges[static_cast<std::size_t>(to)]);
      EXPECT_GT(part.edges, 0);
      for (int from = 0; from < 4; ++from) {
        expect_mean(cut.block->forward_rows[static_cast<std::size_t>(4 * to + from)],
                    std::ssize(read[{to, from}]));
      }
    }
  }
}

TEST_F(PlanSpaceTest, AnEpochOnBlocksIsSoManySteps) {
  model_.hidden = 256;  // what layers compute is most of the memory
  constexpr int kBlocks = 4;
  GraphBlocks blocks{.count = kBlocks};
  for (int i = 0; i < 2000; ++i) blocks.of_node.push_back(i / 40 % kBlocks);
  const GraphView graph{csr_.view(), true};
  const PhaseCorrections none;
  PartitionOptions cut;
  cut.method = "random";  // many edges between parts
  const std::vector<CutCandidate> of_blocks =
      cut_candidates(graph, {}, cut, topology_, model_, none, blocks);
  PlanSpace space(topology_, model_, of_blocks, {32}, {}, 32, {.steps = kBlocks});
  PlanSpace step(topology_, model_, of_blocks, {32});
  const std::vector<int> start = space.start();
  EXPECT_DOUBLE_EQ(space.evaluate(start).seconds, kBlocks * step.evaluate(start).seconds);
  // No block has equal shares of all parts, and all ranks wait for the largest one.
  EXPECT_GT(of_blocks.front().unevenness, 1);
  EXPECT_LT(of_blocks.front().unevenness, 1.5);
  // No step can keep rows that are computed for others: cut, algebra of three layers, gradients.
  EXPECT_EQ(space.decisions(), 1 + 3 + 1);
  // The aggregate of the features travels in each step: messages of three layers forward, two
  // backward.
  std::set<std::pair<int, std::string>> sent;
  for (const auto& [kind, graph_of_step, times] : space.simulated(start)) {
    for (TaskId id = 0; id < graph_of_step.size(); ++id) {
      const SimTask& task = graph_of_step.task(id);
      if (task.kind == TaskKind::kTransfer) sent.emplace(task.layer, task.direction);
    }
  }
  EXPECT_EQ(sent.size(), 3U + 2U);
  // Evaluations take the memory of the whole graph, as does the shard.
  const std::vector<CutCandidate> of_graph = cuts();
  PlanSpace whole(topology_, model_, of_graph, {32});
  const std::vector<double> bytes = space.memory_bytes(start);
  const std::vector<double> all = whole.memory_bytes(whole.start());
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_GT(bytes[r], all[r] / 4);
    EXPECT_LT(bytes[r], all[r]);
  }
}

TEST_F(PlanSpaceTest, DecidesCutAlgebraAndBits) {
  topology_ = small_topology(2, 2, 1e3);
  const std::vector<CutCandidate> candidates = cuts();
  PlanSpace space(topology_, model_, candidates, {32, 8, 4});
  ASSERT_EQ(space.decisions(), 1 + 3 + 3 + 1 + 1);
  EXPECT_EQ(space.options(7), 3);  // halo rows: fetched, recomputed where it pays, recomputed
  EXPECT_EQ(space.options(0), static_cast<int>(candidates.size()));
  EXPECT_EQ(space.options(1), 3);  // constant input: its aggregate may be kept
  EXPECT_EQ(space.options(2), 2);
  EXPECT_EQ(space.options(4), 3);
  EXPECT_EQ(space.decision_name(0), "cut");
  EXPECT_EQ(space.decision_name(2), "layer 1 algebra");
  EXPECT_EQ(space.decision_name(6), "layer 2 bits");
  EXPECT_EQ(space.option_name(4, 0), "32 bits");
  EXPECT_EQ(space.option_name(4, 2), "4 bits");
  EXPECT_EQ(space.model_of(3), 2);
  EXPECT_EQ(space.model_of(5), 4);
  EXPECT_EQ(space.model_of(4), -1);
  // The start is what training does without a plan.
  const std::vector<LayerPlan> start = space.layers(space.start());
  const std::vector<LayerPlan> expected = layers_without_plan(model_);
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(start[l].algebra, expected[l].algebra);
    EXPECT_EQ(start[l].bits, 32);
  }
  // On slow links fewer bits are faster.
  std::vector<int> few = space.start();
  for (std::size_t d = 4; d < 7; ++d) few[d] = 2;
  EXPECT_LT(space.evaluate(few).seconds, space.evaluate(space.start()).seconds);
}

TEST_F(PlanSpaceTest, StartsFromWhatTrainingIsAskedFor) {
  topology_ = small_topology(2, 2, 1e3);
  const std::vector<CutCandidate> candidates = cuts();
  ModelConfig recomputing = model_;
  recomputing.recomputation = Recomputation::of_all_pairs(4);
  PlanSpace space(topology_, recomputing, candidates, {32, 8, 4}, {}, 4);
  const std::vector<LayerPlan> start = space.layers(space.start());
  for (const LayerPlan& layer : start) EXPECT_EQ(layer.bits, 4);
  ASSERT_NE(start[1].recomputation, nullptr);
  EXPECT_EQ(*start[1].recomputation, Recomputation::of_all_pairs(4));
  // As the same choice in a space that starts elsewhere.
  PlanSpace usual(topology_, model_, candidates, {32, 8, 4});
  EXPECT_EQ(space.evaluate(space.start()).seconds, usual.evaluate(space.start()).seconds);
  EXPECT_NE(space.start(), usual.start());
}

// Results remembered of other choices change no bit.
TEST(PlanSpaceEvaluations, AreThoseOfAFreshSpace) {
  for (const Norm norm : {Norm::kBatch, Norm::kLayer, Norm::kNone}) {
    for (const double input_dropout : {0.0, 0.5}) {
      const int ranks = input_dropout > 0 ? 40 : 6;  // approximate, exact
      Topology topology = small_topology(ranks / 2, 2, 2e8, 1e-5);
      topology.devices[1].progress_s_per_byte = 1e-9;
      ModelConfig model = three_layers();
      model.norm = norm;
      model.input_dropout = input_dropout;
      const std::vector<CutCandidate> cuts = {{"even", {}, make_parts(ranks, 0)},
                                              {"uneven", {}, make_parts(ranks)}};
      PhaseCorrections corrections(ranks, model.layers);
      corrections.set(1, {Phase::kSpmmCentral, 1, true}, 3);
      PlanSpace space(topology, model, cuts, {32, 8, 4}, corrections);
      std::vector<int> choice = space.start();
      std::mt19937 random(3);
      for (int step = 0; step < (ranks > 32 ? 10 : 40); ++step) {
        const auto decision = static_cast<int>(random() % choice.size());
        choice[static_cast<std::size_t>(decision)] =
            static_cast<int>(random() % static_cast<unsigned>(space.options(decision)));
        PlanSpace fresh(topology, model, cuts, {32, 8, 4}, corrections);
        const PlanCost cost = space.evaluate(choice);
        EXPECT_EQ(cost.seconds, fresh.evaluate(choice).seconds) << step;
        EXPECT_EQ(cost.missing_bytes, fresh.evaluate(choice).missing_bytes) << step;
        // Stages add up to the whole epoch.
        const TaskGraph whole = space.tasks(choice, TaskDetail::kPhases);
        EXPECT_NEAR(cost.seconds, Simulator(topology).run(whole).makespan_s,
                    (ranks > kMostExactRanks ? 0.01 : 1e-9) * cost.seconds)
            << step;
      }
    }
  }
}

// By stage: the layers whose orders change what it costs.
std::vector<std::vector<int>> stages_of(const EpochSetting& setting) {
  const std::vector<LayerPlan> plain = layers_without_plan(setting.model);
  ProgramsByOrder programs(setting.model, setting.topology.ranks());
  EpochCosts costs(setting.topology, programs, setting.corrections);
  const auto read = [&](const std::vector<LayerPlan>& layers) {
    std::vector<std::vector<int>> stages;
    for_each_stage(costs, costs.pieces(setting, 0, layers, 0), [&](std::span<const int> stage) {
      stages.emplace_back(stage.begin(), stage.end());
    });
    return stages;
  };
  const std::vector<std::vector<int>> before = read(plain);
  std::vector<std::vector<int>> layers(before.size());
  for (int l = 0; l < setting.model.layers; ++l) {
    std::vector<LayerPlan> changed = plain;
    LayerPlan& layer = changed[static_cast<std::size_t>(l)];
    layer.algebra.order = layer.algebra.order == MultiplyOrder::kMultiplyFirst
                              ? MultiplyOrder::kAggregateFirst
                              : MultiplyOrder::kMultiplyFirst;
    layer.algebra.cache_aggregate = false;
    const std::vector<std::vector<int>> after = read(changed);
    EXPECT_EQ(after.size(), before.size());
    for (std::size_t s = 0; s < before.size(); ++s) {
      if (after[s] != before[s]) layers[s].push_back(l);
    }
    EXPECT_EQ(read(plain), before);  // known costs keep their numbers
  }
  return layers;
}

TEST(PlanSpaceEvaluations, StagesEndWithSumsOverAllRanks) {
  const Topology topology = small_topology(2, 1, 1e6);
  const PartitionQuality parts = make_parts(2);
  ModelConfig model = three_layers();
  const auto stages = [&] { return stages_of({topology, model, parts, {}}); };
  // Statistics of layers 0 and 1 forward, then backward, then gradients; the last steps depend on
  // no layer.
  EXPECT_THAT(stages(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(1),
                                    ElementsAre(0), ElementsAre()));
  model.norm = Norm::kNone;
  EXPECT_THAT(stages(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre()));
}

// So that ProgramsByOrder serves: a scope is read from a program in which all layers have its own
// layer's order.
TEST(PlanSpaceEvaluations, ScopesDependOnTheOrderOfTheirOwnLayer) {
  const std::vector<LayerAlgebra> orders = {{MultiplyOrder::kMultiplyFirst, false},
                                            {MultiplyOrder::kAggregateFirst, false},
                                            {MultiplyOrder::kAggregateFirst, true}};
  const Topology topology = small_topology(3, 1, 1e6);
  const PartitionQuality parts = make_parts(3);
  for (const std::string& kind : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const double input_dropout : {0.0, 0.5}) {
        ModelConfig model = three_layers();
        model.kind = kind;
        model.norm = norm;
        model.input_dropout = input_dropout;
        if (layer_count(model) != 3) continue;
        for (int choice = 0; choice < 54; ++choice) {
          std::vector<LayerPlan> layers;
          for (const int option : {choice / 2 / 9, choice / 2 / 3 % 3, choice / 2 % 3}) {
            layers.push_back({orders[static_cast<std::size_t>(option)]});
          }
          if (choice % 2 == 1) {
            if (!layers[0].algebra.cache_aggregate ||
                !can_recompute(planned_model(model, layers))) {
              continue;
            }
            layers[1].recomputation =
                std::make_shared<const Recomputation>(Recomputation::of_all_pairs(3));
          }
          const TrainingPrograms whole(planned_model(model, layers));
          ProgramsByOrder programs(model, 3);
          const EpochSetting setting{topology, model, parts, {}};
          EpochCosts costs(topology, programs, setting.corrections);
          std::vector<std::pair<std::string, double>> expected;
          for (const Block& block : whole.training_schedule.blocks) {
            if (block.name == nullptr) continue;
            double seconds = 0;
            const RankShape shape =
                rank_counts(parts, 0, /*covers=*/true, layers[1].recomputation.get()).shape;
            const auto rank = counted_views(whole.training, shape, DType::kF32);
            for (const Call& call : block.calls) {
              seconds += call_seconds(topology.devices[0], *rank, call);
            }
            expected.emplace_back(block.name, seconds);
          }
          expected.emplace_back("rest", 0);
          std::vector<std::pair<std::string, double>> read;
          for (const int piece : costs.pieces(setting, 0, layers, 0)) {
            for (const BlockCost& block : costs.piece(piece).blocks) {
              read.emplace_back(to_string(block.place.phase), block.seconds[0]);
            }
          }
          ASSERT_FALSE(read.empty());
          read.back().second = 0;
          ASSERT_EQ(read, expected) << kind << ", choice " << choice;
        }
      }
    }
  }
}

// The accuracy lost by joined packets and a tolerance, on machines too large for each to be exact
// in a search. Uneven parts and ranks, cards and links, so that nothing ends together by chance.
TEST(PlanSpaceEvaluations, AreCloseToExactOnLargeMachines) {
  for (const int hosts : {5, 8}) {
    for (const double card : {2e7, 2e8, 2e9}) {
      Topology topology = small_topology(hosts, 8, card, 1e-5);
      for (int h = 0; h < hosts; ++h) {
        topology.hosts[static_cast<std::size_t>(h)].send_bytes_per_s *= 1 + 0.1 * (h % 3);
      }
      for (int r = 0; r < topology.ranks(); ++r) {
        topology.devices[static_cast<std::size_t>(r)].spmm_bytes_per_s[0].per_s *=
            1 + 0.07 * (r % 5);
      }
      const std::vector<CutCandidate> cuts = {{"uneven", {}, make_parts(topology.ranks())}};
      for (const Norm norm : {Norm::kBatch, Norm::kNone}) {
        ModelConfig model = three_layers();
        model.norm = norm;
        PlanSpace space(topology, model, cuts, {32});
        const double seconds = space.evaluate(space.start()).seconds;
        const TaskGraph exact = space.tasks(space.start(), TaskDetail::kPhases);
        const double expected = Simulator(topology).run(exact).makespan_s;
        EXPECT_NEAR(seconds, expected, 0.005 * expected) << hosts << " hosts, cards of " << card;
        RecordProperty(fmt::format("error_{}_{}_{}", hosts, card, static_cast<int>(norm)),
                       fmt::format("{:.5f}", seconds / expected - 1));
        EXPECT_LT(space.tasks(space.start(), TaskDetail::kMerged).size(), exact.size() / 3);
      }
    }
  }
}

TEST_F(PlanSpaceTest, TheBestPlanIsWhatAllChoicesSay) {
  topology_.devices[1].spmm_bytes_per_s[0].per_s /= 3;
  const std::vector<CutCandidate> candidates = cuts();
  PlanSpace space(topology_, model_, candidates, {32});
  PlanRequest request;
  request.options.evaluations = 2000;
  const SearchResult found = find_plan(space, request);
  require_memory(found.cost);
  EXPECT_TRUE(found.complete);
  const Plan plan = make_plan(space, topology_, request, found);
  EXPECT_LT(plan.predicted_ms, plan.default_ms);
  EXPECT_THAT(plan.predicted_ms, Ge(plan.lower_bound_ms));
  EXPECT_EQ(plan.layers.size(), 3U);
  for (const LayerPlan& layer : plan.layers) EXPECT_EQ(layer.bits, 32);
  // Every decision that differs from the default says what it saves.
  double saved = 0;
  for (const Json& decision : plan.search.at("decisions")) {
    if (decision.contains("saves_ms")) saved += decision.at("saves_ms").get<double>();
  }
  EXPECT_GT(saved, 0);
  // The critical path leaves no gap.
  double path = 0;
  for (const Json& share : plan.search.at("critical_path")) path += share.at("ms").get<double>();
  EXPECT_THAT(path, DoubleNear(plan.predicted_ms, 1e-6 * plan.predicted_ms));
}

TEST_F(PlanSpaceTest, StartsWithTheSumsOfTrainingWithoutAPlan) {
  const std::vector<CutCandidate> candidates = cuts();
  const auto start_of = [&](SumChoice sums) {
    PlannedMessages messages;
    messages.sums = sums;
    const PlanSpace space(topology_, model_, candidates, {32}, {}, 32, messages);
    const int decision = space.decisions() - 1;
    EXPECT_EQ(space.decision_name(decision), "sum of gradients");
    std::set<std::string> all;
    for (int option = 0; option < space.options(decision); ++option) {
      all.insert(space.option_name(decision, option));
    }
    EXPECT_EQ(static_cast<int>(all.size()), space.options(decision));
    EXPECT_TRUE(all.contains("all-reduce") && all.contains("hierarchical, groups of 2"));
    return space.option_name(decision, space.start().back());
  };
  EXPECT_EQ(start_of(SumChoice::kAuto), "hierarchical, groups of 2");
  EXPECT_EQ(start_of(SumChoice::kRanks), "all-reduce");
}

// [100, 16], [16, 16] and [16, 4] weights against 500 rows per rank: far more to send.
TEST_F(PlanSpaceTest, ProvesThatGradientsAreSummed) {
  for (const auto& [kind, weights] : {std::pair("gcn", 3), {"sage", 6}}) {
    model_.kind = kind;
    const std::vector<CutCandidate> candidates = cuts();
    const PlanSpace space(topology_, model_, candidates, {32});
    const FactorPlan plan = space.gradient_sync(space.start());
    ASSERT_EQ(plan.weights.size(), static_cast<std::size_t>(weights));
    EXPECT_THAT(plan.summary, ::testing::HasSubstr(fmt::format("for 0 of {} weights", weights)));
    EXPECT_THAT(plan.weights[0].sentence, ::testing::HasSubstr("all-reduce sends"));
  }
}

TEST_F(PlanSpaceTest, PlansThatDoNotFitAreRefusedWithWhatIsMissing) {
  for (Device& device : topology_.devices) device.memory_bytes = 1000;
  const std::vector<CutCandidate> candidates = cuts();
  PlanSpace space(topology_, model_, candidates, {32});
  EXPECT_GT(space.evaluate(space.start()).missing_bytes, 0);
  try {
    require_memory(find_plan(space, {}).cost);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("MB"));
    EXPECT_EQ(error.exit_code(), 2);
  }
}

TEST(CriticalPath, FollowsWhatWasWaitedFor) {
  const Topology topology = small_topology(2, 1, 100);
  TaskGraph graph(2);
  const TaskId a = graph.add({.kind = TaskKind::kCompute, .name = "pack", .rank = 0, .seconds = 1});
  const TaskId b = graph.add(
      {.kind = TaskKind::kTransfer, .name = "packet", .rank = 0, .destination = 1, .bytes = 300},
      std::span(&a, 1));
  graph.add({.kind = TaskKind::kCompute, .name = "spmm central", .rank = 1, .seconds = 2});
  const TaskId c =
      graph.add({.kind = TaskKind::kCompute, .name = "spmm marginal", .rank = 1, .seconds = 4},
                std::span(&b, 1));
  Simulator simulator(topology);
  const TaskTimes& times = simulator.run(graph);
  EXPECT_THAT(critical_path(graph, times), ElementsAre(a, b, c));
  const SimulatedEpoch epoch{{}, graph, times};
  const std::vector<PathShare> shares = path_shares({&epoch, 1});
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].what, "rank 1 spmm marginal");
  EXPECT_EQ(shares[0].seconds, 4);
  EXPECT_EQ(shares[1].what, "packets 0 -> 1");
  EXPECT_EQ(shares[1].seconds, 3);
  const Json trace = Json::parse(chrome_trace(graph, times));
  EXPECT_EQ(trace.at("traceEvents").size(), 2U + 4U);
}

}  // namespace
}  // namespace atl
