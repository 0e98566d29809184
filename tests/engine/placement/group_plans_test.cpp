// Tests of plans whose parts have several ranks: simulated epochs have the spans, bytes and memory
// of real ones; the number of ranks is chosen by what an epoch takes.
#include "engine/placement/group_plans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "datasets/partition_folder.hpp"
#include "engine/placement/graph_shape.hpp"
#include "engine/placement/training_programs.hpp"
#include "engine/program/operations/rules.hpp"
#include "tests/engine/placement/made_parts.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kGroupedRanks = 4;

struct GroupedCase {
  std::string model;
  int ranks_per_part;
  Norm norm = Norm::kBatch;
  int bits = 32;
};
std::ostream& operator<<(std::ostream& out, const GroupedCase& c) {
  return out << c.model << " on " << c.ranks_per_part << " ranks each at " << c.bits << " bits";
}

using GroupedSpan = std::tuple<std::string, std::string, int>;  // name, direction, layer

// The second epoch of a real run.
struct GroupedEpoch {
  std::vector<std::vector<GroupedSpan>> spans{kGroupedRanks};  // by rank
  double message_bytes = 0;
  double group_bytes = 0;
  std::vector<double> needed = std::vector<double>(kGroupedRanks);  // by rank: bytes of memory
  ModelConfig model;                                                // of rank 0
  PartitionQuality parts;
};

TrainOptions options_of_case(const GroupedCase& c) {
  TrainOptions options = small_options();
  options.model.kind = c.model;
  options.model.hidden = 64;
  options.model.heads = 4;
  options.model.output_heads = 4;
  options.model.norm = c.norm;
  options.model.order = OrderChoice::kAggregateFirst;  // wide columns, which all ranks have alike
  options.group_ranks.number = c.ranks_per_part;
  if (c.bits < 32) {
    options.exchange = kModeOfBits;
    options.message_bits.bits.widths = {c.bits};
  }
  return options;
}

GroupedEpoch train_one(const GroupedCase& c) {
  const TempDir dir;
  GenerateOptions graph;
  graph.out = dir.path() / "data";
  graph.nodes = 600;
  graph.degree = 10;
  graph.classes = 32;
  graph.features = 32;
  graph.seed = 3;
  generate_dataset("sbm", graph);
  PartitionOptions partition;
  partition.method = "random";
  GroupedEpoch result;
  std::mutex mutex;
  run_local_ranks(kGroupedRanks, 30, [&](Transport& transport) {
    RankJob job(transport, graph.out, partition, options_of_case(c));
    Trainer& trainer = job.trainer();
    trainer.run_epoch(1);
    const std::size_t before = trainer.trace().spans().size();
    trainer.run_epoch(2);
    const std::lock_guard lock(mutex);
    const auto rank = static_cast<std::size_t>(transport.rank());
    result.needed[rank] = static_cast<double>(trainer.bytes_needed());
    result.message_bytes += static_cast<double>(trainer.network().halo_bytes_per_epoch());
    result.group_bytes += static_cast<double>(trainer.network().group_bytes_per_epoch());
    const auto& spans = trainer.trace().spans();
    std::vector<TraceSpan> recorded(
        spans.begin() + static_cast<std::ptrdiff_t>(before < spans.size() ? before : 0),
        spans.end());
    std::ranges::stable_sort(recorded, {}, &TraceSpan::start_us);
    for (const TraceSpan& span : recorded) {
      const std::string name = span.name;
      if (!phase_named(name) || name == "all-reduce" || span.lane != kHostLane) continue;
      const bool in_layer = span.tag.layer >= 0;
      result.spans[rank].emplace_back(name, in_layer ? span.direction : "", span.tag.layer);
    }
    if (rank == 0) result.model = trainer.model();
  });
  const int parts = kGroupedRanks / c.ranks_per_part;
  const Dataset dataset = Dataset::open(graph.out);
  if (parts == 1) {
    const DatasetInfo& info = dataset.info();
    GraphShape shape;
    shape.nodes = info.nodes;
    shape.edges = info.edges;
    result.parts = shape.uncut();
  } else {
    const auto folder = partition_folder(dataset, parts, partition);
    result.parts = parse_quality(read_json(folder / "quality.json"), folder / "quality.json");
  }
  return result;
}

// How many spans each block of conversions has in a real epoch, by its place and in order.
using ConversionSpans = std::map<GroupedSpan, std::deque<int>>;

