// Training on blocks: the same numbers on any number of ranks and across a resume, and those of the
// subgraph as a dataset of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "base/files.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/block_dealing.hpp"
#include "engine/training/network_state.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/block_options.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/engine/training/loss_bounds.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// --- any number of ranks -----------------------------------------------------------------------

class BlocksOnRanks : public ::testing::TestWithParam<std::tuple<std::string, bool, BlockKind>> {};

TEST_P(BlocksOnRanks, TrainTheSameNumbers) {
  const TempDir dir;
  const auto [model, directed, kind] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, directed);
  TrainOptions options = block_options(model, 3, kind);
  if (model == "gatv2") options.model.hidden = 8;
  const RunResult one = run_epochs(dataset, 1, options, 1, 4);
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const int ranks : {2, 3, 4}) {
    const RunResult several = run_epochs(dataset, ranks, options, 1, 4);
    EXPECT_NEAR(several.losses[0], one.losses[0], kAfterFewSteps * one.losses[0]) << ranks;
    EXPECT_NEAR(several.losses[1], one.losses[1], kAfterFewSteps * one.losses[1]) << ranks;
    EXPECT_NEAR(several.losses[3], one.losses[3], kAfter20Epochs * one.losses[3]) << ranks;
    EXPECT_NEAR(several.metrics.valid_loss, one.metrics.valid_loss,
                kAfter20Epochs * one.metrics.valid_loss)
        << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BlocksOnRanks,
    ::testing::Combine(::testing::Values("gcn", "sage", "gatv2"), ::testing::Bool(),
                       ::testing::Values(BlockKind::kCommunities, BlockKind::kRandom)));

TEST(BlockTraining, RepeatsBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = block_options("sage", 4);
  const RunResult first = run_epochs(dataset, 3, options, 1, 3);
  expect_same_run(run_epochs(dataset, 3, options, 1, 3), first);
  options.overlap = false;
  expect_same_run(run_epochs(dataset, 3, options, 1, 3), first);
  options.overlap = true;
  options.seed = 2;
  EXPECT_NE(run_epochs(dataset, 3, options, 1, 1).losses[0], first.losses[0]);
}

// --- against the subgraph ----------------------------------------------------------------------

// `source` with training nodes in one block alone; or that block as a dataset of its own.
class OneBlock {
 public:
  OneBlock(const std::filesystem::path& source, const TrainOptions& options, int block)
      : dataset_(Dataset::open(source)) {
    run_local_ranks(1, 30, [&](Transport& transport) {
      RankJob job(transport, source, {}, options);
      const LocalGraphView& graph = job.data().graph();
      const BlockDealing dealing(transport, source, graph, options.blocks, options.seed);
      const NodeNumbers numbers = dealing.of_epoch(1);
      is_in_.resize(graph.inner_ids.size());
      for (std::size_t i = 0; i < is_in_.size(); ++i) {
        is_in_[to_index(graph.inner_ids[i])] = numbers.inner[i] == block ? 1 : 0;
      }
    });
  }

  void write_whole(const std::filesystem::path& folder) const {
    DatasetWriter writer(folder);
    writer.info().directed = dataset_.info().directed;
    const CsrView edges = dataset_.graph().in_edges;
    writer.write_graph({{edges.row_ptr.begin(), edges.row_ptr.end()},
                        {edges.col_idx.begin(), edges.col_idx.end()},
                        {}});
    std::vector<std::uint8_t> split(dataset_.split(0).begin(), dataset_.split(0).end());
    for (std::size_t v = 0; v < split.size(); ++v) {
      if (is_in_[v] == 0 && split[v] == 0) split[v] = 255;
    }
    const auto features = writer.write_features(dataset_.info().features);
    features->write(dataset_.features());
    features->close();
    writer.write_labels(dataset_.labels(), dataset_.info().classes);
    writer.write_splits(split, 1);
    writer.commit();
  }

