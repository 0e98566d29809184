// Training with quantized messages: how far it is from exact messages, what it sends, and what
// stays exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/require_nccl.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

TrainOptions quantized_options(const std::string& bits) {
  TrainOptions options = small_options();
  options.exchange = "quantized";
  options.message_bits.bits = parse_bits(bits);
  return options;
}

// The mean loss of the last epochs, which averages their noise.
double late_loss(const RunResult& run) {
  double sum = 0;
  for (std::size_t i = run.losses.size() - 5; i < run.losses.size(); ++i) sum += run.losses[i];
  return sum / 5;
}

class QuantizedTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedTraining, ConvergesAsExactMessagesDo) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  options.model.kind = GetParam();
  options.optimizer.epochs = 40;
  const RunResult exact = run_epochs(dataset, 3, options, 1, 40);
  ASSERT_LT(late_loss(exact), 0.6 * exact.losses.front());
  const auto distance = [&](const std::string& bits) {
    TrainOptions quantized = quantized_options(bits);
    quantized.model.kind = GetParam();
    quantized.optimizer.epochs = 40;
    const RunResult run = run_epochs(dataset, 3, quantized, 1, 40);
    EXPECT_NE(run.losses.back(), exact.losses.back()) << bits << " bits: exact after all?";
    EXPECT_NEAR(run.metrics.test, exact.metrics.test, 0.05) << bits;
    return std::abs(late_loss(run) / late_loss(exact) - 1);
  };
  // About three times what was seen.
  EXPECT_LT(distance("16"), 0.0002);
  EXPECT_LT(distance("8"), 0.0015);
  EXPECT_LT(distance("4"), 0.015);
  EXPECT_LT(distance("random"), 0.08);
  EXPECT_GT(distance("1"), 0.1) << "messages hardly matter here, and the bounds say nothing";
}

INSTANTIATE_TEST_SUITE_P(Models, QuantizedTraining, ::testing::Values("gcn", "sage"));

TEST(QuantizedTraining, At32BitsIsExactTraining) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    TrainOptions options = small_options();
    options.model.dtype = dtype;
    options.model.order = OrderChoice::kAggregateFirst;  // 16 columns: exact rows carry no padding
    const RunResult exact = run_epochs(dataset, 3, options, 1, 5);
    options.exchange = "quantized";
    options.message_bits.bits = parse_bits("32");
    const RunResult run = run_epochs(dataset, 3, options, 1, 5);
    EXPECT_EQ(run.losses, exact.losses);
    EXPECT_TRUE(same_tensors(run.state, exact.state));
    // The first epoch also reports its widths.
    EXPECT_EQ(run.bytes[2], exact.bytes[2]);
    EXPECT_EQ(run.assignments[0].at("mean_bits").get<double>(), 32);
  }
}

TEST(QuantizedTraining, RepeatsBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const std::string bits : {"2", "random"}) {
    TrainOptions options = quantized_options(bits);
    options.message_bits.reassign_every = 2;
    const RunResult first = run_epochs(dataset, 3, options, 1, 6);
    const RunResult second = run_epochs(dataset, 3, options, 1, 6);
    EXPECT_EQ(first.losses, second.losses) << bits;
    EXPECT_TRUE(same_tensors(first.state, second.state)) << bits;
    options.overlap = false;
    const RunResult waiting = run_epochs(dataset, 3, options, 1, 6);
    EXPECT_EQ(first.losses, waiting.losses) << bits;
    EXPECT_TRUE(same_tensors(first.state, waiting.state)) << bits;
    // The seed draws other noise; with the same weights at the start it would show at once.
    options.seed = 2;
    EXPECT_NE(run_epochs(dataset, 3, options, 1, 2).losses[1], first.losses[1]);
  }
}

// Epochs without news: the collectives of exact training, and messages as the report says.
TEST(QuantizedTraining, SendsTheBytesOfTheFormula) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const RunResult exact = run_epochs(dataset, 3, small_options(), 1, 3);
  const std::int64_t collectives = exact.bytes[2] - exact.formula_bytes;
  ASSERT_GT(collectives, 0);
  for (const std::string bits : {"1", "2", "4", "8", "16", "32", "random"}) {
    const RunResult run = run_epochs(dataset, 3, quantized_options(bits), 1, 3);
    ASSERT_FALSE(run.assignments[0].is_null());
    EXPECT_TRUE(run.assignments[2].is_null());
    std::int64_t messages = 0;
    for (const Json& channel : run.assignments[0].at("channels")) {
      std::int64_t formula = 0;
      for (const auto& [width, count] : channel.at("bits").items()) {
        formula += count.get<std::int64_t>() *
                   wire_row_bytes(std::stoi(width), channel.at("columns"), DType::kF32);
      }
      EXPECT_EQ(channel.at("bytes"), formula);
      messages += formula;
    }
    EXPECT_EQ(run.bytes[2], collectives + messages) << bits;
    EXPECT_EQ(run.formula_bytes, exact.formula_bytes);
  }
}

