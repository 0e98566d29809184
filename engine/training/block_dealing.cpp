#include "engine/training/block_dealing.hpp"

#include <algorithm>

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
const OperationLabel kOfSplit{"the nodes that training sees"};

}  // namespace

BlockDealing::BlockDealing(Transport& transport, const std::filesystem::path& dataset,
                           const LocalGraphView& part, const BlockOptions& options,
                           std::uint64_t seed, const std::filesystem::path& parts_dir,
                           std::int64_t split_index)
    : part_(part),
      kind_(options.kind),
      deals_(options.deals()),
      leaves_out_(options.leaves_out()),
      seen_nodes_(part.global_nodes),
      seed_(seed) {
  if (leaves_out_) share_seen(transport, dataset, options.seen, split_index);
  if (deals_) blocks_ = options.count.automatic ? blocks_for(seen_nodes_) : options.count.number;
  const std::int64_t nodes = seen_nodes_;
  if (options.count.automatic && transport.rank() == 0) {
    log::info("--blocks auto: {} blocks, of {} nodes on average", blocks_, nodes / blocks_);
  }
  on_all_ranks(transport, [&] {
    if (blocks_ > nodes) {
      const std::string allowed =
          nodes < 2 ? "is 0"
                    : fmt::format("are 2 to {}, or 0", std::min<std::int64_t>(nodes, kMostBlocks));
      fail_option("--blocks {}: {} {} nodes; allowed {}", blocks_,
                  leaves_out_ ? "training sees" : "the dataset has", nodes, allowed);
    }
    // The weights that a node keeps in a block may add up to what no degree can be.
    for (const float weight : part.forward.csr.values) {
      if (weight >= 0) continue;
      fail_option("{}: an edge of the dataset weighs {}; allowed with edges that weigh 0 or more",
                  options.option(), weight);
    }
  });
  if (!deals_ || kind_ != BlockKind::kCommunities) return;
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
  community_of.resize(static_cast<std::size_t>(part.global_nodes));
  transport.broadcast(std::as_writable_bytes(std::span(community_of)), 0, kOfCommunities);
  communities_ = number_nodes(part, [&](GlobalId id) { return community_of[to_index(id)]; });
}

void BlockDealing::share_seen(Transport& transport, const std::filesystem::path& dataset,
                              SeenNodes seen, std::int64_t split_index) {
  std::vector<std::uint8_t> unseen(static_cast<std::size_t>(part_.global_nodes));
  const auto read = [&] {
    if (transport.rank() != 0) return;
    const Dataset opened = Dataset::open(dataset);
    std::ranges::transform(opened.split(split_index), unseen.begin(), [&](std::uint8_t set) {
      const auto split = static_cast<Split>(set);
      const bool is_seen =
          split == Split::kTrain || (split == Split::kValid && seen == SeenNodes::kTrainAndValid);
      return static_cast<std::uint8_t>(is_seen ? 0 : 1);
    });
  };
  on_all_ranks(transport, read, kOfSplit);
  transport.broadcast(std::as_writable_bytes(std::span(unseen)), 0, kOfSplit);
  unseen_ = number_nodes(part_, [&](GlobalId id) { return std::int32_t{unseen[to_index(id)]}; });
  seen_nodes_ = std::ranges::count(unseen, 0);
  if (transport.rank() == 0) {
    log::info("--inductive {}: training sees {} of {} nodes, evaluations see all", to_string(seen),
              seen_nodes_, part_.global_nodes);
  }
}

NodeNumbers BlockDealing::of_epoch(int epoch) const {
  NodeNumbers buckets = deal(epoch);
  if (!leaves_out_) return buckets;
  const auto move_unseen = [&](std::vector<std::int32_t>& of,
                               const std::vector<std::int32_t>& unseen) {
    parallel_for(std::ssize(of), 4096, [&](std::int64_t i) {
      if (unseen[i] != 0) of[i] = blocks_;
    });
  };
  move_unseen(buckets.inner, unseen_.inner);
  move_unseen(buckets.forward_halo, unseen_.forward_halo);
  move_unseen(buckets.backward_halo, unseen_.backward_halo);
  return buckets;
}

NodeNumbers BlockDealing::deal(int epoch) const {
  if (!deals_) {
    return number_nodes(part_, [](GlobalId) { return 0; });
  }
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
