// Values in a file: whole runs with the bits of runs in memory, at the least memory that does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/training/block_options.hpp"
#include "tests/support/resident_pages.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

// The least memory of values with which all ranks can run.
std::int64_t least_budget(const std::filesystem::path& dataset, int ranks,
                          const TrainOptions& options) {
  std::int64_t least = 0;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    std::vector<std::int64_t> all(static_cast<std::size_t>(transport.size()), 0);
    all[static_cast<std::size_t>(transport.rank())] = job.trainer().network().least_budget();
    transport.all_reduce(std::span(all), {"least"});
    if (transport.rank() == 0) least = *std::ranges::max_element(all);
  });
  return least;
}

TrainOptions in_file(const std::filesystem::path& dataset, int ranks, TrainOptions options,
                     const TempDir& dir, double times = 1) {
  options.model.offload_folder = dir.path().string();
  options.model.paged_budget =
      static_cast<std::int64_t>(times * static_cast<double>(least_budget(dataset, ranks, options)));
  return options;
}

struct Model {
  const char* name;
  const char* kind;
  Norm norm;
  double dropout;
  DType dtype = DType::kF32;
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

class ValuesInFileOf : public ::testing::TestWithParam<Model> {};

TEST_P(ValuesInFileOf, ChangeNoBit) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/true, 1500, 12);
  TrainOptions options = small_options();
  options.model.kind = GetParam().kind;
  options.model.norm = GetParam().norm;
  options.model.dropout = GetParam().dropout;
  options.model.dtype = GetParam().dtype;
  options.model.hidden = 32;
  for (const int ranks : {1, 3}) {
    const RunResult memory = run_epochs(dataset, ranks, options, 1, 4);
    for (const double times : {1.0, 1.4}) {
      const RunResult file =
          run_epochs(dataset, ranks, in_file(dataset, ranks, options, dir, times), 1, 4);
      expect_same_run(file, memory);
      EXPECT_EQ(file.metrics.valid, memory.metrics.valid);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ValuesInFileOf,
    ::testing::Values(Model{"gcn", "gcn", Norm::kNone, 0},
                      Model{"gcn_batch_dropout", "gcn", Norm::kBatch, 0.5},
                      Model{"sage_layer", "sage", Norm::kLayer, 0.5},
                      Model{"sage_bf16", "sage", Norm::kBatch, 0.5, DType::kBf16},
                      Model{"gat", "gat", Norm::kBatch, 0}, Model{"gin", "gin", Norm::kBatch, 0},
                      Model{"gcnii", "gcnii", Norm::kNone, 0.5},
                      Model{"appnp", "appnp", Norm::kNone, 0.5}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ValuesInFile, TakeTurnsWithEvaluationsAndGoOnFromACheckpoint) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false, 1500, 12);
  // Without dropout and norm, training begins with what an evaluation has computed.
  for (const Norm norm : {Norm::kNone, Norm::kBatch}) {
    TrainOptions options = small_options();
    options.model.norm = norm;
    options.model.dropout = 0;
    const TrainOptions paged = in_file(dataset, 2, options, dir);
    const RunResult half = run_epochs(dataset, 2, options, 1, 3);
    const RunResult whole = run_epochs(dataset, 2, options, 4, 6, half.state);
    const RunResult again = run_epochs(dataset, 2, paged, 4, 6, half.state);
    expect_same_run(again, whole);
    std::vector<double> valid;
    for (const TrainOptions& each : {options, paged}) {
      run_local_ranks(2, 30, [&](Transport& transport) {
        RankJob job(transport, dataset, {}, each);
        for (int epoch = 1; epoch <= 4; ++epoch) {
          job.trainer().run_epoch(epoch);
          const Metrics metrics = job.trainer().evaluate(epoch);
          if (transport.rank() == 0) valid.push_back(metrics.valid_loss);
        }
      });
    }
    EXPECT_EQ(std::vector(valid.begin(), valid.begin() + 4),
              std::vector(valid.begin() + 4, valid.end()));
  }
}

// Losses and evaluations of epochs in turns.
std::vector<double> turns_of(const std::filesystem::path& dataset, int ranks,
                             const TrainOptions& options) {
  std::vector<double> numbers;
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    for (int epoch = 1; epoch <= 4; ++epoch) {
      const double loss = job.trainer().run_epoch(epoch).loss;
      const Metrics metrics = job.trainer().evaluate(epoch);
      if (transport.rank() == 0) {
        numbers.insert(numbers.end(), {loss, metrics.valid, metrics.valid_loss});
      }
    }
  });
  return numbers;
}

