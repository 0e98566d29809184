// Whole runs on small graphs: the same numbers whatever the number of ranks, the schedule, and
// whether the run was interrupted.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>

#include "base/log.hpp"
#include "base/npy.hpp"
#include "datasets/generate.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/training_run.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

std::filesystem::path make_sbm(const TempDir& dir, bool directed) {
  spdlog::set_level(spdlog::level::warn);
  GenerateOptions options;
  options.out = dir.path() / (directed ? "directed" : "undirected");
  options.nodes = 600;
  options.classes = 4;
  options.features = 12;
  options.directed = directed;
  options.seed = 3;
  generate_dataset("sbm", options);
  return options.out;
}

TrainOptions small_options() {
  TrainOptions options;
  options.hidden = 16;
  options.norm = Norm::kBatch;
  options.backend = "cpu";
  options.threads = 1;
  options.optimizer.epochs = 6;
  return options;
}

struct RunResult {
  std::vector<double> losses;
  std::vector<std::int64_t> bytes;
  std::int64_t formula_bytes = 0;
  SafetensorsFile state;
  Metrics metrics;
};

// Epochs `first`..`last`, after loading `start` if it holds anything.
RunResult run_epochs(const std::filesystem::path& dataset, int ranks, const TrainOptions& options,
                     int first, int last, const SafetensorsFile& start = {}) {
  RunResult result;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    if (!start.tensors.empty()) job.trainer().load_state(start, true, "start");
    std::vector<double> losses;
    std::vector<std::int64_t> bytes;
    for (int epoch = first; epoch <= last; ++epoch) {
      const EpochResult epoch_result = job.trainer().run_epoch(epoch);
      losses.push_back(epoch_result.loss);
      bytes.push_back(epoch_result.bytes_sent);
    }
    const Metrics metrics = job.trainer().evaluate(last);
    std::int64_t formula = job.trainer().model().halo_bytes_per_epoch();
    transport.all_reduce(std::span(&formula, 1), {"formula"});
    if (transport.rank() == 0) {
      result = {losses, bytes, formula, job.trainer().state(true), metrics};
    }
  });
  return result;
}

bool same_tensors(const SafetensorsFile& a, const SafetensorsFile& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    if (!b.tensors.contains(name) || b.tensors.at(name).bytes != tensor.bytes) return false;
  }
  return true;
}

class SameNumbers : public ::testing::TestWithParam<std::tuple<std::string, bool, Norm>> {};

TEST_P(SameNumbers, ForAnyNumberOfRanksWithDropout) {
  const TempDir dir;
  const auto [model, directed, norm] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, directed);
  TrainOptions options = small_options();
  options.model = model;
  options.norm = norm;
  const RunResult one = run_epochs(dataset, 1, options, 1, 6);
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const int ranks : {2, 3, 4}) {
    const RunResult several = run_epochs(dataset, ranks, options, 1, 6);
    EXPECT_NEAR(several.losses[0], one.losses[0], 1e-6 * one.losses[0]) << ranks;
    EXPECT_NEAR(several.losses[1], one.losses[1], 1e-5 * one.losses[1]) << ranks;
    EXPECT_NEAR(several.losses[5], one.losses[5], 1e-4 * one.losses[5]) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameNumbers,
                         ::testing::Combine(::testing::Values("gcn", "sage"), ::testing::Bool(),
                                            ::testing::Values(Norm::kNone, Norm::kLayer,
                                                              Norm::kBatch)));

TEST(Training, RepeatsBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = small_options();
  const RunResult first = run_epochs(dataset, 3, options, 1, 5);
  const RunResult second = run_epochs(dataset, 3, options, 1, 5);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_TRUE(same_tensors(first.state, second.state));
  options.overlap = false;
  const RunResult waiting = run_epochs(dataset, 3, options, 1, 5);
  EXPECT_EQ(first.losses, waiting.losses);
  EXPECT_TRUE(same_tensors(first.state, waiting.state));
  options.seed = 2;
  EXPECT_NE(run_epochs(dataset, 3, options, 1, 1).losses[0], first.losses[0]);
}

TEST(Training, GoesOnFromItsStateBitForBit) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const TrainOptions options = small_options();
  const RunResult whole = run_epochs(dataset, 2, options, 1, 6);
  const RunResult half = run_epochs(dataset, 2, options, 1, 3);
  const RunResult rest = run_epochs(dataset, 2, options, 4, 6, half.state);
  EXPECT_TRUE(same_tensors(whole.state, rest.state));
  EXPECT_EQ(whole.losses[5], rest.losses[2]);
  const RunResult elsewhere = run_epochs(dataset, 3, options, 4, 6, half.state);
  EXPECT_NEAR(elsewhere.losses[2], whole.losses[5], 1e-4 * whole.losses[5]);
}

