// Blocks, and graphs of the seen nodes alone, where several ranks hold a part together: the numbers
// of ranks that have one alone, and the bytes of the formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "datasets/dataset_writer.hpp"
#include "tests/engine/training/block_options.hpp"
#include "tests/engine/training/loss_bounds.hpp"

namespace atl {
namespace {

void expect_near_losses(const RunResult& found, const RunResult& expected, int ranks) {
  const std::size_t last = expected.losses.size() - 1;
  for (const auto& [epoch, bound] : {std::pair{std::size_t{0}, kAfterFewSteps},
                                     {std::size_t{1}, kAfterFewSteps},
                                     {last, kAfter20Epochs}}) {
    const double loss = expected.losses[epoch];
    EXPECT_NEAR(found.losses[epoch], loss, bound * loss) << "epoch " << epoch + 1 << ", " << ranks;
  }
  EXPECT_NEAR(found.metrics.valid_loss, expected.metrics.valid_loss,
              kAfter20Epochs * expected.metrics.valid_loss)
      << ranks;
}

class BlocksInGroups : public ::testing::TestWithParam<std::tuple<std::string, bool, BlockKind>> {};

TEST_P(BlocksInGroups, TrainTheNumbersOfRanksThatHoldAPartAlone) {
  const TempDir dir;
  const auto [model, directed, kind] = GetParam();
  const std::filesystem::path dataset = make_sbm(dir, directed);
  TrainOptions options = block_options(model, 3, kind);
  options.model.hidden = 32;
  options.model.heads = options.model.output_heads = 4;
  const RunResult alone = run_epochs(dataset, 4, options, 1, 4);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int ranks : {2, 4}) {
    expect_near_losses(run_epochs(dataset, 4, grouped(options, ranks), 1, 4), alone, ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BlocksInGroups,
    ::testing::Combine(::testing::Values("gcn", "sage", "gatv2", "appnp"), ::testing::Bool(),
                       ::testing::Values(BlockKind::kCommunities, BlockKind::kRandom)));

TEST(GroupBlocks, OfTypedNodesAndEdgesTrainTheSameNumbers) {
  const TempDir dir;
  const std::filesystem::path dataset = make_relational(dir);
  TrainOptions options = block_options("rgcn", 3);
  options.model.input_layer = InputLayerChoice::kTyped;
  const RunResult alone = run_epochs(dataset, 4, options, 1, 4);
  expect_near_losses(run_epochs(dataset, 4, grouped(options, 2), 1, 4), alone, 2);
}

TEST(GroupBlocks, RepeatBitForBitAndOverlapChangesNothing) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  expect_repeats_without_overlap(dataset, 4, grouped(block_options("sage", 4), 2), 3);
}

// Nodes of a block are others than those whose features a rank has.
TEST(GroupBlocks, ReadNarrowFeaturesOfAllRowsOfThePart) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = block_options("gcn", 3);
  options.model.dtype = DType::kBf16;
  const RunResult alone = run_epochs(dataset, 4, options, 1, 6);
  const RunResult together = run_epochs(dataset, 4, grouped(options, 2), 1, 6);
  EXPECT_NEAR(together.losses.front(), alone.losses.front(), 2e-2 * alone.losses.front());
  EXPECT_NEAR(together.losses.back(), alone.losses.back(), 5e-2 * alone.losses.back());
}

TEST(GroupBlocks, SendTheBytesOfTheFormulas) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  TrainOptions options = block_options("gcn", 2);
  options.model.norm = Norm::kNone;
  PartitionOptions partition;
  partition.method = "random";
  for (const int ranks : {2, 4}) {
    run_local_ranks(4, 30, [&](Transport& transport) {
      RankJob job(transport, dataset, partition, grouped(options, ranks));
      EpochResult result;
      for (int epoch = 1; epoch <= 2; ++epoch) result = job.run_epoch(epoch);
      std::int64_t halo = job.trainer().halo_bytes_per_epoch();
      std::int64_t group = job.trainer().group_bytes_per_epoch();
      transport.all_reduce(std::span(&halo, 1), {"halo"});
      transport.all_reduce(std::span(&group, 1), {"group"});
      EXPECT_GT(group, 0);
      EXPECT_EQ(halo > 0, ranks < 4);
      const std::int64_t parameters = (12 * 16) + 16 + (16 * 16) + 16 + (16 * 4) + 16;
      std::int64_t sums = 0;
      // Nodes and training nodes of two blocks, among the ranks of a slice.
      const int parts = 4 / ranks;
      for (int rank = 0; rank < 4; ++rank) {
        sums += 2 * all_reduce_bytes(parameters, 4, rank, 4) +
                (parts == 1 ? 0 : all_reduce_bytes(2 * 2, 8, rank / ranks, parts));
      }
      EXPECT_EQ(result.bytes_sent, halo + group + sums);
    });
  }
}