// Steps on blocks have their values in memory, those of evaluations are in the file.
TEST(ValuesInFile, OfEvaluationsLeaveStepsOnBlocksAsTheyAre) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/true, 1500, 12);
  for (const char* model : {"gcn", "sage", "gatv2"}) {
    TrainOptions options = block_options(model, 4);
    options.model.hidden = 32;
    for (const int ranks : {1, 3}) {
      const std::vector<double> memory = turns_of(dataset, ranks, options);
      for (const double times : {1.0, 1.4}) {
        EXPECT_EQ(turns_of(dataset, ranks, in_file(dataset, ranks, options, dir, times)), memory)
            << model << ", " << ranks << " ranks";
      }
    }
    options.group_ranks.number = 2;
    EXPECT_EQ(turns_of(dataset, 4, in_file(dataset, 4, options, dir)),
              turns_of(dataset, 4, options))
        << model << " in groups";
  }
}

// Features are mapped: steps on blocks read rows of them, and evaluations leave none of them in
// memory.
TEST(ValuesInFile, FeaturesLeaveMemoryWithThem) {
  const TempDir dir;
  GenerateOptions generated;
  generated.out = dir.path() / "wide";
  generated.nodes = 4000;
  generated.degree = 8;
  generated.classes = 4;
  generated.features = 256;
  generated.seed = 3;
  generate_dataset("sbm", generated);
  TrainOptions options = block_options("sage", 4);
  const TrainOptions paged = in_file(generated.out, 1, options, dir);
  const std::string features = "features.npy";
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, generated.out, {}, paged);
    const std::int64_t bytes = std::ssize(job.data().mapped_features());
    ASSERT_EQ(bytes, 4000 * 256 * 4);
    // Beside them there is room for what passes through, here for as much as two matrices.
    EXPECT_LE(paged.model.paged_budget, 3 * bytes);
    for (int epoch = 1; epoch <= 3; ++epoch) {
      job.trainer().run_epoch(epoch);
      EXPECT_GE(resident_kilobytes(features), bytes / 1024);
      const Metrics metrics = job.trainer().evaluate(epoch);
      EXPECT_GT(metrics.valid_loss, 0);
      EXPECT_LT(resident_kilobytes(features), bytes / 1024 / 10);
    }
  });
  EXPECT_EQ(turns_of(generated.out, 1, paged), turns_of(generated.out, 1, options));

  // In a group, steps gather rows from the features of the part.
  options.group_ranks.number = 2;
  const TrainOptions in_group = in_file(generated.out, 2, options, dir);
  run_local_ranks(2, 30, [&](Transport& transport) {
    RankJob job(transport, generated.out, {}, in_group);
    const std::int64_t kilobytes = 4000 * 256 * 4 / 1024;
    for (int epoch = 1; epoch <= 2; ++epoch) {
      job.trainer().run_epoch(epoch);
      transport.barrier({"an epoch"});
      EXPECT_GE(resident_kilobytes(features), kilobytes);
      transport.barrier({"it was seen"});
      job.trainer().evaluate(epoch);
      transport.barrier({"an evaluation"});
      EXPECT_LT(resident_kilobytes(features), kilobytes / 10);
      transport.barrier({"it was seen"});
    }
  });
}

// Training may begin with what an evaluation has computed, which then is a pass that has not ended.
// Metrics are of its logits.
TEST(ValuesInFile, LeaveLogitsOfASharedPassToMetrics) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false, 1500, 12);
  for (const char* kind : {"exact", "averaged", "quantized"}) {
    TrainOptions options = small_options();
    options.model.norm = Norm::kNone;
    options.model.dropout = 0;
    if (std::string(kind) == "averaged") options.optimizer.average_decay = 0.9;
    if (std::string(kind) == "quantized") {
      options.exchange = "quantized";
      options.message_bits.bits = parse_bits("4");
    }
    std::vector<std::vector<double>> numbers;
    // With more memory more is there when training ends, and is given back behind an evaluation.
    for (const TrainOptions& each : {options, in_file(dataset, 2, options, dir),
                                     in_file(dataset, 2, options, dir, /*times=*/4)}) {
      numbers.emplace_back();
      run_local_ranks(2, 30, [&](Transport& transport) {
        RankJob job(transport, dataset, {}, each);
        for (int epoch = 1; epoch <= 3; ++epoch) {
          const double loss = job.trainer().run_epoch(epoch).loss;
          for (const MetricExtent extent : {MetricExtent::kChosen, MetricExtent::kAll}) {
            const Metrics metrics = job.trainer().evaluate(epoch, extent);
            if (transport.rank() != 0) continue;
            numbers.back().insert(numbers.back().end(),
                                  {loss, metrics.train, metrics.valid, metrics.valid_loss});
          }
        }
      });
    }
    EXPECT_EQ(numbers[1], numbers[0]) << kind;
    EXPECT_EQ(numbers[2], numbers[0]) << kind;
    EXPECT_GT(numbers[0].back(), 0.1) << kind;
  }
}

