// Training that sees the training nodes alone (--inductive): against training on a dataset of these
// nodes, and with other nodes changed at will.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "datasets/dataset_writer.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// A dataset of some nodes of another, and the edges between them. feature(node, value): in place of
// each number.
template <typename Feature>
std::filesystem::path dataset_of_some(const std::filesystem::path& source,
                                      const std::filesystem::path& out,
                                      const std::vector<std::int64_t>& nodes,
                                      const Feature& feature) {
  const Dataset from = Dataset::open(source);
  const DatasetInfo& info = from.info();
  std::vector<std::int32_t> number(static_cast<std::size_t>(info.nodes), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    number[static_cast<std::size_t>(nodes[i])] = static_cast<std::int32_t>(i);
  }
  const CsrView edges = from.graph().in_edges;
  Csr csr;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> split;
  for (const std::int64_t node : nodes) {
    for (const std::int32_t neighbour : edges.row(node)) {
      const std::int32_t column = number[static_cast<std::size_t>(neighbour)];
      if (column >= 0) csr.col_idx.push_back(column);
    }
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
    labels.push_back(from.labels()[static_cast<std::size_t>(node)]);
    split.push_back(from.split(0)[static_cast<std::size_t>(node)]);
  }
  DatasetWriter writer(out);
  writer.info().name = "some";
  writer.info().directed = info.directed;
  writer.info().task = info.task;
  writer.write_graph(csr);
  const auto features = writer.write_features(info.features);
  for (const std::int64_t node : nodes) {
    for (std::int64_t c = 0; c < info.features; ++c) {
      const float value =
          feature(node, from.features()[static_cast<std::size_t>(node * info.features + c)]);
      features->write(std::span(&value, 1));
    }
  }
  features->close();
  writer.write_labels(labels);
  writer.write_splits(split, 1);
  writer.commit();
  return out;
}

class Inductive : public RunsInFolders {
 protected:
  static TrainOptions options(const std::string& model, SeenNodes seen = SeenNodes::kTrain) {
    TrainOptions options = small_options();
    options.model.kind = model;
    options.model.dropout = 0;  // which is a function of a node's number
    options.blocks.seen = seen;
    return options;
  }

  std::vector<std::int64_t> nodes_in(const std::vector<Split>& splits) const {
    const Dataset dataset = Dataset::open(dataset_);
    std::vector<std::int64_t> nodes;
    for (std::int64_t i = 0; i < dataset.info().nodes; ++i) {
      const auto split = static_cast<Split>(dataset.split(0)[static_cast<std::size_t>(i)]);
      if (std::ranges::count(splits, split) > 0) nodes.push_back(i);
    }
    return nodes;
  }
};

TEST_F(Inductive, TrainsAsOnADatasetOfTheSeenNodes) {
  const auto as_it_is = [](std::int64_t, float value) { return value; };
  for (const SeenNodes seen : {SeenNodes::kTrain, SeenNodes::kTrainAndValid}) {
    std::vector<Split> splits = {Split::kTrain};
    if (seen == SeenNodes::kTrainAndValid) splits.push_back(Split::kValid);
    const std::filesystem::path alone =
        dataset_of_some(dataset_, dir_.path() / to_string(seen), nodes_in(splits), as_it_is);
    for (const std::string model : {"gcn", "sage", "gat", "gin"}) {
      SCOPED_TRACE(fmt::format("{} {}", model, to_string(seen)));
      TrainOptions plain = options(model);
      plain.blocks = {};
      const RunResult expected = run_epochs(alone, 1, plain, 1, 20);
      for (const int ranks : {1, 3}) {
        const RunResult found = run_epochs(dataset_, ranks, options(model, seen), 1, 20);
        EXPECT_NEAR(found.losses[0], expected.losses[0], kSameParameters * expected.losses[0]);
        // Others have gradients that are nothing but rounding: the bounds are not theirs.
        if (model == "gat" || model == "gin") continue;
        EXPECT_NEAR(found.losses[4], expected.losses[4], kAfterFewSteps * expected.losses[4]);
        EXPECT_NEAR(found.losses[19], expected.losses[19], kAfter20Epochs * expected.losses[19]);
      }
    }
  }
}

TEST_F(Inductive, SeesNothingOfOtherNodes) {
  std::vector<std::int64_t> all(600);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::int64_t> seen = nodes_in({Split::kTrain});
  const std::filesystem::path wild =
      dataset_of_some(dataset_, dir_.path() / "wild", all, [&](std::int64_t node, float value) {
        return std::ranges::binary_search(seen, node) ? value : 1e6F - 1e5F * value;
      });
  for (const int ranks : {1, 3}) {
    for (const std::string exchange : {"exact", "quantized"}) {
      TrainOptions of = options("gcn");
      of.exchange = exchange;
      of.message_bits.bits = parse_bits("4");
      const RunResult tame = run_epochs(dataset_, ranks, of, 1, 6);
      const RunResult other = run_epochs(wild, ranks, of, 1, 6);
      EXPECT_EQ(tame.losses, other.losses) << exchange << ", ranks: " << ranks;
      // They are evaluated all the same.
      EXPECT_NE(tame.metrics.test, other.metrics.test);
      of.blocks = {};
      EXPECT_NE(run_epochs(dataset_, ranks, of, 1, 6).losses,
                run_epochs(wild, ranks, of, 1, 6).losses);
    }
  }
}