ConversionSpans conversion_spans(const ModelConfig& model) {
  const TrainingPrograms programs(model);
  ConversionSpans result;
  for (const Block& block : programs.training_schedule.blocks) {
    int spans = 0;
    for (const Call& call : block.calls) {
      const Operation& op = programs.training.at(call.value);
      if (op.rule->reach != Reach::kGroup) continue;
      // Central and marginal rows are converted one after the other. A conversion to columns copies
      // before it waits, and one to rows behind that, too.
      spans += (call.rows == Rows::kAll ? 2 : 1) * (op.is(rules::kToRows) ? 2 : 1);
    }
    if (spans == 0) continue;
    const Scope& scope = programs.training.scopes[static_cast<std::size_t>(block.scope)];
    const char* const direction = has_directions(scope) ? to_string(scope.direction) : "";
    result[{block.name, direction, scope.layer}].push_back(spans);
  }
  return result;
}

class GroupTasks : public ::testing::TestWithParam<GroupedCase> {};

TEST_P(GroupTasks, AreThoseOfRealEpochs) {
  const GroupedCase& c = GetParam();
  const GroupedEpoch real = train_one(c);
  ASSERT_EQ(real.model.column_share.ranks, c.ranks_per_part);
  const Topology topology = small_topology(1, kGroupedRanks, 1e9);
  const PhaseCorrections none;
  const EpochSetting setting{topology, real.model, real.parts, none};
  std::vector<LayerPlan> layers = layers_without_plan(real.model);
  for (LayerPlan& layer : layers) layer.bits = c.bits;
  const TaskGraph graph = epoch_tasks(setting, layers, TaskDetail::kPhases);
  std::vector<std::vector<GroupedSpan>> predicted(kGroupedRanks);
  std::vector<ConversionSpans> conversions(kGroupedRanks, conversion_spans(real.model));
  for (TaskId id = 0; id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind != TaskKind::kCompute || task.name == std::string("rest")) continue;
    GroupedSpan span{task.name, task.direction, task.layer};
    std::vector<GroupedSpan>& spans = predicted[static_cast<std::size_t>(task.rank)];
    const bool converts = std::string_view(task.name).starts_with("to ");
    // A block of conversions copies, and then waits once for each.
    if (converts && task.seconds == 0 && !graph.dependencies(id).empty()) {
      EXPECT_EQ(spans.back(), span);
      continue;
    }
    int count = 1;
    if (converts) {
      std::deque<int>& left = conversions[static_cast<std::size_t>(task.rank)][span];
      ASSERT_FALSE(left.empty()) << ::testing::PrintToString(span);
      count = left.front();
      left.pop_front();
    }
    spans.insert(spans.end(), static_cast<std::size_t>(count), span);
  }
  for (const ConversionSpans& of_rank : conversions) {
    for (const auto& [place, left] : of_rank) {
      EXPECT_TRUE(left.empty()) << ::testing::PrintToString(place);
    }
  }
  for (std::size_t rank = 0; rank < kGroupedRanks; ++rank) {
    EXPECT_EQ(predicted[rank].size(), real.spans[rank].size()) << rank;
    const auto [found, expected] = std::ranges::mismatch(predicted[rank], real.spans[rank]);
    if (found == predicted[rank].end() || expected == real.spans[rank].end()) continue;
    ADD_FAILURE() << "rank " << rank << ", span " << expected - real.spans[rank].begin() << ": "
                  << ::testing::PrintToString(*found) << " instead of "
                  << ::testing::PrintToString(*expected);
  }
  const PacketSums sums = packet_sums(graph);
  EXPECT_NEAR(sums.group_bytes, real.group_bytes, 1e-9 * real.group_bytes);
  EXPECT_GT(sums.group_bytes, 0);
  if (c.bits < 32) {
    EXPECT_LT(sums.bytes, 0.4 * real.message_bytes);  // that formula is of exact messages
  } else {
    EXPECT_NEAR(sums.bytes, real.message_bytes, 1e-9 * real.message_bytes);
    EXPECT_EQ(sums.bytes > 0, c.ranks_per_part < kGroupedRanks);
    EXPECT_EQ(training_bytes(setting, layers), real.needed);
  }
}

