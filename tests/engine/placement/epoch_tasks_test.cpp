#include "engine/placement/epoch_tasks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.hpp"
#include "datasets/partition_folder.hpp"
#include "engine/placement/memory_model.hpp"
#include "engine/placement/simulator.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_device.hpp"

namespace atl {
namespace {

using Span = std::tuple<std::string, std::string, int>;  // name, direction, layer

// Two parts: 10 nodes (4 central) with 50 edges (20 marginal), 6 nodes (1 central) with 30 (25).
PartitionQuality two_parts() {
  PartitionQuality quality;
  quality.parts = {{.nodes = 10, .central = 4, .edges = 50, .marginal_edges = 20},
                   {.nodes = 6, .central = 1, .edges = 30, .marginal_edges = 25}};
  quality.forward_rows = {0, 3, 5, 0};  // part 0 receives 3 rows, part 1 receives 5
  quality.backward_rows = {0, 3, 5, 0};
  return quality;
}

ModelConfig one_layer(const std::string& kind) {
  ModelConfig model;
  model.kind = kind;
  model.layers = 1;
  model.features = 8;
  model.outputs = 4;
  model.norm = Norm::kNone;
  return model;
}

std::vector<std::pair<Span, double>> computing_of(const TaskGraph& graph, int rank) {
  std::vector<std::pair<Span, double>> tasks;
  for (const SimTask& task : graph.tasks()) {
    if (task.kind != TaskKind::kCompute || task.rank != rank) continue;
    if (task.name == std::string("rest")) continue;  // has no span
    tasks.push_back({{task.name, task.direction, task.layer}, task.seconds * 1e9});
  }
  return tasks;
}

// All rates are 1e9 per s, so that nanoseconds are bytes or operations.
TEST(EpochTasks, CountTheWorkOfALayer) {
  const Topology topology = small_topology(2, 1, 1e6);
  const ModelConfig model = one_layer("gcn");
  const PartitionQuality parts = two_parts();
  const EpochSetting setting{topology, model, parts, {}};
  const LayerPlan multiply_first{{MultiplyOrder::kMultiplyFirst, false}, 32};
  const TaskGraph graph = epoch_tasks(setting, std::span(&multiply_first, 1), TaskDetail::kPhases);
  const auto tasks = computing_of(graph, 0);
  const std::vector<std::pair<Span, double>> expected = {
      {{"prepare marginal", "forward", 0}, 2 * 6 * 8 * 4},
      {{"pack", "forward", 0}, 4 * 2 * 5 * 4},
      {{"post", "forward", 0}, 20000},
      {{"prepare central", "forward", 0}, 2 * 4 * 8 * 4},
      {{"spmm central", "forward", 0}, 4 * (30 + 4 + 4) * 4},
      {{"complete central", "forward", 0}, 0},
      {{"spmm marginal", "forward", 0}, 4 * (20 + 6 + 6) * 4},
      {{"complete marginal", "forward", 0}, 0},
      {{"loss", "", -1}, 4 * 2 * 10 * 4},
      // Without ReLU only the bias's gradient is summed, when messages are on their way; then
      // x^T (S^T dz).
      {{"prepare marginal", "backward", 0}, 0},
      {{"pack", "backward", 0}, 4 * 2 * 5 * 4},
      {{"post", "backward", 0}, 20000},
      {{"prepare central", "backward", 0}, 4 * 10 * 4},
      {{"spmm central", "backward", 0}, 4 * (30 + 4 + 4) * 4},
      {{"complete central", "backward", 0}, 2 * 4 * 8 * 4},
      {{"spmm marginal", "backward", 0}, 4 * (20 + 6 + 6) * 4},
      {{"complete marginal", "backward", 0}, 2 * 6 * 8 * 4},
      {{"step", "", -1}, 4 * 7 * (32 + 16)}};
  ASSERT_EQ(tasks.size(), expected.size());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    EXPECT_EQ(tasks[t].first, expected[t].first) << t;
    EXPECT_NEAR(tasks[t].second, expected[t].second, 1e-6) << std::get<0>(expected[t].first);
  }
  std::vector<double> bytes;
  for (const SimTask& task : graph.tasks()) {
    if (task.kind == TaskKind::kTransfer) bytes.push_back(task.bytes);
  }
  // Four columns and as many of padding.
  EXPECT_THAT(bytes, ::testing::ElementsAre(5 * 32, 3 * 32, 5 * 32, 3 * 32));
}

TEST(EpochTasks, PacketsOfAPairQueueBehindOneAnother) {
  const Topology topology = small_topology(2, 1, 1e6);
  ModelConfig model = one_layer("gcn");
  model.layers = 3;
  model.hidden = 8;
  const PartitionQuality parts = two_parts();
  const EpochSetting setting{topology, model, parts, {}};
  const TaskGraph graph = epoch_tasks(setting, layers_without_plan(model), TaskDetail::kPhases);
  std::map<std::pair<int, int>, std::vector<TaskId>> packets;
  for (TaskId id = 0; id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind == TaskKind::kTransfer) packets[{task.rank, task.destination}].push_back(id);
  }
  ASSERT_EQ(packets.size(), 2U);
  for (const auto& [pair, ids] : packets) {
    ASSERT_GT(ids.size(), 2U);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto waits_for = graph.dependencies(ids[i]);
      EXPECT_EQ(graph.task(ids[i]).queues, i > 0);
      EXPECT_EQ(waits_for.size(), i > 0 ? 2U : 1U);
      if (i > 0) {
        EXPECT_EQ(waits_for.back(), ids[i - 1]);
      }
    }
  }
}

