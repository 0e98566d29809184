// The thread that makes the next block: what it makes is what the caller would have made.
#include "engine/training/block_maker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "base/error.hpp"
#include "tests/engine/training/example_runs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr int kBlocks = 4;

// Block 3 has no nodes in odd epochs.
std::int32_t block_of(GlobalId id, int epoch) {
  return static_cast<std::int32_t>((to_index(id) / 7 + epoch) % (kBlocks - epoch % 2));
}

class BlockMakerTest : public ::testing::Test {
 protected:
  // test(part, weights) on each of two ranks.
  void with_parts(
      const std::function<void(const LocalGraphView&, std::span<const double>)>& test) const {
    run_local_ranks(2, 30, [&](Transport& transport) {
      PartitionOptions partition;
      partition.method = "random";
      RankJob job(transport, dataset_, partition, small_options());
      const LocalGraphView& part = job.data().graph();
      std::vector<double> weights(part.inner_ids.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = static_cast<double>(to_index(part.inner_ids[i]) % 5);
      }
      test(part, weights);
    });
  }
  static NodeNumbers dealt(const LocalGraphView& part, int epoch) {
    return number_nodes(part, [&](GlobalId id) { return block_of(id, epoch); });
  }
  static BlockMaker make(const LocalGraphView& part, std::span<const double> weights,
                         int threads = 1) {
    return BlockMaker(
        part, kBlocks, [&part](int epoch) { return dealt(part, epoch); }, weights, threads);
  }
  static void expect_block(const PartBlock& found, const LocalGraphView& part, int epoch,
                           int block) {
    PartBlocks blocks(part);
    blocks.deal(kBlocks, dealt(part, epoch));
    PartBlock expected;
    blocks.extract(block, expected);
    EXPECT_EQ(found.rows, expected.rows) << epoch << " " << block;
    EXPECT_EQ(found.graph.inner_ids, expected.graph.inner_ids);
    EXPECT_EQ(found.graph.central, expected.graph.central);
    for (const auto side : {&LocalGraph::forward, &LocalGraph::backward}) {
      const LocalMatrix& matrix = found.graph.*side;
      const LocalMatrix& other = expected.graph.*side;
      EXPECT_EQ(matrix.csr.row_ptr, other.csr.row_ptr);
      EXPECT_EQ(matrix.csr.col_idx, other.csr.col_idx);
      EXPECT_EQ(matrix.split, other.split);
      EXPECT_EQ(matrix.halo_ids, other.halo_ids);
      EXPECT_EQ(matrix.halo.send_rows, other.halo.send_rows);
      EXPECT_EQ(matrix.halo.recv_offset, other.halo.recv_offset);
    }
  }

  TempDir dir_;
  std::filesystem::path dataset_ = make_sbm(dir_, true);
};

TEST_F(BlockMakerTest, MakesWhatWasBegunAndWhatWasNot) {
  with_parts([](const LocalGraphView& part, std::span<const double> weights) {
    for (const int threads : {1, 3}) {
      BlockMaker maker = make(part, weights, threads);
      expect_block(maker.take(1, 0), part, 1, 0);
      maker.begin(1, 2);
      expect_block(maker.take(1, 2), part, 1, 2);
      maker.begin(1, 1);
      expect_block(maker.take(1, 3), part, 1, 3);
      // With the last block of an epoch the nodes of the next one are dealt.
      maker.begin(2, 0);
      const BlockCounts counts = maker.counts(2);
      expect_block(maker.take(2, 0), part, 2, 0);
      double nodes = 0;
      for (int block = 0; block < kBlocks; ++block) {
        double expected = 0;
        double weight = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (block_of(part.inner_ids[i], 2) != block) continue;
          ++expected;
          weight += weights[i];
        }
        EXPECT_EQ(counts.nodes[block], expected);
        EXPECT_EQ(counts.weight[block], weight);
        nodes += expected;
      }
      EXPECT_EQ(nodes, static_cast<double>(part.inner()));
      // Who begins a block need not take it.
      maker.begin(2, 1);
      expect_block(maker.take(3, 1), part, 3, 1);
      EXPECT_EQ(maker.counts(3).nodes[3], 0);
      maker.begin(3, 2);
    }
  });
}

// A block stays as it is while the next one is made.
TEST_F(BlockMakerTest, LeavesTheBlockThatIsTrainedOnAlone) {
  with_parts([](const LocalGraphView& part, std::span<const double> weights) {
    BlockMaker maker = make(part, weights);
    const PartBlock* taken = &maker.take(1, 0);
    for (const int block : {1, 2}) {
      maker.begin(1, block);
      maker.counts(1);
      expect_block(*taken, part, 1, block - 1);
      taken = &maker.take(1, block);
      expect_block(*taken, part, 1, block);
    }
  });
}

TEST_F(BlockMakerTest, GoesOnBesideTheCaller) {
  with_parts([](const LocalGraphView& part, std::span<const double> weights) {
    std::promise<void> goes_on;
    std::shared_future<void> later = goes_on.get_future().share();
    std::atomic<bool> in_time = false;
    std::thread::id thread;
    BlockMaker maker(
        part, kBlocks,
        [&](int epoch) {
          in_time = later.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
          thread = std::this_thread::get_id();
          return dealt(part, epoch);
        },
        weights);
    maker.begin(1, 0);
    goes_on.set_value();
    expect_block(maker.take(1, 0), part, 1, 0);
    EXPECT_TRUE(in_time) << "the caller waits for the thread";
    EXPECT_NE(thread, std::this_thread::get_id());
  });
}

TEST_F(BlockMakerTest, ThrowsErrorsOfTheThreadWhereTheyAreWaitedFor) {
  with_parts([](const LocalGraphView& part, std::span<const double> weights) {
    BlockMaker maker(
        part, kBlocks,
        [&](int epoch) {
          if (epoch == 2) fail_input("no dealing of epoch {}", epoch);
          return dealt(part, epoch);
        },
        weights);
    maker.begin(2, 0);
    const Error error = thrown_error([&] { maker.take(2, 0); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no dealing of epoch 2"));
    expect_block(maker.take(1, 1), part, 1, 1);
    maker.begin(2, 0);
    EXPECT_EQ(thrown_error([&] { maker.counts(2); }).kind(), ErrorKind::kInput);
    maker.begin(2, 0);  // nobody waits for it
  });
}

}  // namespace
}  // namespace atl