INSTANTIATE_TEST_SUITE_P(Placement, GroupTasks,
                         ::testing::Values(GroupedCase{"gcn", 2}, GroupedCase{"gcn", 4},
                                           GroupedCase{"sage", 2, Norm::kLayer},
                                           GroupedCase{"gatv2", 2}, GroupedCase{"appnp", 2},
                                           GroupedCase{"appnp", 4}, GroupedCase{"gin", 2},
                                           GroupedCase{"gcnii", 2},
                                           GroupedCase{"gcn", 2, Norm::kBatch, 4}),
                         [](const auto& test) {
                           return fmt::format("{}{}{}", test.param.model, test.param.ranks_per_part,
                                              test.param.bits < 32 ? "Narrow" : "");
                         });

TEST(GroupSizes, AreThoseOfPlacesThatAreAlike) {
  EXPECT_THAT(group_sizes(small_topology(2, 4, 1e6)), ElementsAre(1, 4, 8));
  EXPECT_THAT(group_sizes(small_topology(3, 1, 1e6)), ElementsAre(1, 3));
  EXPECT_THAT(group_sizes(small_topology(1, 1, 1e6)), ElementsAre(1));
  Topology islands = small_topology(2, 4, 1e6);
  for (int rank = 0; rank < 8; ++rank) {
    islands.devices[static_cast<std::size_t>(rank)].island = rank / 2;
  }
  EXPECT_THAT(group_sizes(islands), ElementsAre(1, 2, 4, 8));
  Topology mixed = small_topology(2, 2, 1e6);
  std::swap(mixed.devices[1], mixed.devices[2]);  // hosts 0, 1, 0, 1
  EXPECT_THAT(group_sizes(mixed), ElementsAre(1, 4));
}

TEST(GroupTopology, IsAsFastAsItsRanksTogether) {
  Topology topology = small_topology(2, 2, 1e6, 1e-3);
  topology.devices[1].spmm_bytes_per_s = {{64, 3e9}};
  const Topology groups = group_topology(topology, 2);
  ASSERT_EQ(groups.ranks(), 2);
  EXPECT_EQ(groups.device(0).spmm_bytes_per_s.front().per_s, 4e9);
  EXPECT_EQ(groups.device(1).spmm_bytes_per_s.front().per_s, 2e9);
  EXPECT_EQ(groups.device(0).gemm_flop_per_s.front().per_s, 2e9);
  EXPECT_EQ(groups.device(0).memory_bytes, 2e9);
  EXPECT_EQ(groups.device(1).host, 1);
  EXPECT_EQ(groups.link(0, 1), topology.link(0, 2));
  EXPECT_EQ(to_json(group_topology(topology, 1)), to_json(topology));
}

// A graph in two parts that has as many nodes and edges as make_parts(4).
PartitionQuality two_of_four() {
  PartitionQuality quality = make_parts(2);
  for (PartQuality& part : quality.parts) {
    part.nodes *= 2;
    part.central *= 2;
    part.edges *= 2;
    part.marginal_edges *= 2;
  }
  for (auto* rows : {&quality.forward_rows, &quality.backward_rows}) {
    for (std::int64_t& count : *rows) count *= 2;
  }
  return quality;
}

// Parts of which each has rows of every other one, on machines with hosts of two ranks.
class BestGroups : public ::testing::Test {
 protected:
  BestGroups() {
    model_.features = 64;
    model_.hidden = 256;
    model_.outputs = 16;
    model_.norm = Norm::kBatch;
  }

  std::vector<GroupPlans> plans_on(const Topology& topology) {
    std::vector<GroupPlans> plans;
    for (const int size : {1, 2}) {
      plans.emplace_back(
          topology, model_, size,
          GroupPlans::Setting{
              {{"made", {}, size == 1 ? make_parts(4) : two_of_four()}}, {32}, {}, 32, {}});
      plans.back().search({});
    }
    return plans;
  }

  ModelConfig model_;
};

TEST_F(BestGroups, ShareAPartWhereTheNetworkBetweenHostsIsSlow) {
  const Topology topology = small_topology(2, 2, 2e5);
  std::vector<GroupPlans> plans = plans_on(topology);
  const BestPlan best = best_plan(plans, topology, {}, {{4, "no \"slices\""}});
  const Plan& plan = best.plan;
  EXPECT_EQ(best.place, 1);
  EXPECT_EQ(plan.group_ranks, 2);
  EXPECT_EQ(plan.ranks, 4);
  EXPECT_LT(plan.predicted_ms, 1000 * plans.front().found().cost.seconds);
  EXPECT_EQ(plan.default_ms, 1000 * plans.front().found().start.seconds);
  const Json& groups = plan.search.at("groups");
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[1].at("group_ranks"), 2);
  EXPECT_EQ(groups[1].at("ms"), plan.predicted_ms);
  EXPECT_LT(groups[1].at("bytes_between_hosts"), groups[0].at("bytes_between_hosts"));
  EXPECT_GT(groups[1].at("bytes_within_hosts"), groups[0].at("bytes_within_hosts"));
  const std::string text = to_text(plan);
  EXPECT_THAT(text, HasSubstr("inside groups of 2 ranks that hold a part together"));
  EXPECT_THAT(text, HasSubstr("chosen"));
  EXPECT_THAT(text, HasSubstr("no \"slices\""));
}

