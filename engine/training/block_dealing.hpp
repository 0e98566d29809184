// Deals the nodes of a graph to the blocks of an epoch: whole communities, or nodes one by one.
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
               const std::filesystem::path& parts_dir = {});

  int blocks() const { return blocks_; }
  // Block of each node that this rank knows: a function of seed, epoch and the graph only.
  NodeNumbers of_epoch(int epoch) const;

 private:
  LocalGraphView part_;
  BlockKind kind_;
  int blocks_;
  std::uint64_t seed_;
  int per_block_ = 0;        // communities
  NodeNumbers communities_;  // with BlockKind::kCommunities
};

}  // namespace atl
