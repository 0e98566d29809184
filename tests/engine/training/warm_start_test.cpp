// Runs that begin with the model of another run, and what is measured of the steps of a dataset.
#include "engine/training/warm_start.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/dataset_writer.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Without features, so that those of nodes are trained.
fs::path without_features(const fs::path& folder) {
  const Dataset source = Dataset::open(folder);
  const fs::path out = folder.string() + "-bare";
  DatasetWriter writer(out);
  writer.info().directed = true;
  const CsrView edges = source.graph().in_edges;
  writer.write_graph({{edges.row_ptr.begin(), edges.row_ptr.end()},
                      {edges.col_idx.begin(), edges.col_idx.end()},
                      {}});
  writer.write_labels(source.labels(), source.info().classes);
  writer.write_splits(source.split(0), 1);
  writer.commit();
  return out;
}

class WarmStarts : public RunsInFolders {
 protected:
  void SetUp() override { run("old", 5, false, small_options(), 1); }

  TrainOptions options(const std::string& from = "old") const {
    TrainOptions options = small_options();
    options.warm_start = dir_.path() / from;
    options.seed = 4;
    return options;
  }
  Json summary(const std::string& name) const {
    return read_json(dir_.path() / name / "summary.json");
  }
};

TEST_F(WarmStarts, BeginWithTheBestModelOnAnyRanks) {
  for (const int ranks : {1, 2, 3}) {
    run_local_ranks(ranks, 60, [&](Transport& transport) {
      TrainOptions own = options();
      if (ranks == 2) own.group_ranks = parse_group_ranks("2");
      RankJob job(transport, dataset_, PartitionOptions{}, own);
      load_warm_start(job.trainer(), own.warm_start, transport);
      const Metrics metrics = job.trainer().evaluate(0);
      for (const auto& [split, value] : {std::pair{"valid", metrics.valid},
                                         {"test", metrics.test},
                                         {"valid_loss", metrics.valid_loss}}) {
        const auto expected = summary("old").at(split).get<double>();
        EXPECT_NEAR(value, expected, 1e-5 * std::abs(expected)) << ranks << " " << split;
      }
    });
  }
  EXPECT_EQ(warm_start_nodes(dir_.path() / "old"), 600);
  EXPECT_EQ(warm_start_nodes(dir_.path() / "old" / "model.safetensors"), 600);
}

TEST_F(WarmStarts, GoOnAsIfNeverStoppedAndFromNoOtherModel) {
  TrainOptions own = options();
  own.model.dropout = 0.3;
  own.replay = {{20}, ReplaySelect::kCover, ReplayWeights::kMatch, 400};
  run("whole", 6, false, own);
  run("part", 3, false, own);
  run("part", 6, true, own);
  expect_same("part", "whole");
  EXPECT_EQ(summary("part").at("replay"), summary("whole").at("replay"));
  EXPECT_EQ(summary("part").at("warm_start"), summary("whole").at("warm_start"));
  const auto refused = [&](const TrainOptions& other, const char* text) {
    const Error error = thrown_error([&] { run("part", 7, true, other); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr(text));
  };
  TrainOptions other = own;
  other.warm_start = dir_.path() / "whole";
  refused(other, "warm-start = ");
  other = own;
  other.replay.count.nodes = 21;
  refused(other, R"(replay = "20")");
  other = small_options();
  other.seed = 4;
  other.model.dropout = 0.3;
  refused(other, "this run has its default");
}

TEST_F(WarmStarts, RefuseModelsOfAnotherShape) {
  const auto message = [&](TrainOptions options) {
    const Error error = thrown_error([&] {
      run_local_ranks(2, 30, [&](Transport& transport) {
        RankJob job(transport, dataset_, PartitionOptions{}, options);
        load_warm_start(job.trainer(), options.warm_start, transport);
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what());
  };
  TrainOptions own = options();
  own.model.hidden = 8;
  EXPECT_THAT(message(own), HasSubstr("layers.0.weight is F32 [12, 16] and must be F32 [12, 8]"));
  own = options();
  own.model.layers = 2;
  EXPECT_THAT(message(own), HasSubstr("surplus"));
  own = options("nothing");
  fs::create_directory(own.warm_start);
  EXPECT_THAT(message(own), HasSubstr("holds no model.safetensors"));
}

TEST_F(WarmStarts, KeepTrainedRowsOfOldNodesAndMakeThoseOfNewOnes) {
  TrainOptions trained = small_options();
  trained.model.node_features = "trained:4";
  dataset_ = without_features(dataset_);
  run("rows", 3, false, trained, 2);
  const fs::path larger = without_features(make_sbm(dir_, true, 700));
  trained.warm_start = dir_.path() / "rows";
  trained.seed = 9;
  const SafetensorsFile old = read_safetensors(dir_.path() / "rows" / "model.safetensors");
  run_local_ranks(3, 60, [&](Transport& transport) {
    RankJob job(transport, larger, PartitionOptions{}, trained);
    const SafetensorsFile cold = job.trainer().state(false, StateOf::kAllRanks);
    load_warm_start(job.trainer(), trained.warm_start, transport);
    const SafetensorsFile warm = job.trainer().state(false, StateOf::kAllRanks);
    for (const auto& [name, tensor] : warm.tensors) {
      const auto& known = old.tensors.at(name).bytes;
      ASSERT_GE(tensor.bytes.size(), known.size()) << name;
      EXPECT_TRUE(std::equal(known.begin(), known.end(), tensor.bytes.begin())) << name;
      EXPECT_TRUE(std::equal(tensor.bytes.begin() + std::ssize(known), tensor.bytes.end(),
                             cold.tensors.at(name).bytes.begin() + std::ssize(known)))
          << name;
    }
    EXPECT_EQ(warm.tensors.at("input.nodes").shape, (std::vector<std::int64_t>{700, 4}));
  });
  trained.warm_start.clear();
  run("more", 1, false, trained, 1);  // of 600 nodes
  const fs::path smaller = without_features(make_sbm(dir_, true, 500));
  trained.warm_start = dir_.path() / "more";
  const Error error = thrown_error([&] {
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, smaller, PartitionOptions{}, trained);
      load_warm_start(job.trainer(), trained.warm_start, transport);
    });
  });
  EXPECT_THAT(error.what(), HasSubstr("trained features of 600 nodes, the dataset has 500"));
}

TEST_F(WarmStarts, StepsOfADatasetAddUpToItsTestNodes) {
  for (const int ranks : {1, 3}) {
    TrainOptions own = options();
    own.sequence = "150,400,700";
    const std::string name = "steps-" + std::to_string(ranks);
    run(name, 3, false, own, ranks);
    const Json found = summary(name);
    const Json& steps = found.at("sequence");
    ASSERT_EQ(steps.size(), 3U);
    EXPECT_EQ(steps[0].at("nodes"), Json({0, 150}));
    EXPECT_EQ(steps[2].at("nodes"), Json({400, 600}));
    double right = 0;
    double nodes = 0;
    for (const Json& step : steps) {
      right += step.at("test").get<double>() * step.at("test_nodes").get<double>();
      nodes += step.at("test_nodes").get<double>();
    }
    EXPECT_NEAR(right / nodes, found.at("test").get<double>(), 1e-9);
    if (ranks > 1) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Json alone = summary("steps-1").at("sequence")[i];
        EXPECT_EQ(steps[i].at("test_nodes"), alone.at("test_nodes"));
        EXPECT_NEAR(steps[i].at("test").get<double>(), alone.at("test").get<double>(), 0.03);
      }
    }
  }
}

}  // namespace
}  // namespace atl
