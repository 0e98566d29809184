// Several ranks for one part on devices: the numbers of the oracle, and the bits of the other ways
// in which rows become columns and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/require_nccl.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr int kGroupRanks = 4;  // of all runs here

class DeviceGroups : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }

  static TrainOptions on_devices(int ranks_per_part) {
    TrainOptions options = small_options();
    options.backend = "cuda";
    options.spmm = SpmmWish::kOwn;
    options.group_ranks.number = ranks_per_part;
    return options;
  }
  std::filesystem::path make_graph() const {
    return make_sbm(dir_, /*directed=*/true, /*nodes=*/120);
  }
  // The first epoch, the second and the last.
  static void expect_near_losses(const RunResult& found, const RunResult& expected,
                                 const std::string& what) {
    const auto near = [&](std::size_t epoch, double bound) {
      const double loss = expected.losses[epoch - 1];
      EXPECT_NEAR(found.losses[epoch - 1], loss, bound * loss) << what << ", epoch " << epoch;
    };
    near(1, kSameParameters);
    near(2, kAfterFewSteps);
    near(expected.losses.size(), kAfter20Epochs);
  }

  TempDir dir_;
};

class DeviceGroupNumbers : public DeviceGroups,
                           public ::testing::WithParamInterface<std::string> {};

// Rows of a type or of a head are not aligned as whole rows are.
TEST_P(DeviceGroupNumbers, AreThoseOfTheReference) {
  const std::string& model = GetParam();
  std::filesystem::path dataset = make_graph();
  if (model == "rgcn") {
    GenerateOptions options;
    options.out = dataset = dir_.path() / "relational";
    options.nodes = 120;
    options.classes = options.relations = 3;
    options.features = 11;
    options.seed = 3;
    generate_dataset("relational", options);
  }
  for (const int ranks : {2, 4}) {
    TrainOptions device = on_devices(ranks);
    device.model.kind = model;
    device.model.hidden = model == "rgcn" ? 13 : 20;
    device.model.dropout = 0.2;
    device.model.hops = 3;
    device.model.heads = device.model.output_heads = 4;
    // A group of four has a rank without a head, and one of two shares three.
    if (model == "gatv2") {
      device.model.hidden = 21;
      device.model.heads = 3;
      device.model.output_heads = 1;
    }
    if (model == "gat") device.model.attention_dropout = 0.2;
    if (model == "gatv2") device.model.attention_norm = AttentionNorm::kSymmetric;
    if (model == "sage") device.model.aggregator = Aggregator::kMax;
    TrainOptions reference = device;
    reference.backend = "reference";
    reference.group_ranks = {};
    const RunResult expected = run_epochs(dataset, 1, reference, 1, 20);
    // By what there is, and through the hosts.
    device.messages = ranks == 2 ? "auto" : "staging";
    const RunResult found = run_epochs(dataset, kGroupRanks, device, 1, 20);
    expect_near_losses(found, expected, fmt::format("groups of {}", ranks));
    TrainOptions host = device;
    host.backend = "cpu";
    EXPECT_EQ(found.bytes, run_epochs(dataset, kGroupRanks, host, 1, 20).bytes) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceGroupNumbers,
                         ::testing::Values("gcn", "sage", "appnp", "gat", "gatv2", "rgcn"));

TEST_F(DeviceGroups, RepeatBitForBitAndOverlapChangesNothing) {
  const std::filesystem::path dataset = make_graph();
  for (const char* messages : {"auto", "staging"}) {
    TrainOptions options = on_devices(2);
    options.messages = messages;
    const RunResult first = run_epochs(dataset, kGroupRanks, options, 1, 5);
    expect_same_run(run_epochs(dataset, kGroupRanks, options, 1, 5), first);
    options.overlap = false;
    expect_same_run(run_epochs(dataset, kGroupRanks, options, 1, 5), first);
  }
}

TEST_F(DeviceGroups, GoOnFromTheirStateBitForBit) {
  const std::filesystem::path dataset = make_graph();
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TrainOptions options = on_devices(2);
    options.model.dtype = dtype;
    const RunResult whole = run_epochs(dataset, kGroupRanks, options, 1, 6);
    const RunResult half = run_epochs(dataset, kGroupRanks, options, 1, 3);
    const RunResult rest = run_epochs(dataset, kGroupRanks, options, 4, 6, half.state);
    EXPECT_TRUE(same_tensors(whole.state, rest.state));
    EXPECT_EQ(whole.losses[5], rest.losses[2]);
  }
}