// The logits of an evaluation, of all nodes of rank 0.
std::vector<float> evaluated_logits(RankJob& job) {
  Trainer& trainer = job.trainer();
  trainer.evaluate(9);
  return download_f32(job.backend(), job.queue(), trainer.queue_evaluation(9));
}

TEST(QuantizedTraining, EvaluatesWithExactMessages) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const TrainOptions options = quantized_options("1");
  const TrainOptions exact = small_options();
  run_local_ranks(2, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob quantized_job(transport, dataset, partition, options);
    quantized_job.trainer().run_epoch(1);
    RankJob exact_job(transport, dataset, partition, exact);
    exact_job.trainer().run_epoch(1);  // other weights, and a kept aggregate
    // The weights of rank 0: the same on all.
    exact_job.trainer().load_state(quantized_job.trainer().state(true), true, "other job");
    EXPECT_EQ(evaluated_logits(quantized_job), evaluated_logits(exact_job));
    const Metrics found = quantized_job.trainer().evaluate(2);
    const Metrics expected = exact_job.trainer().evaluate(2);
    EXPECT_EQ(found.train, expected.train);
    EXPECT_EQ(found.test, expected.test);
  });
}

TEST(QuantizedTraining, EvaluationLeavesNoTrace) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = quantized_options("random");
  options.message_bits.reassign_every = 2;
  const RunResult without = run_epochs(dataset, 2, options, 1, 5);
  SafetensorsFile with;
  run_local_ranks(2, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob job(transport, dataset, partition, options);
    for (int epoch = 1; epoch <= 5; ++epoch) {
      job.trainer().evaluate(epoch);
      job.trainer().run_epoch(epoch);
    }
    if (transport.rank() == 0) with = job.trainer().state(true);
  });
  EXPECT_TRUE(same_tensors(without.state, with));
}

// Alone a rank sends nothing, whatever it was told.
TEST(QuantizedTraining, OnOneRankIsExactTraining) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const RunResult exact = run_epochs(dataset, 1, small_options(), 1, 8);
  for (const std::string bits : {"1", "random", "adaptive"}) {
    TrainOptions options = quantized_options(bits);
    options.message_bits.reassign_every = 2;
    const RunResult run = run_epochs(dataset, 1, options, 1, 8);
    EXPECT_EQ(run.losses, exact.losses) << bits;
    EXPECT_TRUE(same_tensors(run.state, exact.state)) << bits;
    for (const Json& assignment : run.assignments) EXPECT_TRUE(assignment.is_null()) << bits;
  }
}

// Weights that ran away show in the first messages made of them.
TEST(QuantizedTraining, NamesTheMessageThatCantBeSent) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = quantized_options("8");
  options.model.norm = Norm::kNone;
  options.optimizer.learning_rate = 1e30;
  const Error error = thrown_error([&] { run_epochs(dataset, 3, options, 1, 6); });
  EXPECT_EQ(error.kind(), ErrorKind::kDiverged);
  EXPECT_THAT(error.what(), HasSubstr("layer "));
  EXPECT_THAT(error.what(), HasSubstr("messages: the row of node "));
  EXPECT_THAT(error.what(), HasSubstr(" on rank "));
  EXPECT_THAT(error.what(), HasSubstr("--lr"));
}

class DeviceQuantizedTraining : public ::testing::Test {
 protected:
  void SetUp() override { require_backend("cuda"); }
  TempDir dir_;
};

TEST_F(DeviceQuantizedTraining, FollowsTheReference) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  for (const std::string bits : {"4", "random"}) {
    TrainOptions options = quantized_options(bits);
    options.backend = "reference";
    const RunResult expected = run_epochs(dataset, 2, options, 1, 4);
    options.backend = bits == "random" ? "cuda,cpu" : "cuda";
    const RunResult found = run_epochs(dataset, 2, options, 1, 4);
    EXPECT_EQ(found.bytes, expected.bytes) << bits;
    EXPECT_EQ(found.assignments, expected.assignments) << bits;
    // Sums differ in their last bits, and a code by one where noise falls between.
    EXPECT_NEAR(found.losses[0], expected.losses[0], 1e-4 * expected.losses[0]) << bits;
    EXPECT_NEAR(found.losses[3], expected.losses[3], 1e-2 * expected.losses[3]) << bits;
  }
}

