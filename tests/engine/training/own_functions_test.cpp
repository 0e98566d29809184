// Losses and metrics of a program's own against those that Atoll has of the same definition.
#include "engine/program/own_functions.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>

#include "engine/training/metric_names.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Softmax cross-entropy by its definition, in double.
double plain_cross_entropy(const LabelledRows& rows, std::span<float> gradient) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows.rows(); ++i) {
    const float* const row = rows.logits.data() + i * rows.outputs;
    double exponentials = 0;
    for (std::int64_t c = 0; c < rows.outputs; ++c) {
      exponentials += std::exp(static_cast<double>(row[c]));
    }
    for (std::int64_t c = 0; c < rows.outputs; ++c) {
      const double share = std::exp(static_cast<double>(row[c])) / exponentials;
      const bool is_class = c == rows.classes[static_cast<std::size_t>(i)];
      gradient[static_cast<std::size_t>(i * rows.outputs + c)] =
          static_cast<float>(share - (is_class ? 1 : 0));
      if (is_class) sum -= std::log(share);
    }
  }
  return sum;
}

double plain_accuracy(const LabelledRows& rows) {
  double right = 0;
  for (std::int64_t i = 0; i < rows.rows(); ++i) {
    const auto row = rows.logits.subspan(static_cast<std::size_t>(i * rows.outputs),
                                         static_cast<std::size_t>(rows.outputs));
    const auto best = std::ranges::max_element(row) - row.begin();
    right += best == rows.classes[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return right / static_cast<double>(rows.rows());
}

class OwnFunctionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_own_functions({.losses = {{"plain", plain_cross_entropy}},
                       .metrics = {{"share-right", false, plain_accuracy}}},
                      loss_names(), {});
  }
  void TearDown() override { set_own_functions({}, {}, {}); }
};

struct OwnRun {
  std::vector<double> losses;
  Metrics metrics;
  Metrics all;
};

OwnRun train_with(const fs::path& dataset, int ranks, const TrainOptions& options, int epochs,
                  int ranks_per_part = 1) {
  OwnRun outcome;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, grouped(options, ranks_per_part));
    std::vector<double> losses;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      losses.push_back(job.trainer().run_epoch(epoch).loss);
    }
    const Metrics metrics = job.trainer().evaluate(epochs);
    const Metrics all = job.trainer().evaluate(epochs, MetricExtent::kAll);
    if (transport.rank() == 0) outcome = {losses, metrics, all};
  });
  return outcome;
}

void expect_same_run(const OwnRun& own, const OwnRun& usual) {
  EXPECT_NEAR(own.losses[0], usual.losses[0], 1e-6 * usual.losses[0]);
  EXPECT_NEAR(own.losses.back(), usual.losses.back(), 1e-4 * usual.losses.back());
  EXPECT_NEAR(own.metrics.valid_loss, usual.metrics.valid_loss, 1e-4 * usual.metrics.valid_loss);
  EXPECT_LT(own.losses.back(), own.losses.front());
}

TEST_F(OwnFunctionsTest, ALossIsThatOfTheSameDefinition) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  const TrainOptions usual = small_options();
  TrainOptions own = usual;
  own.loss.name = "plain";
  const OwnRun expected = train_with(folder, 1, usual, 10);
  for (const auto& [ranks, per_part] : {std::pair{1, 1}, {3, 1}, {4, 2}}) {
    expect_same_run(train_with(folder, ranks, own, 10, per_part), expected);
  }
}

class OwnFunctionsOnDevice : public OwnFunctionsTest {
 protected:
  void SetUp() override {
    require_backend("cuda");
    OwnFunctionsTest::SetUp();
  }
};

