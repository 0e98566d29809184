// Losses and metrics of whole runs against plain loops over the labels and what the model predicts:
// the definitions of PyTorch's CrossEntropyLoss (weight, label_smoothing), MSELoss and L1Loss.
#include <gmock/gmock.h>

#include <cmath>

#include "base/npy.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kColumns = 2;

// Two numbers per node, which follow its class and a feature; every ninth is missing, and the
// second one lies far from 0.
std::vector<float> numbers_of(const Dataset& source) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < source.info().nodes; ++i) {
    const auto label = static_cast<float>(source.labels()[static_cast<std::size_t>(i)]);
    const float feature = source.features()[static_cast<std::size_t>(i * source.info().features)];
    numbers.push_back(label + 0.3F * feature);
    numbers.push_back(5 - 2 * label);
    if (i % 9 == 4) numbers[static_cast<std::size_t>(i * kColumns + i % 2)] = std::nanf("");
  }
  return numbers;
}

fs::path make_numbers(const TempDir& dir) {
  const Dataset source = Dataset::open(make_sbm(dir, false));
  DatasetWriter writer(dir.path() / "numbers");
  writer.info().name = "numbers";
  const CsrView edges = source.graph().in_edges;
  writer.write_graph({{edges.row_ptr.begin(), edges.row_ptr.end()},
                      {edges.col_idx.begin(), edges.col_idx.end()},
                      {}});
  const auto features = writer.write_features(source.info().features);
  features->write(source.features());
  features->close();
  writer.write_real_labels(numbers_of(source), kColumns);
  writer.write_splits(source.split(0), 1);
  writer.commit();
  return dir.path() / "numbers";
}

TrainOptions plain_options() {
  TrainOptions options = small_options();
  options.model.dropout = 0;
  options.model.norm = Norm::kNone;
  return options;
}

struct LossRun {
  std::vector<double> losses;
  Metrics metrics;
};

// Predictions before the first epoch, in `before`; then `epochs` epochs, and the predictions after
// them, in `after`.
LossRun train_and_predict(const fs::path& dataset, int ranks, const TrainOptions& options,
                          int epochs, const fs::path& before, const fs::path& after) {
  LossRun outcome;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    predict(job.trainer(), job.data(), transport, PredictionKind::kLogits, before);
    std::vector<double> losses;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      losses.push_back(job.trainer().run_epoch(epoch).loss);
    }
    const Metrics metrics =
        predict(job.trainer(), job.data(), transport, PredictionKind::kNumbers, after);
    if (transport.rank() == 0) outcome = {losses, metrics};
  });
  return outcome;
}

// torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing) of the training nodes.
double cross_entropy(const Dataset& dataset, const NpyFile& logits,
                     const std::vector<double>& weights, double smoothing) {
  const auto values = logits.values<float>();
  const auto classes = static_cast<std::size_t>(logits.columns());
  double loss = 0;
  double weight = 0;
  for (std::size_t i = 0; i < dataset.labels().size(); ++i) {
    const std::int32_t label = dataset.labels()[i];
    if (label < 0 || dataset.split(0)[i] != 0) continue;
    double total = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      total += std::exp(static_cast<double>(values[i * classes + c]));
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const double minus_log = std::log(total) - static_cast<double>(values[i * classes + c]);
      const double spread = smoothing / static_cast<double>(classes);
      if (static_cast<std::int32_t>(c) == label) loss += (1 - smoothing) * weights[c] * minus_log;
      loss += spread * weights[c] * minus_log;
    }
    weight += weights[static_cast<std::size_t>(label)];
  }
  return loss / weight;
}

struct WeightCase {
  std::string name;
  std::string weights;  // --class-weights; "file": of kFileWeights
  double smoothing;
};
constexpr double kFileWeights[] = {0.5, 2, 0, 1.25};

class ClassWeights : public ::testing::TestWithParam<WeightCase> {};