  void write_block(const std::filesystem::path& folder) const {
    DatasetWriter writer(folder);
    writer.info().directed = dataset_.info().directed;
    const CsrView edges = dataset_.graph().in_edges;
    std::vector<std::int32_t> number(is_in_.size(), -1);
    std::int32_t nodes = 0;
    for (std::size_t v = 0; v < is_in_.size(); ++v) {
      if (is_in_[v] != 0) number[v] = nodes++;
    }
    Csr own;
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> split;
    std::vector<float> features;
    const auto columns = static_cast<std::size_t>(dataset_.info().features);
    for (std::size_t v = 0; v < is_in_.size(); ++v) {
      if (is_in_[v] == 0) continue;
      for (const std::int32_t u : edges.row(static_cast<std::int64_t>(v))) {
        if (number[u] >= 0) own.col_idx.push_back(number[u]);
      }
      own.row_ptr.push_back(std::ssize(own.col_idx));
      labels.push_back(dataset_.labels()[v]);
      split.push_back(dataset_.split(0)[v]);
      const auto row = dataset_.features().subspan(v * columns, columns);
      features.insert(features.end(), row.begin(), row.end());
    }
    writer.write_graph(own);
    const auto file = writer.write_features(dataset_.info().features);
    file->write(std::span<const float>(features));
    file->close();
    writer.write_labels(labels, dataset_.info().classes);
    writer.write_splits(split, 1);
    writer.commit();
  }

 private:
  Dataset dataset_;
  std::vector<std::uint8_t> is_in_;  // by node
};

double largest_distance(const SafetensorsFile& found, const SafetensorsFile& expected) {
  double largest = 0;
  // Training on blocks counts its steps.
  EXPECT_EQ(found.tensors.size(), expected.tensors.size() + found.tensors.count("adam.steps"));
  for (const auto& [name, tensor] : expected.tensors) {
    const auto& other = found.tensors.at(name);
    EXPECT_EQ(other.bytes.size(), tensor.bytes.size()) << name;
    const auto compare = [&]<typename T>(T /*type*/) {
      for (std::size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
        T a = 0;
        T b = 0;
        std::memcpy(&a, tensor.bytes.data() + at, sizeof(T));
        std::memcpy(&b, other.bytes.data() + at, sizeof(T));
        largest = std::max(largest, std::abs(static_cast<double>(a) - static_cast<double>(b)));
      }
    };
    if (tensor.dtype == "F64") {
      compare(0.0);
    } else {
      compare(0.0F);
    }
  }
  return largest;
}

class BlockAsDataset : public ::testing::TestWithParam<std::tuple<std::string, bool, BlockKind>> {};

// The only block with training nodes makes the only step of the epoch. Moments say what the
// gradient was: they are (1 - beta) of it and of its square.
TEST_P(BlockAsDataset, HasTheSameGradient) {
  const auto [model, directed, kind] = GetParam();
  const TempDir dir;
  const std::filesystem::path source = make_sbm(dir, directed, 300, 8);
  TrainOptions options = block_options(model, 3, kind);
  options.model.hidden = 8;
  options.model.dropout = 0;  // nodes have other numbers there
  // The communities, and with them the blocks, are of the graph.
  const OneBlock block(source, options, 0);
  block.write_block(dir.path() / "block");
  block.write_whole(dir.path() / "whole");
  TrainOptions plain = options;
  plain.blocks = {};
  const RunResult expected = run_epochs(dir.path() / "block", 1, plain, 1, 1);
  for (const int ranks : {1, 3}) {
    const RunResult found = run_epochs(dir.path() / "whole", ranks, options, 1, 1);
    EXPECT_NEAR(found.losses[0], expected.losses[0], kSameParameters * expected.losses[0]) << ranks;
    SafetensorsFile moments = found.state;
    SafetensorsFile expected_moments = expected.state;
    // The first step of Adam goes by the sign of a gradient, whatever its size.
    for (SafetensorsFile* file : {&moments, &expected_moments}) {
      std::erase_if(file->tensors, [](const auto& entry) {
        return !entry.first.starts_with("adam") && entry.first.find("running") == std::string::npos;
      });
    }
    EXPECT_GT(moments.tensors.size(), 8U);
    EXPECT_LT(largest_distance(moments, expected_moments), 2e-6) << ranks;
  }
  const RunResult all = run_epochs(dir.path() / "whole", 1, plain, 1, 1);
  EXPECT_GT(std::abs(all.losses[0] - expected.losses[0]), 1e-3 * expected.losses[0])
      << "edges that leave the block count";
}

INSTANTIATE_TEST_SUITE_P(
    Models, BlockAsDataset,
    ::testing::Combine(::testing::Values("gcn", "sage", "gatv2"), ::testing::Bool(),
                       ::testing::Values(BlockKind::kCommunities, BlockKind::kRandom)));

// --- graphs in pieces --------------------------------------------------------------------------