TEST_F(Inductive, EvaluatesTheWholeGraph) {
  const TrainOptions inductive = options("sage");
  const RunResult trained = run_epochs(dataset_, 1, inductive, 1, 4);
  TrainOptions plain = inductive;
  plain.blocks = {};
  run_local_ranks(1, 30, [&](Transport& transport) {
    RankJob job(transport, dataset_, {}, plain);
    job.trainer().load_state(trained.state, false, "state");
    const Metrics whole = job.trainer().evaluate(1);
    EXPECT_EQ(trained.metrics.train, whole.train);
    EXPECT_EQ(trained.metrics.valid, whole.valid);
    EXPECT_EQ(trained.metrics.test, whole.test);
  });
}

TEST_F(Inductive, GoesOnBitForBit) {
  for (const std::string exchange : {"exact", "quantized"}) {
    TrainOptions of = options("sage");
    of.model.dropout = 0.3;
    of.exchange = exchange;
    of.message_bits.bits = parse_bits("4");
    const std::string whole = exchange + "-whole";
    run(whole, 6, false, of);
    for (const int stop : {1, 4}) {
      const std::string name = fmt::format("{}-{}", exchange, stop);
      run(name, stop, false, of);
      run(name, 6, true, of);
      expect_same(name, whole);
    }
    const Json summary = Json::parse(read_text(dir_.path() / whole / "summary.json"));
    EXPECT_EQ(summary.at("inductive"), "train");
    // Whoever sees more is another run.
    TrainOptions more = of;
    more.blocks.seen = SeenNodes::kTrainAndValid;
    EXPECT_THAT(thrown_error([&] { run(whole, 7, true, more); }).what(), HasSubstr("inductive"));
  }
}

TEST_F(Inductive, HasRanksWithoutAnyNodeThatIsSeen) {
  // Parts are of neighbouring numbers, and training nodes the first of them.
  const Dataset source = Dataset::open(dataset_);
  std::vector<std::int64_t> all(600);
  std::iota(all.begin(), all.end(), 0);
  const std::filesystem::path folder = dataset_of_some(
      dataset_, dir_.path() / "sorted", all, [](std::int64_t, float value) { return value; });
  std::vector<std::uint8_t> split(600, 1);
  std::fill_n(split.begin(), 150, std::uint8_t{0});
  NpyWriter writer(folder / "split.npy", npy_descr<std::uint8_t>(), {1, 600});
  writer.write(std::span<const std::uint8_t>(split));
  writer.close();
  write_atomically(folder / "dataset.json", R"({"directed": true})");
  PartitionOptions cut;
  cut.method = "contiguous";
  std::vector<double> losses[2];
  for (const int ranks : {1, 3}) {
    run_local_ranks(ranks, 30, [&](Transport& transport) {
      RankJob job(transport, folder, cut, options("gcn"));
      std::vector<double> mine;
      for (int epoch = 1; epoch <= 5; ++epoch) mine.push_back(job.run_epoch(epoch).loss);
      job.trainer().evaluate(5);
      if (transport.rank() == 0) losses[ranks / 3] = mine;
    });
  }
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(losses[0][i], losses[1][i], kAfterFewSteps * losses[0][i]);
  }
}

TEST_F(Inductive, DealsTheSeenNodesToBlocks) {
  TrainOptions of = options("sage");
  of.blocks.count.number = 3;
  of.blocks.kind = BlockKind::kRandom;
  const RunResult one = run_epochs(dataset_, 1, of, 1, 5);
  const RunResult three = run_epochs(dataset_, 3, of, 1, 5);
  EXPECT_NEAR(one.losses[0], three.losses[0], kAfterFewSteps * one.losses[0]);
  EXPECT_NEAR(one.losses[4], three.losses[4], kAfter20Epochs * one.losses[4]);
}

TEST_F(Inductive, RefusesWhatItCanNot) {
  const auto refusal = [](const auto& change) {
    TrainOptions changed = options("gcn");
    change(changed);
    return std::string(thrown_error([&] { check_options(changed); }).what());
  };
  EXPECT_THAT(refusal([](TrainOptions& o) { o.local_until.epoch = 3; }),
              HasSubstr("--inductive train: --local-until 3 found"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.blocks.count.number = 4; }),
              HasSubstr("--block-kind communities found"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.blocks.count.number = 4;
                o.blocks.kind = BlockKind::kRandom;
                o.blocks.until.epoch = 2;
              }),
              HasSubstr("--blocks-until 2 found"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.node_features = "trained:8"; }),
              HasSubstr("--features trained:8 found"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.exchange = "stale";
                o.message_bits.bits = parse_bits("4");
              }),
              HasSubstr("--inductive train: --exchange stale, pipelined, found"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.model.memory = "1GiB"; }), HasSubstr("--memory"));
  EXPECT_THAT(refusal([](TrainOptions& o) {
                o.blocks.count.number = 1;
                o.blocks.kind = BlockKind::kRandom;
              }),
              HasSubstr("one block is all that training sees"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.blocks.kind = BlockKind::kRandom; }),
              HasSubstr("found without --blocks"));
}

}  // namespace
}  // namespace atl
