// Whole runs on small graphs: the same numbers whatever the number of ranks, the schedule, and
// whether the run was interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <sstream>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/npy.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/generate.hpp"
#include "engine/training/checkpoint.hpp"
#include "engine/training/prediction.hpp"
#include "engine/training/rank_job.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

class SameNumbers : public ::testing::TestWithParam<std::tuple<std::string, bool, Norm>> {};

TEST_P(SameNumbers, ForAnyNumberOfRanksWithDropout) {
  const TempDir dir;
  const auto [model, directed, norm] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, directed);
  TrainOptions options = small_options();
  options.model.kind = model;
  options.model.norm = norm;
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

// Warm-up, clipping that bites in every epoch, and groups: on any number of ranks, and resumed.
TEST(Training, OptionsOfTheOptimizerKeepRunsTheSame) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const TrainOptions plain = small_options();
  TrainOptions options = plain;
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.optimizer.weight_decay = 0.05;
  options.optimizer.warmup_epochs = 4;
  options.optimizer.clip_norm = 0.01;
  options.optimizer.parameter_groups = "layers.2.*: lr=0.02; *.norm.*: weight-decay=0";
  const RunResult whole = run_epochs(dataset, 2, options, 1, 6);
  const RunResult half = run_epochs(dataset, 2, options, 1, 3);
  const RunResult rest = run_epochs(dataset, 2, options, 4, 6, half.state);
  EXPECT_TRUE(same_tensors(whole.state, rest.state));
  const RunResult alone = run_epochs(dataset, 1, options, 1, 6);
  EXPECT_NEAR(alone.losses[5], whole.losses[5], 1e-4 * whole.losses[5]);
  EXPECT_NE(whole.losses[5], run_epochs(dataset, 2, plain, 1, 6).losses[5]);
  EXPECT_LT(whole.losses[5], whole.losses[0]);
}

TEST(Training, SendsTheBytesOfTheFormula) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const TrainOptions options = small_options();
  const RunResult run = run_epochs(dataset, 3, options, 1, 3);
  std::int64_t collectives = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const std::int64_t hidden = options.model.hidden;
    // Two batch norms: sums and squares forward, two sums backward; gradients, whose flat array
    // rounds every parameter up to 16.
    for (int layer = 0; layer < 2; ++layer) {
      collectives += 2 * all_reduce_bytes(2 * hidden, 8, rank, 3);
    }
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
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir.path() / name;
    train_in_folder(2, dataset, options);
  };
  run("whole", 8, false);
  const std::filesystem::path parts = dir.path() / "parts";
  run("parts", 4, false);
  // A kill in epoch 5 leaves this behind: a line after the checkpoint and half a line.
  {
    std::FILE* file = std::fopen((parts / "metrics.jsonl").c_str(), "ab");
    std::fputs("{\"epoch\": 5, \"loss\": 9}\n{\"epo", file);
    std::fclose(file);
  }
  run("parts", 8, true);
  for (const std::string name : {"model.safetensors", "checkpoint/epoch-8.safetensors"}) {
    EXPECT_EQ(read_text(dir.path() / "whole" / name), read_text(parts / name)) << name;
  }
  const auto losses = [&](const std::string& name) {
    std::vector<double> values;
    std::istringstream lines(read_text(dir.path() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      values.push_back(Json::parse(line).at("loss").get<double>());
    }
    return values;
  };
  EXPECT_EQ(losses("parts").size(), 8U);
  EXPECT_EQ(losses("parts"), losses("whole"));
  // Resuming what is finished trains nothing and loses nothing.
  run("parts", 8, true);
  const Json summary = read_json(parts / "summary.json");
  EXPECT_EQ(summary.at("epochs"), 8);
  EXPECT_EQ(summary.at("loss"), losses("whole").back());
  EXPECT_GT(summary.at("epoch_ms_median").get<double>(), 0);
  EXPECT_GT(summary.at("wall_seconds").get<double>(), 0);
  EXPECT_GT(summary.at("bytes_sent_per_epoch").get<double>(), 0);
  const Error refused = thrown_error([&] { run("parts", 8, false); });
  EXPECT_EQ(refused.kind(), ErrorKind::kOption);
  EXPECT_NE(std::string(refused.what()).find("--resume"), std::string::npos);
}