TEST_P(ClassWeights, LossIsThatOfPyTorchOnAnyNumberOfRanks) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  const Dataset dataset = Dataset::open(folder);
  std::vector<double> counts(4, 0);
  double nodes = 0;
  for (std::size_t i = 0; i < dataset.labels().size(); ++i) {
    if (dataset.split(0)[i] != 0) continue;
    ++counts[static_cast<std::size_t>(dataset.labels()[i])];
    ++nodes;
  }
  std::vector<double> weights(4, 1);
  TrainOptions options = plain_options();
  options.loss.class_weights = GetParam().weights;
  options.loss.label_smoothing = GetParam().smoothing;
  if (GetParam().weights == "balanced") {
    for (std::size_t c = 0; c < 4; ++c) weights[c] = nodes / (4 * counts[c]);
  } else if (!GetParam().weights.empty()) {
    weights.assign(std::begin(kFileWeights), std::end(kFileWeights));
    options.loss.class_weights = (dir.path() / "weights.npy").string();
    write_npy(options.loss.class_weights, weights);
  }
  std::vector<double> losses;
  for (const int ranks : {1, 3}) {
    const LossRun found = train_and_predict(folder, ranks, options, 20, dir.path() / "before.npy",
                                            dir.path() / "after.npy");
    const double expected =
        cross_entropy(dataset, NpyFile(dir.path() / "before.npy"), weights, GetParam().smoothing);
    EXPECT_NEAR(found.losses[0], expected, 1e-6 * expected) << ranks << " ranks";
    EXPECT_LT(found.losses[19], found.losses[0]);
    losses.push_back(found.losses[19]);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-4 * losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Losses, ClassWeights,
                         ::testing::Values(WeightCase{"balanced", "balanced", 0},
                                           WeightCase{"file", "file", 0},
                                           WeightCase{"smoothed", "", 0.1},
                                           WeightCase{"balanced_smoothed", "balanced", 0.2},
                                           WeightCase{"file_smoothed", "file", 0.3}),
                         [](const auto& test) { return test.param.name; });

// The loss follows from what the file says, wherever it lies.
TEST(ClassWeightsFile, OfAResumedRunAreThoseOfItsCheckpoint) {
  const TempDir dir;
  const fs::path folder = make_sbm(dir, false);
  const auto run = [&](const std::string& file, std::vector<double> weights, int epochs) {
    TrainOptions options = plain_options();
    options.loss.class_weights = (dir.path() / file).string();
    write_npy(options.loss.class_weights, weights);
    options.optimizer.epochs = epochs;
    options.run_dir = dir.path() / "run";
    options.start = epochs > 2 ? RunStart::kResume : RunStart::kFresh;
    train_in_folder(2, folder, options);
  };
  run("weights.npy", {0.5, 2, 0, 1.25}, 2);
  const Error refused = thrown_error([&] { run("weights.npy", {0.5, 2, 0, 1.5}, 4); });
  EXPECT_EQ(refused.kind(), ErrorKind::kInput);
  EXPECT_THAT(refused.what(), HasSubstr("class-weights"));
  run("moved.npy", {0.5, 2, 0, 1.25}, 4);
}

TEST(ClassWeightCounts, AreBalancedByHand) {
  run_local_ranks(1, 30, [](Transport& transport) {
    const std::vector<std::int64_t> counts = {6, 0, 2};
    // 8 nodes, 3 classes: 8 / (3 * 6), none, 8 / (3 * 2).
    EXPECT_THAT(class_weights({.class_weights = "balanced"}, Task::kSingleLabel, counts, transport),
                ElementsAre(8.0F / 18, 0, 8.0F / 6));
    EXPECT_TRUE(class_weights({}, Task::kSingleLabel, counts, transport).empty());
    // Labels without and with: 8 / (2 * 6), 8 / (2 * 2); 5 / (2 * 5) and none.
    const std::vector<std::int64_t> several = {6, 2, 5, 0};
    EXPECT_THAT(class_weights({.class_weights = "balanced"}, Task::kMultiLabel, several, transport),
                ElementsAre(8.0F / 12, 2, 0.5F, 0));
  });
}

class ErrorLosses : public ::testing::TestWithParam<const char*> {};

