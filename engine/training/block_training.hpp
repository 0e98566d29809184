// Trains one rank's part of a model on blocks of the graph: the epoch deals all nodes to them, and
// each of them is a step, on the subgraph that it induces over all ranks (docs/blocks.md).
#pragma once

#include <memory>
#include <vector>

#include "engine/program/network.hpp"
#include "engine/training/block_maker.hpp"
#include "engine/training/options.hpp"
#include "engine/training/rank_data.hpp"

namespace atl {

// An epoch on blocks.
struct BlockEpoch {
  double loss = 0;         // this rank's sum
  std::int64_t edges = 0;  // this rank's, in all blocks that were trained on
  int steps = 0;
};

class BlockTraining {
 public:
  // data has a dealing and, in a group, the data of the whole part. All references must outlive it;
  // `whole` gives parameters, norms and memory, and has not taken any yet.
  BlockTraining(const TrainOptions& options, const RankData& data, const Rank& rank, Network& whole,
                Optimizer& optimizer);
  BlockTraining(const BlockTraining&) = delete;
  BlockTraining& operator=(const BlockTraining&) = delete;

  // Bytes beside values and those of `whole`, about.
  std::int64_t bytes() const;
  // See Network.
  std::int64_t graph_value_bytes() const { return network_.graph_value_bytes(); }
  std::int64_t own_value_bytes() const { return network_.own_value_bytes(); }
  // Until the next epoch: gives back the memory of values that are its own and, if asked, of
  // features that lie in a mapped file.
  void rest(bool features);
  // See Network; of a block, about.
  std::int64_t activation_bytes() const { return network_.activation_bytes(); }
  // When `whole` has taken its memory. Collective.
  void allocate();
  // All steps of an epoch; raises `steps`, those of the optimizer since the run began. goes_on: the
  // next epoch is on blocks, too. Collective.
  BlockEpoch run_epoch(int epoch, bool goes_on, bool overlap, std::int64_t& steps);

  int epochs_run() const { return epochs_run_; }
  // See Network; those of the last epoch.
  std::int64_t halo_bytes() const { return halo_bytes_; }
  std::int64_t group_bytes() const { return group_bytes_; }

 private:
  // Labels of a block's nodes, on the host and in the backend's memory.
  template <typename T>
  struct OfNodes {
    std::vector<T> host;
    ConstDeviceArray<T> array;

    std::span<const T> upload(const Rank& rank, std::span<const T> values) {
      array = {rank.backend, rank.queue, values};
      return array.span();
    }
  };
  struct Targets {
    OfNodes<std::int32_t> labels;
    OfNodes<std::uint8_t> multi_labels;
    OfNodes<float> numbers;
    OfNodes<LocalId> rows;
  };

  // Those that make the next block.
  int threads_beside() const;
  // The most that a block of the first epochs takes here.
  RankRows most_rows() const;
  // Sums over all ranks, as nodes are dealt in this epoch. Collective.
  BlockCounts totals(int epoch);
  void enter(const PartBlock& block, std::int64_t nodes);
  LossTargets take_targets();
  // From now on this rank's nodes and rows are those of a block with so many nodes on all ranks.
  void take_nodes(const PartBlock& block, std::int64_t nodes);
  void step(const Round& round, double weight, BlockEpoch& result);

  const TrainOptions& options_;
  const RankData& data_;  // of all rows of the part
  const BlockDealing& dealing_;
  // Both have the nodes of the block.
  Rank rank_;
  Rank slice_rank_;  // as messages between parts see it
  Optimizer& optimizer_;
  Network network_;
  std::unique_ptr<HaloExchange> exchange_;
  std::unique_ptr<Loss> loss_;         // null before the first step
  std::vector<double> weight_of_row_;  // in the loss of training
  RankRows most_;
  const PartBlock* block_ = nullptr;  // the maker's
  // By inner node of the block that is this rank's: its row in the part, and its id.
  std::span<const LocalId> rows_;
  ConstDeviceArray<GlobalId> inner_ids_;
  // In a group: storage of these, and ids of the inner nodes of all its ranks.
  std::vector<LocalId> shared_rows_;
  std::vector<GlobalId> own_ids_;
  ConstDeviceArray<GlobalId> part_ids_;
  Tensor features_;
  Targets targets_;
  DeviceArray<EpochState> state_;
  std::int64_t halo_bytes_ = 0;
  std::int64_t group_bytes_ = 0;
  int epochs_run_ = 0;
  BlockMaker maker_;  // its thread ends before the others are gone
};

}  // namespace atl