TEST(EpochTasks, FewBitsMakeMessagesShorterAndUnpackThem) {
  const Topology topology = small_topology(2, 1, 1e6);
  ModelConfig model = one_layer("sage");
  model.outputs = 256;
  const PartitionQuality parts = two_parts();
  const EpochSetting setting{topology, model, parts, {}};
  const auto first_packet = [&](double bits) {
    const LayerPlan layer{{MultiplyOrder::kMultiplyFirst, false}, bits};
    const TaskGraph graph = epoch_tasks(setting, std::span(&layer, 1), TaskDetail::kPhases);
    bool unpacks = false;
    double bytes = 0;
    for (const SimTask& task : graph.tasks()) {
      unpacks = unpacks || task.name == std::string("unpack");
      if (task.kind == TaskKind::kTransfer && bytes == 0) bytes = task.bytes;
    }
    EXPECT_EQ(unpacks, bits < 32);
    return bytes;
  };
  EXPECT_EQ(first_packet(32), 5 * 1024);
  EXPECT_EQ(first_packet(4), 5 * 132);
  EXPECT_EQ(first_packet(3), 5 * 100);  // between 68 and 132
  EXPECT_EQ(first_packet(1), 5 * 36);
}

// The tasks of a rank are the spans of its trace, in their order, for every kind of layer.
struct Variant {
  const char* name;
  std::string model;
  Norm norm;
  double input_dropout;
  OrderChoice order;
  bool overlap;
  bool recompute = false;
  Arrival arrival = Arrival::kOff;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

class EpochTasksOfVariants : public ::testing::TestWithParam<Variant> {};

TEST_P(EpochTasksOfVariants, AreTheSpansOfARealEpoch) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  TrainOptions options = small_options();
  options.model.kind = GetParam().model;
  options.model.norm = GetParam().norm;
  options.model.input_dropout = GetParam().input_dropout;
  options.model.order = GetParam().order;
  options.overlap = GetParam().overlap;
  options.arrival = GetParam().arrival;
  constexpr int kRanks = 3;
  if (GetParam().recompute) {
    options.model.recomputation = Recomputation(kRanks);
    options.model.recomputation.set(0, 2);
    options.model.recomputation.set(1, 2);
    options.model.recomputation.set(1, 0);
  }
  std::vector<std::vector<Span>> spans(kRanks);
  std::vector<std::int64_t> needed(kRanks);
  std::int64_t bytes = 0;
  ModelConfig model;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(kRanks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    job.trainer().run_epoch(1);
    job.trainer().run_epoch(2);  // kept aggregates are there
    std::vector<TraceSpan> recorded = job.trainer().trace().spans();
    std::stable_sort(recorded.begin(), recorded.end(), [](const TraceSpan& a, const TraceSpan& b) {
      return a.start_us < b.start_us;
    });
    for (const TraceSpan& span : recorded) {
      const std::string name = span.name;
      if (!phase_named(name) || name == "all-reduce" || span.lane != kHostLane) continue;
      spans[static_cast<std::size_t>(transport.rank())].push_back(
          {name, span.direction, span.tag.layer});
    }
    needed[static_cast<std::size_t>(transport.rank())] = job.trainer().bytes_needed();
    std::int64_t sent = job.trainer().network().halo_bytes_per_epoch();
    transport.all_reduce(std::span(&sent, 1), {"formula"});
    if (transport.rank() == 0) {
      bytes = sent;
      model = job.trainer().model();
    }
  });
  const Dataset opened = Dataset::open(dataset);
  const auto folder = partition_folder(opened, kRanks, partition);
  const PartitionQuality parts =
      parse_quality(read_json(folder / "quality.json"), folder / "quality.json");
  const Topology topology = small_topology(1, kRanks, 1e9);
  const EpochSetting setting{.topology = topology,
                             .model = model,
                             .partition = parts,
                             .corrections = {},
                             .overlap = options.overlap,
                             .arrival = options.arrival};
  std::vector<LayerPlan> layers = layers_without_plan(model);
  if (GetParam().recompute) {
    layers[1].recomputation = std::make_shared<const Recomputation>(options.model.recomputation);
  }
  const TaskGraph graph = epoch_tasks(setting, layers, TaskDetail::kPhases);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<Span> predicted;
    for (const auto& [span, seconds] : computing_of(graph, rank)) predicted.push_back(span);
    EXPECT_EQ(predicted, spans[static_cast<std::size_t>(rank)]) << "rank " << rank;
    EXPECT_EQ(training_bytes(setting, layers)[static_cast<std::size_t>(rank)],
              static_cast<double>(needed[static_cast<std::size_t>(rank)]));
  }
  double transferred = 0;
  for (const SimTask& task : graph.tasks()) transferred += task.bytes;
  EXPECT_EQ(transferred, static_cast<double>(bytes));
  // Merged tasks take as long.
  const TaskGraph merged = epoch_tasks(setting, layers, TaskDetail::kMerged);
  EXPECT_LT(merged.size(), graph.size());
  Simulator simulator(topology);
  const double seconds = simulator.run(graph).makespan_s;
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(simulator.run(merged).makespan_s, seconds, 1e-9 * seconds);
  EXPECT_GE(seconds, lower_bound_seconds(topology, graph));
}

