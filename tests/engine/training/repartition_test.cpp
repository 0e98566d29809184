// Runs that are cut anew: what goes on across cuts, what they record, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/files.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/test_rank.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

class RepartitionedRuns : public ::testing::Test {
 protected:
  static TrainOptions options(int every, bool weights = false) {
    TrainOptions options = small_options();
    options.model.dropout = 0.3;
    options.exchange = "none";
    options.repartition_every = every;
    options.coverage_weights = weights;
    options.checkpoint_every = 1;
    return options;
  }

  void run(const std::string& name, int epochs, bool resume, TrainOptions options,
           int ranks = 3) const {
    options.optimizer.epochs = epochs;
    options.start = resume ? RunStart::kResume : RunStart::kFresh;
    options.run_dir = dir_.path() / name;
    train_in_folder(ranks, dataset_, options);
  }

  std::vector<Json> lines(const std::string& name) const { return metrics_of(dir_.path() / name); }

  // But for times.
  void expect_same_run(const std::string& name, const std::string& expected) const {
    EXPECT_TRUE(read_text(dir_.path() / name / "model.safetensors") ==
                read_text(dir_.path() / expected / "model.safetensors"))
        << name;
    const std::vector<Json> found_lines = lines(name);
    const std::vector<Json> expected_lines = lines(expected);
    ASSERT_EQ(found_lines.size(), expected_lines.size()) << name;
    for (std::size_t i = 0; i < found_lines.size(); ++i) {
      for (const char* field : {"loss", "valid", "valid_loss", "cut", "edges_inside"}) {
        EXPECT_EQ(found_lines[i].value(field, Json()), expected_lines[i].value(field, Json()))
            << name << " line " << i << " " << field;
      }
    }
  }

  TempDir dir_;
  std::filesystem::path dataset_ = make_sbm(dir_, true);
};

// Stopped within a cut (2, 7), after the last epoch of one (3, 6) and after the first (4).
TEST_F(RepartitionedRuns, GoOnBitForBit) {
  for (const int ranks : {2, 3}) {
    const std::string whole = "whole-" + std::to_string(ranks);
    run(whole, 9, false, options(3, true), ranks);
    for (const int stop : ranks == 2 ? std::vector{3, 7} : std::vector{2, 3, 4, 6, 7}) {
      const std::string name = whole + "-" + std::to_string(stop);
      run(name, stop, false, options(3, true), ranks);
      run(name, 9, true, options(3, true), ranks);
      expect_same_run(name, whole);
    }
    // Resumed where nothing is left to do: metrics are added up over the same ranks.
    const Json before = read_json(dir_.path() / whole / "summary.json");
    run(whole, 9, true, options(3, true), ranks);
    const Json after = read_json(dir_.path() / whole / "summary.json");
    EXPECT_EQ(after.at("log-loss"), before.at("log-loss"));
  }
}

TEST_F(RepartitionedRuns, AreTheSameWhereSeveralRanksHoldAPart) {
  const TrainOptions in_groups = grouped(options(2, true), 2);
  run("alone", 7, false, options(2, true), 2);
  run("groups", 7, false, in_groups, 4);
  run("half", 4, false, in_groups, 4);
  run("half", 7, true, in_groups, 4);
  expect_same_run("half", "groups");
  const std::vector<Json> found = lines("groups");
  const std::vector<Json> expected = lines("alone");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].at("cut"), expected[i].at("cut"));
    EXPECT_EQ(found[i].at("edges_inside"), expected[i].at("edges_inside"));
    const double loss = expected[i].at("loss");
    EXPECT_NEAR(found[i].at("loss").get<double>(), loss, (i == 0 ? 1e-6 : 1e-5) * loss) << i;
  }
}