TEST_F(DeviceGroups, TakeNarrowStorageAndNarrowMessages) {
  const std::filesystem::path dataset = make_graph();
  TrainOptions reference = on_devices(1);
  reference.backend = "reference";
  const RunResult exact = run_epochs(dataset, 1, reference, 1, 5);
  reference.model.dtype = DType::kBf16;
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 5);
  TrainOptions options = on_devices(2);
  options.model.dtype = DType::kBf16;
  const RunResult found = run_epochs(dataset, kGroupRanks, options, 1, 5);
  EXPECT_NEAR(found.losses[0], expected.losses[0], kSameParametersBf16 * expected.losses[0]);
  EXPECT_NEAR(found.losses[4], expected.losses[4], kAfterFewStepsBf16 * expected.losses[4]);
  options.model.dtype = DType::kF32;
  options.exchange = "compensated";
  options.message_bits.bits = parse_bits("8");
  const RunResult narrow = run_epochs(dataset, kGroupRanks, options, 1, 5);
  EXPECT_NEAR(narrow.losses[4], exact.losses[4], 0.02 * exact.losses[4]);
  options.backend = "cpu";
  EXPECT_EQ(narrow.bytes, run_epochs(dataset, kGroupRanks, options, 1, 5).bytes);
}

TEST_F(DeviceGroups, MixWithRanksOnTheCpu) {
  const std::filesystem::path dataset = make_graph();
  TrainOptions reference = on_devices(1);
  reference.backend = "reference";
  const RunResult expected = run_epochs(dataset, 1, reference, 1, 20);
  TrainOptions options = on_devices(2);
  options.backend = "cuda,cpu,cuda,cpu";
  expect_near_losses(run_epochs(dataset, kGroupRanks, options, 1, 20), expected, "mixed");
}

// Conversions are queued like all else, so that epochs are recorded with them.
TEST_F(DeviceGroups, NcclGivesTheBitsOfStagingAndIsReplayed) {
  require_nccl_devices(kGroupRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_graph();
  for (const int ranks : {2, 4}) {
    TrainOptions options = on_devices(ranks);
    options.model.kind = "appnp";
    options.model.hops = 2;
    options.model.norm = Norm::kNone;
    options.messages = "staging";
    const RunResult staged = run_epochs(dataset, kGroupRanks, options, 1, 6);
    EXPECT_FALSE(staged.replayed);
    options.messages = "nccl";
    options.cuda_graph = GraphReplay::kOff;
    const RunResult direct = run_epochs(dataset, kGroupRanks, options, 1, 6);
    EXPECT_FALSE(direct.replayed);
    expect_same_run(direct, staged);
    EXPECT_EQ(direct.bytes, staged.bytes);
    for (const GraphReplay replay : {GraphReplay::kAuto, GraphReplay::kOn}) {
      options.cuda_graph = replay;
      const RunResult replayed = run_epochs(dataset, kGroupRanks, options, 1, 6);
      EXPECT_TRUE(replayed.replayed);
      expect_same_run(replayed, staged);
      EXPECT_EQ(replayed.bytes, staged.bytes);
    }
  }
}

// Widths change from one assignment to the next, of each slice by itself. Of eight columns one
// slice has none, and nothing to assign.
TEST_F(DeviceGroups, RecordAndForgetTogetherWhenSlicesChooseWidths) {
  require_nccl_devices(kGroupRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_graph();
  TrainOptions options = on_devices(2);
  options.messages = "nccl";
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits("adaptive");
  options.message_bits.reassign_every = 5;
  options.calibration = dir_.path() / "calibration.json";
  write_json(options.calibration, slow_calibration(3));
  for (const std::int64_t hidden : {8, 32}) {
    options.model.hidden = hidden;
    options.cuda_graph = GraphReplay::kOff;
    const RunResult queued = run_epochs(dataset, kGroupRanks, options, 1, 12);
    options.cuda_graph = GraphReplay::kAuto;
    const RunResult replayed = run_epochs(dataset, kGroupRanks, options, 1, 12);
    expect_same_run(replayed, queued);
    EXPECT_EQ(replayed.bytes, queued.bytes) << hidden;
    EXPECT_EQ(std::ranges::count(replayed.of_recording, true) > 0, hidden == 32);
  }
}

TEST_F(DeviceGroups, AreNotRecordedThroughTheHosts) {
  const std::filesystem::path dataset = make_graph();
  TrainOptions options = on_devices(2);
  options.messages = "staging";
  options.cuda_graph = GraphReplay::kOn;
  const Error error = thrown_error([&] { run_epochs(dataset, kGroupRanks, options, 1, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("--cuda-graph on: rank 0 computes on cuda"));
}

}  // namespace
}  // namespace atl