TEST_P(ErrorLosses, LossAndMetricsAreThoseOfPlainLoops) {
  const TempDir dir;
  const fs::path folder = make_numbers(dir);
  const Dataset dataset = Dataset::open(folder);
  dataset.validate();
  const auto labels = dataset.real_labels();
  const bool absolute = GetParam() == std::string("mae");
  TrainOptions options = plain_options();
  options.loss.name = GetParam();
  std::vector<LossRun> outcomes;
  for (const int ranks : {1, 3}) {
    outcomes.push_back(train_and_predict(folder, ranks, options, 60, dir.path() / "before.npy",
                                         dir.path() / "after.npy"));
    const NpyFile before(dir.path() / "before.npy");
    double sum = 0;
    double count = 0;
    for (std::size_t k = 0; k < labels.size(); ++k) {
      if (dataset.split(0)[k / kColumns] != 0 || std::isnan(labels[k])) continue;
      const double error = static_cast<double>(before.values<float>()[k] - labels[k]);
      sum += absolute ? std::abs(error) : error * error;
      count += 1;
    }
    EXPECT_NEAR(outcomes.back().losses[0], sum / count, 1e-6 * sum / count) << ranks << " ranks";
    // The test split: R2 of each number, then the mean; errors over all labels.
    const NpyFile after(dir.path() / "after.npy");
    ASSERT_EQ(after.columns(), kColumns);
    double r2 = 0;
    double squares = 0;
    double distances = 0;
    double all = 0;
    for (std::size_t c = 0; c < kColumns; ++c) {
      std::vector<double> wanted;
      std::vector<double> found;
      for (std::size_t k = c; k < labels.size(); k += kColumns) {
        if (dataset.split(0)[k / kColumns] != 2 || std::isnan(labels[k])) continue;
        wanted.push_back(static_cast<double>(labels[k]));
        found.push_back(static_cast<double>(after.values<float>()[k]));
      }
      double mean = 0;
      for (const double value : wanted) mean += value / static_cast<double>(wanted.size());
      double residual = 0;
      double spread = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        residual += (found[i] - wanted[i]) * (found[i] - wanted[i]);
        distances += std::abs(found[i] - wanted[i]);
        spread += (wanted[i] - mean) * (wanted[i] - mean);
      }
      r2 += (1 - residual / spread) / kColumns;
      squares += residual;
      all += static_cast<double>(wanted.size());
    }
    const Metrics& metrics = outcomes.back().metrics;
    EXPECT_NEAR(metrics.test, r2, 1e-12);
    EXPECT_NEAR((*metrics.find({MetricKind::kMae}))[2], distances / all, 1e-12);
    EXPECT_NEAR((*metrics.find({MetricKind::kRmse}))[2], std::sqrt(squares / all), 1e-12);
  }
  EXPECT_NEAR(outcomes[1].losses[19], outcomes[0].losses[19], 1e-4 * outcomes[0].losses[19]);
  EXPECT_LT(outcomes[0].losses[59], 0.5 * outcomes[0].losses[0]);
  EXPECT_GT(outcomes[0].metrics.test, 0.3);
}

INSTANTIATE_TEST_SUITE_P(Losses, ErrorLosses, ::testing::Values("auto", "mae"),
                         [](const auto& test) {
                           return test.param == std::string("auto") ? "squared" : "absolute";
                         });

TEST(LossOptionsCheck, RefusesWhatTheTaskHasNoUseFor) {
  const auto refused = [](const LossOptions& loss, Task task) {
    const Error error = thrown_error([&] { check_loss_options(loss, task); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  EXPECT_THAT(refused({.name = "mae"}, Task::kBinary), HasSubstr("--loss mae"));
  EXPECT_THAT(refused({.name = "cross-entropy"}, Task::kRegression), HasSubstr("mse"));
  for (const Task task : {Task::kRegression, Task::kLinkPrediction}) {
    EXPECT_THAT(refused({.class_weights = "balanced"}, task), HasSubstr(to_string(task)));
    EXPECT_THAT(refused({.name = "focal"}, task), HasSubstr("--loss focal"));
    EXPECT_THAT(refused({.metric = "accuracy"}, task), HasSubstr("--metric accuracy: the task is"));
  }
  for (const Task task : {Task::kMultiLabel, Task::kBinary, Task::kRegression}) {
    EXPECT_THAT(refused({.label_smoothing = 0.1}, task), HasSubstr("--label-smoothing"));
  }
  EXPECT_THAT(refused({.focal_gamma = 1}, Task::kBinary), HasSubstr("add --loss focal"));
  EXPECT_THAT(refused({.name = "focal", .label_smoothing = 0.1}, Task::kSingleLabel),
              HasSubstr("--label-smoothing"));
  EXPECT_THAT(refused({.metric = "mcc"}, Task::kMultiLabel),
              HasSubstr("f1-micro, f1-macro, f1-weighted, accuracy, roc-auc, average-precision"));
  EXPECT_THAT(refused({.links = {.hits_at = "3,30"}, .metric = "hits@10"}, Task::kLinkPrediction),
              HasSubstr("mrr, hits@3, hits@30, or others that --hits-at has"));
  check_loss_options({.class_weights = "balanced"}, Task::kBinary);
  check_loss_options({.name = "focal", .class_weights = "balanced"}, Task::kMultiLabel);
  check_loss_options({.name = "cross-entropy", .class_weights = "balanced", .label_smoothing = 0.1},
                     Task::kSingleLabel);
  check_loss_options({.name = "mse"}, Task::kRegression);
}

}  // namespace
}  // namespace atl