// The last epoch is evaluated in any case. Where that was for no other reason, it doesn't count
// once the run gets more epochs.
TEST(Training, MoreEpochsGiveTheRunThatHadThemFromTheBeginning) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  for (const int eval_every : {0, 5}) {
    const auto run = [&](const std::string& name, int epochs, RunStart start) {
      TrainOptions options = small_options();
      options.optimizer.epochs = epochs;
      options.optimizer.learning_rate = 0.3;  // scores go up and down
      options.eval_every = eval_every;
      options.checkpoint_every = 100;
      options.start = start;
      options.run_dir = dir.path() / name;
      train_in_folder(2, dataset, options);
      return read_json(options.run_dir / "summary.json");
    };
    const std::string whole = fmt::format("whole-{}", eval_every);
    const Json expected = run(whole, 12, RunStart::kFresh);
    for (const int before : {6, 7, 8, 9, 11}) {
      const std::string parts = fmt::format("parts-{}-{}", eval_every, before);
      const Json half = run(parts, before, RunStart::kFresh);
      EXPECT_TRUE(eval_every > 0 || half.at("best_epoch") == before);
      // Nothing is left to do, but to find its last epoch once more.
      EXPECT_EQ(run(parts, before, RunStart::kResume).at("best_epoch"), half.at("best_epoch"));
      const Json found = run(parts, 12, RunStart::kResume);
      EXPECT_EQ(found.at("best_epoch"), expected.at("best_epoch")) << parts;
      EXPECT_EQ(read_text(dir.path() / parts / "model.safetensors"),
                read_text(dir.path() / whole / "model.safetensors"))
          << parts;
    }
  }
}

TEST(Training, EvaluationLeavesNoTrace) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const TrainOptions options = small_options();
  const RunResult without = run_epochs(dataset, 2, options, 1, 4);
  SafetensorsFile with;
  run_local_ranks(2, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob job(transport, dataset, partition, options);
    for (int epoch = 1; epoch <= 4; ++epoch) {
      job.trainer().evaluate(epoch);
      job.trainer().run_epoch(epoch);
    }
    if (transport.rank() == 0) with = job.trainer().state(true);
  });
  EXPECT_TRUE(same_tensors(without.state, with));
}

TEST(Training, StopsEarlyAlsoAcrossAResume) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  const auto epochs_of = [&](const std::string& name, std::vector<int> ends) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      TrainOptions options = small_options();
      options.optimizer.epochs = ends[i];
      options.optimizer.learning_rate = 1e-9;  // nothing improves after the first evaluation
      options.model.dropout = 0;
      options.model.norm = Norm::kNone;
      options.patience = 4;
      options.checkpoint_every = 1;
      options.start = i > 0 ? RunStart::kResume : RunStart::kFresh;
      options.run_dir = dir.path() / name;
      train_in_folder(2, dataset, options);
    }
    return read_json(dir.path() / name / "summary.json").at("epochs").get<int>();
  };
  EXPECT_EQ(epochs_of("whole", {50}), 5);
  EXPECT_EQ(epochs_of("parts", {3, 50}), 5);
}

// By the lines of a run that had all its epochs: the first one that is good enough is the last one.
TEST(Training, EndsWithTheFirstEvaluationThatReachesItsTarget) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.eval_every = 2;
  options.checkpoint_every = 1;
  for (const char* metric : {"accuracy", "log-loss"}) {
    options.optimizer.epochs = 20;
    options.loss.metric = metric;
    options.start = RunStart::kFresh;
    options.target = {};
    options.run_dir = dir.path() / metric;
    train_in_folder(2, dataset, options);
    const std::vector<Json> lines = metrics_of(options.run_dir);
    const bool lower = std::string(metric) == "log-loss";
    const auto valid = [&](int epoch) {
      return lines.at(static_cast<std::size_t>(epoch - 1)).at("valid").get<double>();
    };
    // Two scores that the run came to, one after the other.
    std::vector<int> better = {2};
    for (int epoch = 4; epoch <= 20; epoch += 2) {
      const double best = valid(better.back());
      if (lower ? valid(epoch) < best : valid(epoch) > best) better.push_back(epoch);
    }
    ASSERT_GE(better.size(), 3U) << metric;
    options.run_dir += "-target";
    for (const int epoch : {better[1], better[2], 0}) {
      // No epoch here gets every node right.
      options.target = {epoch > 0 ? valid(epoch) : lower ? -1.0 : 1.0};
      train_in_folder(2, dataset, options);
      const Json summary = read_json(options.run_dir / "summary.json");
      EXPECT_EQ(summary.at("epochs"), epoch > 0 ? epoch : 20) << metric;
      EXPECT_EQ(summary.at("target_reached"), epoch > 0 ? Json(epoch) : Json()) << metric;
      EXPECT_TRUE(summary.at("stopped_by").is_null());
      // Another target is no other run.
      options.start = RunStart::kResume;
    }
    EXPECT_EQ(metrics_of(options.run_dir).size(), lines.size());
    // One that was reached is reached at once.
    options.target = {lower ? 1e9 : -1e9};
    options.optimizer.epochs = 30;
    train_in_folder(2, dataset, options);
    EXPECT_EQ(read_json(options.run_dir / "summary.json").at("epochs"), 20) << metric;
  }
}