// Eight cliques of eight nodes: as many communities as two blocks of so few nodes are dealt. The
// first nodes of each are trained on, as many as its number says; alike: three, and all else is the
// same in all of them, too.
std::filesystem::path make_cliques(const TempDir& dir, Task task, bool alike = false) {
  constexpr int kCliques = 8;
  constexpr int kSize = 8;
  DatasetWriter writer(dir.path() / to_string(task));
  writer.info().task = task;
  Csr csr;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> multi_labels;
  std::vector<float> numbers;
  std::vector<std::uint8_t> split;
  std::vector<float> features;
  for (int node = 0; node < kCliques * kSize; ++node) {
    const int first = node / kSize * kSize;
    for (int u = first; u < first + kSize; ++u) {
      if (u != node) csr.col_idx.push_back(u);
    }
    const int v = alike ? node - first : node;
    csr.row_ptr.push_back(std::ssize(csr.col_idx));
    for (int c = 0; c < 3; ++c) {
      features.push_back(static_cast<float>((v * 7 + c * 5) % 11) / 11);
      multi_labels.push_back(static_cast<std::uint8_t>((v + c) % 4 == 3 ? 255 : (v >> c) % 2));
    }
    labels.push_back(v * v % 3);
    numbers.push_back(v % 5 == 2 ? NAN : static_cast<float>(v % 9));
    split.push_back(node - first < (alike ? 3 : node / kSize) ? 0 : 1);
  }
  writer.write_graph(csr);
  const auto file = writer.write_features(3);
  file->write(std::span<const float>(features));
  file->close();
  if (task == Task::kMultiLabel) {
    writer.write_multi_labels(multi_labels, 3);
  } else if (task == Task::kRegression) {
    writer.write_real_labels(numbers, 1);
  } else {
    writer.write_labels(labels);
  }
  writer.write_splits(split, 1);
  writer.commit();
  return dir.path() / to_string(task);
}

std::vector<EpochResult> epochs_of(const std::filesystem::path& dataset, int ranks,
                                   const TrainOptions& options, int last) {
  std::vector<EpochResult> result;
  run_local_ranks(ranks, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob job(transport, dataset, partition, options);
    for (int epoch = 1; epoch <= last; ++epoch) {
      EpochResult own = job.run_epoch(epoch);
      if (transport.rank() == 0) result.push_back(std::move(own));
    }
  });
  return result;
}

// Then blocks have all edges, and as long as nothing is learned all steps together have the loss of
// the whole graph: a mean over nodes, or labels, or their weights, of which one block has more than
// the other.
TEST(BlockTraining, OfPiecesKeepsAllEdgesAndTheirLoss) {
  const TempDir dir;
  for (const Task task : {Task::kSingleLabel, Task::kMultiLabel, Task::kRegression}) {
    const std::filesystem::path dataset = make_cliques(dir, task);
    for (const bool weighted : {false, true}) {
      if (weighted && task == Task::kRegression) continue;
      TrainOptions options = block_options("gcn", 2);
      options.model.norm = Norm::kNone;
      options.model.dropout = 0;
      options.optimizer.learning_rate = 1e-12;
      if (weighted) options.loss.class_weights = kBalancedWeights;
      TrainOptions plain = options;
      plain.blocks = {};
      const double expected = epochs_of(dataset, 1, plain, 1)[0].loss;
      for (const int ranks : {1, 3}) {
        for (const EpochResult& epoch : epochs_of(dataset, ranks, options, 3)) {
          EXPECT_NEAR(epoch.loss, expected, kSameParameters * expected) << to_string(task);
          ASSERT_TRUE(epoch.blocks);
          EXPECT_EQ(epoch.blocks->edges_kept, 1);
          EXPECT_EQ(epoch.blocks->steps, 2);
        }
        options.blocks.kind = BlockKind::kRandom;
        EXPECT_LT(epochs_of(dataset, ranks, options, 1)[0].blocks->edges_kept, 0.8);
        options.blocks.kind = BlockKind::kCommunities;
      }
    }
  }
}