TEST(ValuesInFile, OfEvaluationsAreChosenWhereBlocksTrain) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false, 10000, 8);
  TrainOptions options = block_options("gcn", 16);
  options.model.hidden = 128;
  options.model.layers = 8;
  options.model.jump = Jump::kConcatenate;  // an evaluation keeps the outputs of all layers
  options.model.memory = "1MiB";
  const auto refusal_of = [&] {
    const Error error = thrown_error([&] { run_epochs(dataset, 1, options, 1, 1); });
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    return std::string(error.what());
  };
  refusal_of();  // the first one finds the communities, which takes memory, too
  const std::string plainly = refusal_of();
  EXPECT_THAT(plainly, ::testing::Not(::testing::HasSubstr("evaluations")));
  EXPECT_THAT(plainly, ::testing::HasSubstr("use more --blocks, --offload-folder DIR, more ranks"));
  options.model.offload_folder = dir.path().string();
  const std::string refusal = refusal_of();
  EXPECT_THAT(refusal, ::testing::HasSubstr("where values of evaluations are in a file"));
  // The rest of the process differs from run to run, by less than half of what a file saves.
  const auto mib_behind = [&](const std::string& words) {
    const std::size_t at = refusal.find(words);
    EXPECT_NE(at, std::string::npos) << refusal;
    return at == std::string::npos ? 0 : std::stod(refusal.substr(at + words.size()));
  };
  const double all = mib_behind("training takes ");
  const double least = mib_behind("per rank, ");
  options.model.memory = fmt::format("{:.0f}MiB", (all + least) / 2);
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    EXPECT_GT(job.trainer().model().paged_budget, 0);
    EXPECT_LT(job.trainer().network().value_bytes(), job.trainer().network().all_value_bytes());
  });
  TrainOptions plain = options;
  plain.model.memory.clear();
  plain.model.offload_folder.clear();
  expect_same_run(run_epochs(dataset, 1, options, 1, 1), run_epochs(dataset, 1, plain, 1, 1));
}

TEST(ValuesInFile, AreChosenWhereMemoryAsksForIt) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false, 20000, 12);
  TrainOptions options = small_options();
  options.model.hidden = 128;
  options.model.layers = 8;
  options.model.memory = "1MiB";
  options.model.offload_folder = dir.path().string();
  options.model.offload = OffloadChoice::kOn;
  const std::string refusal = thrown_error([&] { run_epochs(dataset, 1, options, 1, 1); }).what();
  EXPECT_THAT(refusal, ::testing::HasSubstr("lie in a file"));
  // The least that it names is enough, but for what the second run in a process has more.
  const std::string enough = "; --memory ";
  const std::size_t at = refusal.find(enough);
  ASSERT_NE(at, std::string::npos) << refusal;
  options.model.memory = fmt::format("{}MiB", std::stoi(refusal.substr(at + enough.size())) + 16);
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    EXPECT_GT(job.trainer().model().paged_budget, 0);
    EXPECT_LT(job.trainer().network().value_bytes(), job.trainer().network().all_value_bytes());
  });
  // A little less than all: one layer is computed again in less time than pages take.
  const std::string all = "training takes ";
  const double all_mib = std::stod(refusal.substr(refusal.find(all) + all.size()));
  TrainOptions some = options;
  some.model.offload = OffloadChoice::kAuto;
  some.model.memory = fmt::format("{:.0f}MiB", all_mib - 12);
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, some);
    EXPECT_EQ(job.trainer().model().paged_budget, 0);
    EXPECT_TRUE(job.trainer().model().dropping.any());
  });
  TrainOptions plain = options;
  plain.model.memory.clear();
  plain.model.offload_folder.clear();
  plain.model.offload = OffloadChoice::kAuto;
  expect_same_run(run_epochs(dataset, 1, options, 1, 2), run_epochs(dataset, 1, plain, 1, 2));
}

TEST(ValuesInFile, NeedAFolderWithRoom) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, /*directed=*/false);
  TrainOptions options = in_file(dataset, 1, small_options(), dir);
  options.model.offload_folder = (dir.path() / "nowhere").string();
  EXPECT_THAT(thrown_error([&] { run_epochs(dataset, 1, options, 1, 1); }).what(),
              ::testing::HasSubstr(options.model.offload_folder));
}

}  // namespace
}  // namespace atl