TEST(GroupBlocks, OfSeenNodesTrainTheNumbersOfRanksThatHoldAPartAlone) {
  const TempDir dir;
  const std::filesystem::path dataset = make_sbm(dir, true);
  for (const SeenNodes seen : {SeenNodes::kTrain, SeenNodes::kTrainAndValid}) {
    for (const int blocks : {0, 3}) {
      TrainOptions options = block_options("sage", blocks, BlockKind::kRandom);
      if (blocks == 0) options.blocks = {};
      options.blocks.seen = seen;
      const RunResult alone = run_epochs(dataset, 4, options, 1, 4);
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(fmt::format("{} blocks, {}", blocks, to_string(seen)));
        expect_near_losses(run_epochs(dataset, 4, grouped(options, ranks), 1, 4), alone, ranks);
      }
    }
  }
}

class GroupBlockFolders : public RunsInFolders {};

TEST_F(GroupBlockFolders, GoOnBitForBit) {
  for (const std::string exchange : {"exact", "quantized"}) {
    TrainOptions options = grouped(block_options("sage", 3), 2);
    options.blocks.until.epoch = 4;
    options.exchange = exchange;
    options.message_bits.bits = parse_bits("4");
    const std::string whole = exchange + "-whole";
    run(whole, 6, false, options, 4);
    for (const int stop : {1, 4, 5}) {
      const std::string name = fmt::format("{}-{}", exchange, stop);
      run(name, stop, false, options, 4);
      run(name, 6, true, options, 4);
      expect_same(name, whole);
    }
  }
  // Edges are counted once, whoever has them.
  TrainOptions alone = block_options("sage", 3);
  alone.blocks.until.epoch = 4;
  run("alone", 6, false, alone, 1);
  for (const char* field : {"steps", "edges_kept"}) {
    EXPECT_EQ(lines("exact-whole", field), lines("alone", field)) << field;
  }
}

// Few nodes with several labels each, or one of two: many blocks have no row on some rank.
std::filesystem::path make_few_labelled(const TempDir& dir, bool binary) {
  constexpr int kNodes = 30;
  DatasetWriter writer(dir.path() / (binary ? "binary" : "several"));
  writer.info().directed = true;
  writer.info().task = binary ? Task::kBinary : Task::kMultiLabel;
  Csr ring;
  std::vector<std::uint8_t> several;
  std::vector<std::int32_t> labels;
  std::vector<float> rows;
  for (int v = 0; v < kNodes; ++v) {
    ring.col_idx.push_back((v + 1) % kNodes);
    ring.row_ptr.push_back(std::ssize(ring.col_idx));
    for (int c = 0; c < 3; ++c) several.push_back(static_cast<std::uint8_t>((v >> c) % 2));
    labels.push_back(v % 3 == 0 ? 1 : 0);
    for (int c = 0; c < 2; ++c) rows.push_back(std::sin(static_cast<float>(3 * v + c)));
  }
  writer.write_graph(ring);
  const auto features = writer.write_features(2);
  features->write(std::span<const float>(rows));
  features->close();
  if (binary) {
    writer.write_labels(labels, 2);
  } else {
    writer.write_multi_labels(several, 3);
  }
  writer.write_splits(std::vector<std::uint8_t>(kNodes, 0), 1);
  writer.commit();
  return dir.path() / (binary ? "binary" : "several");
}

TEST(GroupBlocks, WithoutRowsHaveTheLossOfTheOthers) {
  const TempDir dir;
  for (const bool binary : {false, true}) {
    const std::filesystem::path dataset = make_few_labelled(dir, binary);
    TrainOptions options = block_options("sage", 15, BlockKind::kRandom);
    options.model.norm = Norm::kNone;
    options.loss.class_weights = kBalancedWeights;
    const RunResult one = run_epochs(dataset, 1, options, 1, 4);
    for (const int ranks : {1, 2, 4}) {
      const RunResult found = run_epochs(dataset, 4, grouped(options, ranks), 1, 4);
      for (std::size_t epoch = 0; epoch < 4; ++epoch) {
        EXPECT_NEAR(found.losses[epoch], one.losses[epoch], kAfter20Epochs * one.losses[epoch])
            << ranks << (binary ? " binary" : " several");
      }
    }
  }
}

// Which nodes are trained on is known of all rows of the part, not of a share alone.
TEST_F(GroupBlockFolders, TrainOnTheNodesOfABuffer) {
  TrainOptions options = block_options("gcn", 2);
  options.replay.count.nodes = 40;
  options.replay.from = 300;
  const RunResult alone = run_epochs(dataset_, 4, options, 1, 4);
  TrainOptions all = options;
  all.replay = {};
  EXPECT_GT(std::abs(run_epochs(dataset_, 4, all, 1, 1).losses[0] - alone.losses[0]), 1e-3);
  expect_near_losses(run_epochs(dataset_, 4, grouped(options, 2), 1, 4), alone, 2);
}

}  // namespace
}  // namespace atl