TEST(Training, SendsTheBytesOfTheFormula) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const TrainOptions options = small_options();
  const RunResult run = run_epochs(dataset, 3, options, 1, 3);
  std::int64_t collectives = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const std::int64_t width = options.hidden;
    // Two batch norms: sums, squares and the count forward, two sums backward; loss; gradients,
    // whose flat array rounds every parameter up to 16.
    for (int layer = 0; layer < 2; ++layer) {
      collectives += all_reduce_bytes(2 * width + 1, 8, rank, 3);
      collectives += all_reduce_bytes(2 * width, 8, rank, 3);
    }
    collectives += all_reduce_bytes(1, 8, rank, 3);
    const std::int64_t parameters = (12 * 16) + 16 + 16 + (16 * 16) + 16 + 16 + (16 * 4) + 16;
    collectives += all_reduce_bytes(parameters, 4, rank, 3);
  }
  // Later epochs reuse the first aggregate.
  EXPECT_EQ(run.bytes[1], run.formula_bytes + collectives);
  EXPECT_EQ(run.bytes[2], run.formula_bytes + collectives);
}

TEST(Training, LearnsWhatTheGeneratorHides) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.optimizer.epochs = 40;
  const RunResult run = run_epochs(dataset, 2, options, 1, 40);
  EXPECT_GT(run.metrics.test, 0.8);  // guessing gives 0.25
}

TEST(Training, RunFolderResumesAfterAnInterruption) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const auto run = [&](const std::string& name, int epochs, bool resume) {
    TrainOptions options = small_options();
    options.optimizer.epochs = epochs;
    options.checkpoint_every = 2;
    options.resume = resume;
    options.run_dir = dir.path() / name;
    run_local_ranks(2, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, PartitionOptions{}, options);
      train(options, {"", "commit", dataset.string()}, job.data(), job.backend(), job.trainer(),
            transport);
    });
  };
  run("whole", 8, false);
  run("parts", 4, false);
  // What a kill leaves behind: a later line and half a line.
  {
    std::FILE* file = std::fopen((dir.path() / "parts" / "metrics.jsonl").c_str(), "ab");
    std::fputs("{\"epoch\": 5, \"loss\": 9}\n{\"epo", file);
    std::fclose(file);
  }
  run("parts", 8, true);
  const auto text = [&](const std::string& name) {
    return read_text(dir.path() / name / "model.safetensors");
  };
  EXPECT_EQ(text("whole"), text("parts"));
  const std::string metrics = read_text(dir.path() / "parts" / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 8);
  const Json summary = read_json(dir.path() / "parts" / "summary.json");
  EXPECT_EQ(summary.at("epochs"), 8);
  const Error refused = thrown_error([&] { run("parts", 8, false); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOption);
  EXPECT_NE(std::string(refused.what()).find("--resume"), std::string::npos);
}

TEST(Prediction, AgreesWithTheMetrics) {
  const TempDir dir;
  const std::filesystem::path dataset_folder = make_sbm(dir, false);
  const TrainOptions options = small_options();
  Metrics metrics;
  run_local_ranks(3, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob job(transport, dataset_folder, partition, options);
    job.trainer().run_epoch(1);
    const Metrics mine = predict(job.trainer(), job.data(), transport, PredictionKind::kLabels,
                                 dir.path() / "labels.npy");
    predict(job.trainer(), job.data(), transport, PredictionKind::kEmbeddings,
            dir.path() / "rows.npy");
    if (transport.rank() == 0) metrics = mine;
  });
  const Dataset dataset = Dataset::open(dataset_folder);
  const NpyFile predicted(dir.path() / "labels.npy");
  const std::span<const std::int32_t> labels = predicted.values<std::int32_t>();
  int correct = 0;
  int total = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (dataset.split(0)[i] != static_cast<std::uint8_t>(Split::kTest)) continue;
    correct += labels[i] == dataset.labels()[i];
    ++total;
  }
  ASSERT_GT(total, 50);
  EXPECT_DOUBLE_EQ(metrics.test, static_cast<double>(correct) / total);
  const NpyFile rows(dir.path() / "rows.npy");
  EXPECT_EQ(rows.rows(), 600);
  EXPECT_EQ(rows.columns(), 16);
}

}  // namespace
}  // namespace atl