TEST_F(DeviceQuantizedTraining, NcclAndReplayGiveTheBitsOfStaging) {
  constexpr int kRanks = 3;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_sbm(dir_, true);
  for (const std::string bits : {"2", "random"}) {
    // Drawn anew after the second epoch; replayed from the third on.
    const int last = bits == "random" ? 3 : 4;
    TrainOptions options = quantized_options(bits);
    options.backend = "cuda";
    options.message_bits.reassign_every = 2;
    options.messages = "staging";
    const RunResult staged = run_epochs(dataset, kRanks, options, 1, last);
    options.messages = "nccl";
    const RunResult direct = run_epochs(dataset, kRanks, options, 1, last);
    EXPECT_EQ(direct.losses, staged.losses) << bits;
    EXPECT_TRUE(same_tensors(direct.state, staged.state)) << bits;
    EXPECT_EQ(direct.bytes, staged.bytes) << bits;
    if (bits == "random") continue;  // after each second epoch other packets: not worth recording
    options.cuda_graph = GraphReplay::kOn;
    const RunResult replayed = run_epochs(dataset, kRanks, options, 1, last);
    EXPECT_TRUE(replayed.replayed);
    EXPECT_EQ(replayed.losses, staged.losses);
    EXPECT_TRUE(same_tensors(replayed.state, staged.state));
    EXPECT_EQ(replayed.bytes, staged.bytes);
  }
}

// Widths that change end a recording, and the next epoch of the same widths makes another.
TEST_F(DeviceQuantizedTraining, IsRecordedAnewAfterEachAssignment) {
  constexpr int kRanks = 2;
  require_nccl_devices(kRanks);
  if (IsSkipped() || HasFailure()) return;
  const std::filesystem::path dataset = make_sbm(dir_, true, /*nodes=*/200);
  struct Case {
    std::string bits;
    int reassign_every;
    std::vector<bool> of_recording;
  };
  // The first five epochs of "adaptive" have widths of their own, the last of which is assigned
  // after; "random" draws after epochs 4 and 8, and the first two epochs are never recorded.
  const Case cases[] = {
      {"adaptive", 4, {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"random", 4, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1}},
  };
  for (const Case& c : cases) {
    TrainOptions options = quantized_options(c.bits);
    options.backend = "cuda";
    options.messages = "nccl";
    options.message_bits.reassign_every = c.reassign_every;
    if (c.bits == "adaptive") {
      options.message_bits.calibration = slow_calibration(options.model.layers).at("exchange");
    }
    const int epochs = static_cast<int>(c.of_recording.size());
    options.cuda_graph = GraphReplay::kOff;
    const RunResult queued = run_epochs(dataset, kRanks, options, 1, epochs);
    EXPECT_EQ(queued.of_recording, std::vector<bool>(c.of_recording.size(), false));
    for (const GraphReplay wish : {GraphReplay::kAuto, GraphReplay::kOn}) {
      options.cuda_graph = wish;
      const RunResult replayed = run_epochs(dataset, kRanks, options, 1, epochs);
      EXPECT_EQ(replayed.of_recording, c.of_recording) << c.bits;
      expect_same_run(replayed, queued);
      EXPECT_EQ(replayed.bytes, queued.bytes) << c.bits;
    }
    // Packets had other sizes after an assignment: what was replayed is no old recording.
    EXPECT_NE(queued.bytes.back(), queued.bytes[static_cast<std::size_t>(epochs) - 5]) << c.bits;
  }
}

// Packing runs on a queue of its own, whose time counts when widths are chosen.
TEST_F(DeviceQuantizedTraining, TimesOfPackingAreThoseOfTheDevice) {
  const std::filesystem::path dataset = make_sbm(dir_, true);
  TrainOptions options = quantized_options("adaptive");
  options.backend = "cuda";
  for (const char* messages : {"staging", "nccl"}) {
    if (std::string(messages) == "nccl" && nccl_devices() < 2) continue;
    options.messages = messages;
    run_local_ranks(2, 30, [&](Transport& transport) {
      PartitionOptions partition;
      partition.method = "random";
      RankJob job(transport, dataset, partition, options);
      double took = 0;
      for (int epoch = 1; epoch <= 3; ++epoch) took += job.trainer().run_epoch(epoch).epoch_ms;
      const Json state = parse_json(job.trainer().exchange().state(), "state");
      for (const Json& channel : state.at("channels")) {
        ASSERT_EQ(channel.at("samples").size(), 3U) << messages;
        for (const Json& sample : channel.at("samples")) {
          EXPECT_GT(sample.at(2).get<double>(), 0) << messages;
          EXPECT_LT(1000 * sample.at(2).get<double>(), took) << messages;
        }
      }
    });
  }
}

TEST_F(DeviceQuantizedTraining, NamesTheMessageThatCantBeSent) {
  const std::filesystem::path dataset = make_sbm(dir_, false);
  TrainOptions options = quantized_options("8");
  options.backend = "cuda";
  options.model.norm = Norm::kNone;
  options.optimizer.learning_rate = 1e30;
  const Error error = thrown_error([&] { run_epochs(dataset, 2, options, 1, 6); });
  EXPECT_EQ(error.kind(), ErrorKind::kDiverged);
  EXPECT_THAT(error.what(), HasSubstr("messages: the row of node "));
}

}  // namespace
}  // namespace atl