std::map<std::string, std::vector<float>> first_moments(const SafetensorsFile& state) {
  std::map<std::string, std::vector<float>> result;
  for (const auto& [name, tensor] : state.tensors) {
    if (!name.starts_with("adam.m.")) continue;
    std::vector<float>& values = result[name];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return result;
}

// Without learning, moments after two steps are .1 times the gradient of the second one and .09
// times that of the first: each of them that of the mean over the training nodes of one block,
// which of pieces is what the whole graph gives where these are all there are.
TEST(BlockTraining, TakesTheMeanOverEachBlock) {
  const TempDir dir;
  const std::filesystem::path source = make_cliques(dir, Task::kSingleLabel);
  TrainOptions options = block_options("gcn", 2);
  options.model.norm = Norm::kNone;
  options.model.dropout = 0;
  options.optimizer.learning_rate = 1e-12;
  TrainOptions plain = options;
  plain.blocks = {};
  std::vector<std::map<std::string, std::vector<float>>> steps;
  for (const int block : {0, 1}) {
    const std::filesystem::path alone = dir.path() / std::to_string(block);
    OneBlock(source, options, block).write_whole(alone);
    steps.push_back(first_moments(run_epochs(alone, 1, plain, 1, 1).state));
  }
  for (const int ranks : {1, 3}) {
    const auto found = first_moments(run_epochs(source, ranks, options, 1, 1).state);
    ASSERT_EQ(found.size(), steps[0].size());
    double largest = 0;
    for (const auto& [name, values] : found) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], 0.9F * steps[0].at(name)[i] + steps[1].at(name)[i], 1e-6) << name;
        largest = std::max(largest, static_cast<double>(std::abs(values[i])));
      }
    }
    EXPECT_GT(largest, 1e-3);
  }
}

// Where all pieces are alike, so are the gradients of a block and of the whole graph: an epoch on
// two blocks is two epochs.
TEST(BlockTraining, OfPiecesThatAreAlikeMakesTheStepsOfTheWholeGraph) {
  const TempDir dir;
  const std::filesystem::path dataset = make_cliques(dir, Task::kSingleLabel, /*alike=*/true);
  TrainOptions options = block_options("sage", 2);
  options.model.norm = Norm::kLayer;
  options.model.dropout = 0;
  options.optimizer.weight_decay = 0.01;
  TrainOptions plain = options;
  plain.blocks = {};
  const RunResult expected = run_epochs(dataset, 1, plain, 1, 6);
  EXPECT_LT(expected.losses[5], 0.9 * expected.losses[0]);
  for (const int ranks : {1, 3}) {
    const RunResult found = run_epochs(dataset, ranks, options, 1, 3);
    EXPECT_LT(largest_distance(found.state, expected.state), 1e-5) << ranks;
    // Then whole epochs go on from there, as the 7th and 8th step.
    options.blocks.until.epoch = 3;
    const RunResult later = run_epochs(dataset, ranks, options, 1, 5);
    EXPECT_LT(largest_distance(later.state, run_epochs(dataset, 1, plain, 1, 8).state), 2e-5);
    options.blocks.until.epoch = 0;
  }
}

// As many blocks as nodes: some have none, most have no training node, and ranks have no row of
// others.
TEST(BlockTraining, LeavesOutBlocksWithoutTrainingNodes) {
  const TempDir dir;
  const std::filesystem::path dataset = make_cliques(dir, Task::kSingleLabel);
  for (const std::string model : {"sage", "gatv2"}) {
    TrainOptions options = block_options(model, 64);
    if (model == "gatv2") options.model.hidden = 8;
    options.model.norm = Norm::kLayer;
    const std::vector<EpochResult> one = epochs_of(dataset, 1, options, 2);
    const std::vector<EpochResult> three = epochs_of(dataset, 3, options, 2);
    EXPECT_EQ(one[0].blocks->steps, 28) << "a training node each";
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(three[i].blocks->steps, one[i].blocks->steps);
      EXPECT_NEAR(three[i].loss, one[i].loss, kAfter20Epochs * one[i].loss) << model;
    }
    options.blocks.kind = BlockKind::kRandom;
    EXPECT_LT(epochs_of(dataset, 3, options, 1)[0].blocks->steps, 28);
  }
}