TEST(Training, TargetsAreScores) {
  EXPECT_EQ(to_string(parse_target("none")), "none");
  EXPECT_EQ(to_string(parse_target("-0.25")), "-0.25");
  EXPECT_EQ(parse_target("1e-2").score, 0.01);
  for (const char* text : {"", "high", "0.5x", "nan", "inf", "0,5"}) {
    EXPECT_THAT(thrown_error([&] { parse_target(text); }).what(),
                ::testing::HasSubstr(std::string("--target ") + text));
  }
  TrainOptions options = small_options();
  options.target = {0.5};
  EXPECT_NO_THROW(check_options(options));
  options.eval_every = 0;
  EXPECT_THAT(thrown_error([&] { check_options(options); }).what(),
              ::testing::HasSubstr("--target 0.5: needs evaluations"));
}

// Multi-label and binary sets: loss and metric do not depend on the number of ranks.
class TaskTest : public ::testing::TestWithParam<Task> {};

TEST_P(TaskTest, GivesTheSameNumbersOnAnyNumberOfRanks) {
  const TempDir dir;
  const Task task = GetParam();
  const Dataset source = Dataset::open(make_sbm(dir, false));
  const std::filesystem::path folder = dir.path() / "task";
  {
    DatasetWriter writer(folder);
    writer.info().name = "task";
    writer.info().task = task;
    const CsrView edges = source.graph().in_edges;
    writer.write_graph({{edges.row_ptr.begin(), edges.row_ptr.end()},
                        {edges.col_idx.begin(), edges.col_idx.end()},
                        {}});
    const auto features = writer.write_features(12);
    features->write(source.features());
    features->close();
    if (task == Task::kBinary) {
      std::vector<std::int32_t> labels;
      for (const std::int32_t label : source.labels()) labels.push_back(label < 2 ? 0 : 1);
      writer.write_labels(labels);
    } else {
      std::vector<std::uint8_t> labels;
      for (const std::int32_t label : source.labels()) {
        for (int c = 0; c < 3; ++c) labels.push_back(label == c || label == c + 1);
        if (labels.size() % 7 == 0) labels.back() = 255;
      }
      writer.write_multi_labels(labels, 3);
    }
    writer.write_splits(source.split(0), 1);
    writer.commit();
  }
  const TrainOptions options = small_options();
  const RunResult one = run_epochs(folder, 1, options, 1, 30);
  EXPECT_GT(one.metrics.test, 0.75);
  EXPECT_LT(one.losses.back(), 0.7 * one.losses.front());
  for (const int ranks : {2, 3}) {
    const RunResult several = run_epochs(folder, ranks, options, 1, 30);
    EXPECT_NEAR(several.losses[0], one.losses[0], 1e-6 * one.losses[0]);
    EXPECT_NEAR(several.losses[19], one.losses[19], 1e-4 * one.losses[19]);
    EXPECT_NEAR(several.metrics.test, one.metrics.test, 1e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, TaskTest, ::testing::Values(Task::kBinary, Task::kMultiLabel));

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

// Nothing waits for backward then.
TEST(Prediction, TakesNoMemoryOfTraining) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false);
  TrainOptions options = small_options();
  options.model.layers = 8;
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob trains(transport, dataset, {}, options);
    RankJob predicts(transport, dataset, {}, options, /*model_outputs=*/4);
    EXPECT_LT(2 * predicts.trainer().network().value_bytes(),
              trains.trainer().network().value_bytes());
    EXPECT_LT(predicts.trainer().bytes_needed(), trains.trainer().bytes_needed());
  });
}

}  // namespace
}  // namespace atl