// Epochs with such a loss can't be replayed from a recording.
TEST_F(OwnFunctionsOnDevice, ALossAndAMetricAreThoseOfTheHost) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false, 120);
  TrainOptions options = small_options();
  options.loss = {.name = "plain", .metric = "share-right"};
  const OwnRun expected = train_with(folder, 1, options, 6);
  options.backend = "cuda";
  for (const int ranks : {1, 2}) {
    const OwnRun found = train_with(folder, ranks, options, 6);
    expect_same_run(found, expected);
    EXPECT_NEAR(found.metrics.valid, expected.metrics.valid, 0.02);
  }
}

TEST_F(OwnFunctionsTest, ALossTrainsOnBlocks) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  TrainOptions usual = small_options();
  usual.blocks.count = parse_block_count("4");
  TrainOptions own = usual;
  own.loss.name = "plain";
  expect_same_run(train_with(folder, 2, own, 5), train_with(folder, 2, usual, 5));
}

TEST_F(OwnFunctionsTest, AMetricSeesTheNodesOfAllRanks) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.loss.metric = "share-right";
  const Metric named = *metric_named("share-right");
  for (const int ranks : {1, 3}) {
    const OwnRun run = train_with(folder, ranks, options, 5);
    const SplitValues accuracy = *run.all.find({MetricKind::kAccuracy});
    EXPECT_GT(accuracy[1], 0.2);
    EXPECT_EQ(run.metrics.train, accuracy[0]) << ranks;
    EXPECT_EQ(run.metrics.valid, accuracy[1]) << ranks;
    EXPECT_EQ(run.metrics.test, accuracy[2]) << ranks;
    EXPECT_EQ(run.all.find(named)->at(1), accuracy[1]) << ranks;
  }
}

TEST_F(OwnFunctionsTest, WhatALossThrowsEndsAllRanks) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  std::atomic<int> calls = 0;
  // The others wait for its messages.
  const auto first_fails = [&](const LabelledRows& rows, std::span<float> gradient) {
    if (calls++ == 0) fail_option("no such number");
    return plain_cross_entropy(rows, gradient);
  };
  set_own_functions({.losses = {{"broken", first_fails}}}, loss_names(), {});
  TrainOptions options = small_options();
  options.loss.name = "broken";
  const Error error = thrown_error([&] { train_with(folder, 3, options, 2); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("no such number"));
}

TEST_F(OwnFunctionsTest, NamesAreWordsThatAreNotTaken) {
  const auto refused = [](const OwnFunctions& functions) {
    return std::string(
        thrown_error([&] { set_own_functions(functions, loss_names(), {"accuracy"}); }).what());
  };
  EXPECT_THAT(refused({.losses = {{"focal", plain_cross_entropy}}}), HasSubstr("taken are: auto"));
  EXPECT_THAT(refused({.losses = {{"a b", plain_cross_entropy}}}), HasSubstr("'a b'"));
  EXPECT_THAT(refused({.losses = {{"mine", nullptr}}}), HasSubstr("no function"));
  EXPECT_THAT(refused({.metrics = {{"accuracy", false, plain_accuracy}}}), HasSubstr("taken"));
  EXPECT_THAT(refused({.metrics = {{"train", false, plain_accuracy}}}), HasSubstr("with a '-'"));
}

TEST_F(OwnFunctionsTest, OptionsKnowThem) {
  const auto refused = [](const LossOptions& loss, Task task) {
    return std::string(thrown_error([&] { check_loss_options(loss, task); }).what());
  };
  check_loss_options({.name = "plain", .metric = "share-right"}, Task::kRegression);
  EXPECT_THAT(refused({.name = "plain"}, Task::kLinkPrediction), HasSubstr("--loss plain"));
  EXPECT_THAT(refused({.metric = "share-right"}, Task::kLinkPrediction), HasSubstr("share-right"));
  EXPECT_THAT(refused({.name = "plain", .label_smoothing = 0.1}, Task::kSingleLabel),
              HasSubstr("computes all of the loss"));
  const Metric metric = *metric_named("share-right");
  EXPECT_EQ(to_string(metric), "share-right");
  EXPECT_FALSE(lower_is_better(metric));
}

}  // namespace
}  // namespace atl