TEST_F(RepartitionedRuns, RecordTheirCuts) {
  run("cuts", 7, false, options(2));
  const std::vector<Json> epochs = lines("cuts");
  std::vector<int> numbers;
  std::vector<bool> made;
  for (const Json& epoch : epochs) {
    numbers.push_back(epoch.at("cut"));
    made.push_back(epoch.contains("cut_ms"));
    EXPECT_GT(epoch.at("edges_inside").get<double>(), 0.2);
    EXPECT_LT(epoch.at("edges_inside").get<double>(), 1);
  }
  EXPECT_EQ(numbers, (std::vector{0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(made, (std::vector{false, false, true, false, true, false, true}));
  EXPECT_NE(epochs[2].at("edges_inside"), epochs[4].at("edges_inside"));
  // The kept sums of the first layer are sent anew.
  EXPECT_GT(epochs[2].at("bytes_sent").get<double>(), epochs[3].at("bytes_sent").get<double>());
}

TEST_F(RepartitionedRuns, AreOrdinaryBeforeTheirSecondCutAndOnOneRank) {
  run("none", 5, false, options(0));
  run("late", 5, false, options(5, true));
  run("soon", 5, false, options(4, true));
  EXPECT_TRUE(read_text(dir_.path() / "late/checkpoint/epoch-5.safetensors").size() > 0);
  const auto losses = [&](const std::string& name) {
    std::vector<double> result;
    for (const Json& line : lines(name)) result.push_back(line.at("loss"));
    return result;
  };
  EXPECT_EQ(losses("late"), losses("none"));
  EXPECT_NE(losses("soon"), losses("none"));
  run("one-none", 4, false, options(0), 1);
  run("one", 4, false, options(1, true), 1);
  EXPECT_EQ(losses("one"), losses("one-none"));
  for (const Json& line : lines("one")) {
    EXPECT_EQ(line.at("cut"), 0);
    EXPECT_EQ(line.at("edges_inside"), 1.0);
  }
}

// Weights, moments and statistics of norms are those of the epoch before, and parameters of nodes
// have gone to the new owners.
TEST_F(RepartitionedRuns, CarryTheStateOver) {
  const Dataset source = Dataset::open(dataset_);
  DatasetWriter writer(dir_.path() / "bare");
  writer.info().directed = true;
  const CsrView edges = source.graph().in_edges;
  writer.write_graph({{edges.row_ptr.begin(), edges.row_ptr.end()},
                      {edges.col_idx.begin(), edges.col_idx.end()},
                      {}});
  writer.write_labels(source.labels());
  writer.write_splits(source.split(0), 1);
  writer.commit();
  TrainOptions own = options(1);
  own.model.node_features = "trained:6";
  run_local_ranks(3, 30, [&](Transport& transport) {
    RankJob job(transport, dir_.path() / "bare", PartitionOptions{}, own);
    for (int epoch = 1; epoch <= 3; ++epoch) job.run_epoch(epoch);
    const auto before = job.data().graph().inner_ids;
    const std::vector<GlobalId> ids(before.begin(), before.end());
    const SafetensorsFile state = job.trainer().state(true, StateOf::kAllRanks);
    const double valid = job.trainer().evaluate(3).valid_loss;
    job.enter_epoch(4);
    EXPECT_TRUE(same_tensors(job.trainer().state(true, StateOf::kAllRanks), state));
    EXPECT_FALSE(std::ranges::equal(job.data().graph().inner_ids, ids));
    // Evaluation is exact, whatever the cut.
    EXPECT_NEAR(job.trainer().evaluate(3).valid_loss, valid, 1e-5 * valid);
  });
}

TEST(NodeWeightedLoss, ScalesTheGradientOfEveryNode) {
  const PathExample path;
  const std::vector<std::int32_t> labels{0, 2, 1, 0, 2, 1};
  const std::vector<LocalId> rows{LocalId{0}, LocalId{1}, LocalId{3}, LocalId{5}};
  const std::vector<float> weights{0.5F, 2, 1, 0.25F, 4, 0};
  run_parts(path.graph(), 1, [&](Transport& transport, const LocalGraphView& graph) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const TestRank test(transport, graph, "reference");
      const Rank& rank = test.self;
      Tensor logits(rank.backend, 6, 3, dtype);
      std::vector<float> values;
      for (int i = 0; i < 18; ++i) values.push_back(static_cast<float>(i * 7 % 5) / 4);
      upload_f32(rank.backend, rank.queue, values, logits.view());
      LossTargets targets;
      targets.labels = labels;
      targets.rows = rows;
      Tensor gradient(rank.backend, 6, 3, dtype);
      const auto result = [&](Loss& loss) {
        loss.compute(rank, {}, logits.view(), gradient.view());
        rank.backend.synchronize(rank.queue);
        EXPECT_EQ(loss.total(), 4);
        return std::pair(download_f32(rank.backend, rank.queue, gradient.view()), loss.local_sum());
      };
      Loss plain(rank.backend, targets, 4);
      NodeWeightedLoss weighted(rank, targets, 4, weights, 3, dtype);
      const auto [expected, loss] = result(plain);
      const auto [found, weighted_loss] = result(weighted);
      EXPECT_EQ(weighted_loss, loss);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i], weights[i / 3] * expected[i]) << i;  // powers of two round nothing
      }
    }
  });
}

