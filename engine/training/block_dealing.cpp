#include "engine/training/block_dealing.hpp"

#include "base/log.hpp"
#include "base/philox.hpp"
#include "datasets/community_folder.hpp"
#include "engine/training/agreement.hpp"
#include "partition/dealing.hpp"

namespace atl {

namespace {

// Few: a block keeps many of its edges. Many: blocks weigh the same, and are others in every epoch.
constexpr int kCommunitiesPerBlock = 32;
// A layer of the stream of partitioners, as those of DealtTo.
constexpr std::uint8_t kNodesOneByOne = 2;

const OperationLabel kOfCommunities{"the communities of the graph"};

}  // namespace

BlockDealing::BlockDealing(Transport& transport, const std::filesystem::path& dataset,
                           const LocalGraphView& part, const BlockOptions& options,
                           std::uint64_t seed, const std::filesystem::path& parts_dir)
    : part_(part),
      kind_(options.kind),
      blocks_(options.count.automatic ? blocks_for(part.global_nodes) : options.count.number),
      seed_(seed) {
  const std::int64_t nodes = part.global_nodes;
  if (options.count.automatic && transport.rank() == 0) {
    log::info("--blocks auto: {} blocks, of {} nodes on average", blocks_, nodes / blocks_);
  }
  on_all_ranks(transport, [&] {
    if (blocks_ > nodes) {
      fail_option("--blocks {}: the dataset has {} nodes; allowed are 2 to {}, or 0", blocks_,
                  nodes, std::min<std::int64_t>(nodes, kMostBlocks));
    }
    // The weights that a node keeps in a block may add up to what no degree can be.
    for (const float weight : part.forward.csr.values) {
      if (weight >= 0) continue;
      fail_option(
          "--blocks {}: an edge of the dataset weighs {}; allowed with edges that weigh 0 or more",
          blocks_, weight);
    }
  });
  if (kind_ != BlockKind::kCommunities) return;
  per_block_ = clusters_per_part(nodes, blocks_, kCommunitiesPerBlock);
  if (per_block_ == 1 && transport.rank() == 0) {
    log::warn(
        "--blocks {}: each block is one community, the same in every epoch; fewer blocks or "
        "--block-kind random would let other neighbours meet",
        blocks_);
  }
  std::vector<std::int32_t> community_of;
  const auto find = [&] {
    if (transport.rank() != 0) return;
    community_of = ensure_communities(Dataset::open(dataset), blocks_ * per_block_, parts_dir);
  };
  on_all_ranks(transport, find, kOfCommunities);
  community_of.resize(static_cast<std::size_t>(nodes));
  transport.broadcast(std::as_writable_bytes(std::span(community_of)), 0, kOfCommunities);
  communities_ = number_nodes(part, [&](GlobalId id) { return community_of[to_index(id)]; });
}

NodeNumbers BlockDealing::of_epoch(int epoch) const {
  if (kind_ == BlockKind::kRandom) {
    const RandomKey key{seed_, RandomStream::kPartition, kNodesOneByOne,
                        static_cast<std::uint32_t>(epoch)};
    const auto blocks = static_cast<std::uint64_t>(blocks_);
    return number_nodes(part_, [&](GlobalId id) {
      const std::uint64_t bits = random_bits(key, static_cast<std::uint64_t>(to_index(id)), 0);
      return static_cast<std::int32_t>((bits * blocks) >> 32U);
    });
  }
  const std::vector<std::int32_t> block_of =
      deal_clusters(blocks_, per_block_, seed_, DealtTo::kBlocks, epoch);
  const auto blocks_of = [&](const std::vector<std::int32_t>& communities) {
    std::vector<std::int32_t> blocks(communities.size());
    parallel_for(std::ssize(blocks), 4096,
                 [&](std::int64_t i) { blocks[i] = block_of[communities[i]]; });
    return blocks;
  };
  return {blocks_of(communities_.inner), blocks_of(communities_.forward_halo),
          blocks_of(communities_.backward_halo)};
}

}  // namespace atl
