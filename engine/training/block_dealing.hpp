// Deals the nodes that training sees to the blocks of an epoch: whole communities, or nodes one by
// one; or all of them to one block.
#pragma once

#include <filesystem>

#include "engine/comm/transport.hpp"
#include "engine/training/block_options.hpp"
#include "partition/part_blocks.hpp"

namespace atl {

class BlockDealing {
 public:
  // Rank 0 finds the communities of the dataset, or makes them; each rank keeps those of the nodes
  // that it knows. The part must outlive it. Throws Error{kOption} on all ranks for more blocks
  // than nodes, and for edges of negative weight. parts_dir: as PartitionOptions has it.
  // Collective.
  BlockDealing(Transport& transport, const std::filesystem::path& dataset,
               const LocalGraphView& part, const BlockOptions& options, std::uint64_t seed,
               const std::filesystem::path& parts_dir = {}, std::int64_t split_index = 0);

  // Those that are trained on.
  int blocks() const { return blocks_; }
  // With one behind them for the nodes that training does not see, if there are any.
  int buckets() const { return blocks_ + (leaves_out_ ? 1 : 0); }
  // True if it is the same in all epochs.
  bool repeats() const { return !deals_; }
  // Bucket of each node that this rank knows: a function of seed, epoch, graph and split only.
  NodeNumbers of_epoch(int epoch) const;

 private:
  // Collective.
  void share_seen(Transport& transport, const std::filesystem::path& dataset, SeenNodes seen,
                  std::int64_t split_index);
  NodeNumbers deal(int epoch) const;

  LocalGraphView part_;
  BlockKind kind_;
  bool deals_;
  bool leaves_out_;
  NodeNumbers unseen_;       // 1 where training does not see a node; empty: it sees all
  std::int64_t seen_nodes_;  // of all ranks
  int blocks_ = 1;
  std::uint64_t seed_;
  int per_block_ = 0;        // communities
  NodeNumbers communities_;  // with BlockKind::kCommunities
};

}  // namespace atl