// Few of so few nodes have neighbours in their block: some ranks neither send nor need rows there,
// and some have none at all.
TEST(BlockTraining, HasRanksThatNeedNoRowsOfOthers) {
  const TempDir dir;
  const std::filesystem::path plain = make_sbm(dir, true, 120);
  const std::filesystem::path typed = make_relational(dir);
  for (const char* model : {"gat", "gatv2", "rgcn", "sage", "gcn"}) {
    const std::filesystem::path& dataset = std::string(model) == "rgcn" ? typed : plain;
    TrainOptions options = block_options(model, 40, BlockKind::kRandom);
    options.model.norm = Norm::kNone;
    options.model.dropout = 0;
    options.model.hidden = 8;
    if (std::string(model) == "sage") options.model.aggregator = Aggregator::kMax;
    const RunResult exact = run_epochs(dataset, 3, options, 1, 2);
    TrainOptions rounded = options;
    rounded.exchange = "quantized";
    rounded.message_bits.bits = parse_bits("8");
    TrainOptions narrow = options;
    narrow.model.dtype = DType::kBf16;
    for (const TrainOptions& other : {rounded, narrow}) {
      const RunResult found = run_epochs(dataset, 3, other, 1, 2);
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_NEAR(found.losses[epoch], exact.losses[epoch], 2e-2 * exact.losses[epoch]) << model;
      }
      EXPECT_NE(found.losses, exact.losses) << model;
    }
  }
}

// Steps that blocks without training nodes leave out are none of them; epochs on the whole graph
// are one each.
TEST(BlockTraining, CountsTheStepsThatAreMade) {
  const TempDir dir;
  const std::filesystem::path dataset = make_cliques(dir, Task::kSingleLabel);
  TrainOptions options = block_options("sage", 64);
  options.blocks.until.epoch = 2;
  run_local_ranks(2, 30, [&](Transport& transport) {
    RankJob job(transport, dataset, {}, options);
    for (int epoch = 1; epoch <= 3; ++epoch) job.run_epoch(epoch);
    const SafetensorsFile state = job.trainer().state(/*optimizer=*/true);
    EXPECT_EQ(steps_of(state, "the state"), 28 + 28 + 1);
  });
}

// From weights that another run with that rate may have left, too.
TEST(BlockTraining, GoesOnWithTheRateAfterBlocks) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const LearningRateSchedule schedule :
       {LearningRateSchedule::kConstant, LearningRateSchedule::kCosine,
        LearningRateSchedule::kStep}) {
    TrainOptions options = block_options("sage", 3);
    options.optimizer.schedule = schedule;
    options.optimizer.step_epochs = 1;
    options.optimizer.warmup_epochs = 4;
    options.optimizer.learning_rate = 0.005;
    options.optimizer.parameter_groups = "layers.0.*: lr=0.001";
    options.blocks.until.epoch = 2;
    const SafetensorsFile on_blocks = run_epochs(dataset, 2, options, 1, 2).state;
    const RunResult same = run_epochs(dataset, 2, options, 1, 4);
    TrainOptions higher = options;
    higher.optimizer.learning_rate = 0.02;
    higher.optimizer.parameter_groups = "layers.0.*: lr=0.004";
    const RunResult expected = run_epochs(dataset, 2, higher, 3, 4, on_blocks);
    options.switching.rate_after = 0.02;
    const RunResult found = run_epochs(dataset, 2, options, 1, 4);
    EXPECT_EQ(found.losses[3], expected.losses[1]);
    EXPECT_TRUE(same_tensors(found.state, expected.state));
    EXPECT_TRUE(same_tensors(run_epochs(dataset, 2, options, 1, 2).state, on_blocks));
    EXPECT_FALSE(same_tensors(found.state, same.state));
  }
}

TEST(BlockTraining, AutomaticallyTakesBlocksByTheNodes) {
  EXPECT_EQ(blocks_for(2), 2);
  EXPECT_EQ(blocks_for(2708), 2);
  EXPECT_EQ(blocks_for(7650), 7);
  EXPECT_EQ(blocks_for(18333), 16);
  EXPECT_EQ(blocks_for(169343), 33);
  EXPECT_EQ(blocks_for(2449029), 489);
  EXPECT_EQ(blocks_for(111059956), 512);
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, false, 3200);
  TrainOptions options = block_options("sage", 3);
  const RunResult three = run_epochs(dataset, 2, options, 1, 2);
  options.blocks.count = {.automatic = true};
  expect_same_run(run_epochs(dataset, 2, options, 1, 2), three);
}