struct StoredModel {
  const char* name;
  std::string backend;
  std::string model;
  DType dtype;
};
std::ostream& operator<<(std::ostream& out, const StoredModel& stored) {
  return out << stored.name;
}

class MemoryOfModels : public ::testing::TestWithParam<StoredModel> {
 protected:
  void SetUp() override { require_backend(GetParam().backend); }
};

// Widths are no multiple of eight: 13 and 4 columns.
TEST_P(MemoryOfModels, IsWhatARankNeeds) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  TrainOptions options = small_options();
  options.backend = GetParam().backend;
  options.model.kind = GetParam().model;
  options.model.dtype = GetParam().dtype;
  options.model.hidden = 13;
  constexpr int kRanks = 2;
  PartitionOptions partition;
  partition.method = "random";
  std::vector<std::int64_t> needed(kRanks);
  ModelConfig model;
  run_local_ranks(kRanks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    needed[static_cast<std::size_t>(transport.rank())] = job.trainer().bytes_needed();
    if (transport.rank() == 0) model = job.trainer().model();
  });
  const auto folder = partition_folder(Dataset::open(dataset), kRanks, partition);
  const PartitionQuality parts =
      parse_quality(read_json(folder / "quality.json"), folder / "quality.json");
  Topology topology = small_topology(1, kRanks, 1e9);
  for (Device& device : topology.devices) device.kind = GetParam().backend;
  const EpochSetting setting{topology, model, parts, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(training_bytes(setting, layers_without_plan(model))[static_cast<std::size_t>(rank)],
              static_cast<double>(needed[static_cast<std::size_t>(rank)]));
  }
}

INSTANTIATE_TEST_SUITE_P(MemoryModel, MemoryOfModels,
                         ::testing::Values(StoredModel{"F32", "cpu", "gcn", DType::kF32},
                                           StoredModel{"Bf16", "cpu", "sage", DType::kBf16},
                                           StoredModel{"F32OnCuda", "cuda", "sage", DType::kF32},
                                           StoredModel{"Bf16OnCuda", "cuda", "gcn", DType::kBf16},
                                           StoredModel{"SageInBf16OnCuda", "cuda", "sage",
                                                       DType::kBf16}),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    EpochTasks, EpochTasksOfVariants,
    ::testing::Values(
        Variant{"Gcn", "gcn", Norm::kBatch, 0, OrderChoice::kAuto, true},
        Variant{"Sage", "sage", Norm::kLayer, 0, OrderChoice::kAuto, true},
        Variant{"InputDropout", "gcn", Norm::kNone, 0.5, OrderChoice::kAuto, true},
        Variant{"MultiplyFirst", "sage", Norm::kBatch, 0, OrderChoice::kMultiplyFirst, true},
        Variant{"AggregateFirst", "sage", Norm::kNone, 0.2, OrderChoice::kAggregateFirst, true},
        Variant{"WithoutOverlap", "gcn", Norm::kBatch, 0, OrderChoice::kAuto, false},
        Variant{"Recompute", "gcn", Norm::kBatch, 0, OrderChoice::kAuto, true, true},
        Variant{"RecomputeAggregateFirst", "sage", Norm::kLayer, 0, OrderChoice::kAggregateFirst,
                true, true},
        Variant{"ByArrival", "gcn", Norm::kBatch, 0, OrderChoice::kAuto, true, false, Arrival::kOn},
        Variant{"HopsByArrival", "appnp", Norm::kNone, 0, OrderChoice::kAuto, true, false,
                Arrival::kOn},
        Variant{"ByArrivalWithoutOverlap", "sage", Norm::kLayer, 0, OrderChoice::kAuto, false,
                false, Arrival::kOn}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace atl