TEST_F(BestGroups, StayAloneWhereIsNoSlowNetwork) {
  Topology topology = small_topology(2, 2, 1e12);
  for (Link& link : topology.links) link.bytes_per_s = 1e12;
  for (Device& device : topology.devices) device.elementwise_bytes_per_s = 1e8;  // copies cost
  std::vector<GroupPlans> plans = plans_on(topology);
  const BestPlan best = best_plan(plans, topology, {});
  EXPECT_EQ(best.place, 0);
  EXPECT_EQ(best.plan.group_ranks, 1);
}

TEST_F(BestGroups, SayThatTrainingWithoutThePlanLacksMemory) {
  const Topology topology = small_topology(2, 2, 2e5);
  std::vector<GroupPlans> plans = plans_on(topology);
  Plan plan = best_plan(plans, topology, {}).plan;
  const std::string fits = fmt::format("{:.1f} ms without the plan ({:.2f}x)", plan.default_ms,
                                       plan.default_ms / plan.predicted_ms);
  EXPECT_THAT(to_text(plan), HasSubstr(fits));
  set_default(plan, {.seconds = 2, .missing_bytes = 5});
  EXPECT_EQ(plan.search.at("default_missing_bytes"), 5);
  EXPECT_THAT(to_text(plan), HasSubstr("2000.0 ms without the plan (which lacks memory)"));
  set_default(plan, {.seconds = 2});
  EXPECT_EQ(plan.search.count("default_missing_bytes"), 0);
}

TEST_F(BestGroups, AreReadAsTheyWereWritten) {
  const TempDir dir;
  const Topology topology = small_topology(2, 2, 1e7);
  std::vector<GroupPlans> plans = plans_on(topology);
  Plan plan = best_plan(plans, topology, {}).plan;
  plan.model = {{"layers", 3}};
  const auto path = dir.path() / "plan.json";
  write_plan(plan, path);
  EXPECT_EQ(to_json(read_plan(path)), to_json(plan));
  Json changed = to_json(plan);
  changed["group_ranks"] = 3;
  write_atomically(path, changed.dump());
  EXPECT_THAT(thrown_error([&] { read_plan(path); }).what(),
              HasSubstr("field 'group_ranks' is 3; allowed are divisors of the 4 ranks"));
}

// The rank that has more heads decides.
TEST_F(BestGroups, KnowThatHeadsAreNotDividedEvenly) {
  const Topology topology = small_topology(1, 4, 1e9);
  const auto seconds = [&](int heads) {
    ModelConfig attention = model_;
    attention.kind = "gat";
    attention.hidden = 240;
    attention.heads = attention.output_heads = heads;
    GroupPlans plans(topology, attention, 2, {{{"made", {}, make_parts(2)}}, {32}, {}, 32, {}});
    plans.search({});
    return plans.found().cost.seconds;
  };
  EXPECT_GT(seconds(3), seconds(4));
}

// A rank without a head converts nothing, and the last layer has one head.
TEST_F(BestGroups, KnowRanksWithoutHeads) {
  const Topology topology = small_topology(1, 4, 1e9);
  for (const char* kind : {"gat", "gatv2", "dot", "bilinear"}) {
    for (const int size : {2, 4}) {
      ModelConfig attention = model_;
      attention.kind = kind;
      attention.heads = 3;
      attention.hidden = 24;
      attention.edge_scores = kind[0] == 'g';
      attention.edge_features = attention.edge_scores ? 5 : 0;
      GroupPlans plans(topology, attention, size,
                       {{{"made", {}, make_parts(4 / size)}}, {32}, {}, 32, {}});
      plans.search({});
      EXPECT_GT(plans.found().cost.seconds, 0) << kind << size;
    }
  }
}

}  // namespace
}  // namespace atl