TEST_F(RepartitionedRuns, WeighNodesByWhatTheCutLeaves) {
  const auto state_after = [&](bool weights, int last) {
    SafetensorsFile state;
    double loss = 0;
    run_local_ranks(3, 30, [&](Transport& transport) {
      RankJob job(transport, dataset_, PartitionOptions{}, options(1, weights));
      double own = 0;
      for (int epoch = 1; epoch <= last; ++epoch) own = job.run_epoch(epoch).loss;
      EXPECT_EQ(job.data().node_weights().empty(), !weights || last == 1);
      const SafetensorsFile found = job.trainer().state(true);
      if (transport.rank() != 0) return;
      state = found;
      loss = own;
    });
    return std::pair(state, loss);
  };
  EXPECT_TRUE(same_tensors(state_after(true, 1).first, state_after(false, 1).first));
  const auto [weighted, weighted_loss] = state_after(true, 2);
  const auto [plain, plain_loss] = state_after(false, 2);
  EXPECT_EQ(weighted_loss, plain_loss) << "losses are reported without weights";
  EXPECT_FALSE(same_tensors(weighted, plain));
}

TEST_F(RepartitionedRuns, RefuseWhatTheyCanNot) {
  const auto message = [&](TrainOptions options, const PartitionOptions& partition = {}) {
    const Error error = thrown_error([&] {
      check_options(options);
      run_local_ranks(2, 30, [&](Transport& transport) {
        RankJob job(transport, dataset_, partition, options);
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  TrainOptions stale = options(4);
  stale.exchange = "stale";
  stale.message_bits.bits = parse_bits("32");
  EXPECT_THAT(message(stale), HasSubstr("--repartition-every 4: --exchange stale found"));
  EXPECT_THAT(message(options(0, true)), HasSubstr("--coverage-weights on"));
  TrainOptions traced = options(4);
  traced.trace = true;
  EXPECT_THAT(message(traced), HasSubstr("--trace"));
  PartitionOptions shares;
  shares.weights = {2, 1};
  EXPECT_THAT(message(options(4), shares), HasSubstr("--weights"));
}

TEST_F(RepartitionedRuns, NoticeThatTheDatasetChanged) {
  TrainOptions own = options(1);
  const Error error = thrown_error([&] {
    run_local_ranks(2, 30, [&](Transport& transport) {
      RankJob job(transport, dataset_, PartitionOptions{}, own);
      job.run_epoch(1);
      transport.barrier({"the first epoch"});
      if (transport.rank() == 0) {
        std::string features = read_text(dataset_ / "features.npy");
        features[features.size() - 3] ^= 1;
        std::filesystem::remove(dataset_ / "features.npy");
        std::FILE* file = std::fopen((dataset_ / "features.npy").c_str(), "wb");
        std::fwrite(features.data(), 1, features.size(), file);
        std::fclose(file);
      }
      transport.barrier({"the damage"});
      job.run_epoch(2);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("features.npy"));
}

}  // namespace
}  // namespace atl