TEST(BlockTraining, SendsTheBytesOfTheFormula) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  const TrainOptions options = block_options("gcn", 2);
  run_local_ranks(3, 30, [&](Transport& transport) {
    PartitionOptions partition;
    partition.method = "random";
    RankJob job(transport, dataset, partition, options);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      const EpochResult result = job.run_epoch(epoch);
      std::int64_t expected = job.trainer().halo_bytes_per_epoch();
      EXPECT_GT(expected, 0);
      const std::int64_t hidden = options.model.hidden;
      const std::int64_t parameters = (12 * 16) + 16 + 16 + (16 * 16) + 16 + 16 + (16 * 4) + 16;
      const int rank = transport.rank();
      expected += all_reduce_bytes(2 * 2, 8, rank, 3);  // nodes and training nodes of two blocks
      expected += 2 * (4 * all_reduce_bytes(2 * hidden, 8, rank, 3) +
                       all_reduce_bytes(parameters, 4, rank, 3));
      transport.all_reduce(std::span(&expected, 1), {"expected bytes"});
      EXPECT_EQ(result.bytes_sent, expected);
    }
  });
}

// --- what is refused ----------------------------------------------------------------------------

TEST(BlockTraining, RefusesWhatItCanNot) {
  const auto message = [](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = block_options("gcn", 4);
    change(options);
    const Error error = thrown_error([&] { check_options(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  EXPECT_THAT(message([](TrainOptions& o) { o.blocks.count.number = 1; }), HasSubstr("--blocks 1"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.blocks.count.number = 0;
                o.blocks.until.epoch = 3;
              }),
              HasSubstr("--blocks-until 3"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.blocks.count.number = 0;
                o.blocks.kind = BlockKind::kRandom;
              }),
              HasSubstr("--block-kind random"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.blocks.until.by_accuracy = true;
                o.eval_every = 0;
              }),
              HasSubstr("--blocks-until accuracy: needs evaluations"));
  EXPECT_THAT(message([](TrainOptions& o) { o.switching.patience = 5; }),
              HasSubstr("--switch-patience 5"));
  EXPECT_THAT(message([](TrainOptions& o) { o.switching.rate_after = 0.1; }),
              HasSubstr("--lr-after-switch 0.1"));
  for (const std::string mode : {"stale", "sampled", "periodic", "skip", "compensated"}) {
    EXPECT_THAT(message([&](TrainOptions& o) {
                  o.exchange = mode;
                  o.message_bits.bits = parse_bits(exchange_mode(mode).usual_bits);
                }),
                HasSubstr("--exchange " + mode));
  }
  for (const std::string bits : {"adaptive", "random"}) {
    EXPECT_THAT(message([&](TrainOptions& o) {
                  o.exchange = "quantized";
                  o.message_bits.bits = parse_bits(bits);
                }),
                HasSubstr("--bits " + bits));
  }
  EXPECT_THAT(message([](TrainOptions& o) { o.trace = true; }), HasSubstr("--trace"));
  EXPECT_THAT(message([](TrainOptions& o) { o.model.recompute_all = true; }),
              HasSubstr("--recompute all"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.model.memory = "1GiB";
                o.blocks.until.epoch = 3;
              }),
              HasSubstr("--memory found, where epochs on the whole graph follow"));
  EXPECT_THAT(message([](TrainOptions& o) {
                o.model.memory = "1GiB";
                o.blocks = {};
                o.blocks.seen = SeenNodes::kTrain;
              }),
              HasSubstr("--memory found"));
  EXPECT_THAT(message([](TrainOptions& o) { o.model.offload = OffloadChoice::kOn; }),
              HasSubstr("--offload on found"));
  EXPECT_THAT(message([](TrainOptions& o) { o.cuda_graph = GraphReplay::kOn; }),
              HasSubstr("--cuda-graph on"));
  const TempDir dir;
  const std::filesystem::path dataset = make_cliques(dir, Task::kSingleLabel);
  const Error error = thrown_error([&] { epochs_of(dataset, 2, block_options("gcn", 65), 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("allowed are 2 to 64"));
}

TEST(BlockTraining, RefusesNegativeWeights) {
  const TempDir dir;
  DatasetWriter writer(dir.path() / "weighted");
  writer.info().directed = true;
  writer.write_graph({{0, 2, 4, 5, 5}, {1, 2, 0, 2, 3}, {1, 0.5F, 1, -0.25F, 1}});
  const auto features = writer.write_features(1);
  const std::vector<float> values{1, 2, 3, 4};
  features->write(std::span<const float>(values));
  features->close();
  writer.write_labels(std::vector<std::int32_t>{0, 1, 0, 1}, 2);
  writer.write_splits(std::vector<std::uint8_t>{0, 0, 1, 2}, 1);
  writer.commit();
  const Error error =
      thrown_error([&] { epochs_of(dir.path() / "weighted", 2, block_options("gcn", 2), 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("weighs -0.25"));
}

}  // namespace
}  // namespace atl
