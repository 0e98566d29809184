#include "engine/placement/rank_counts.hpp"

#include "partition/arrival.hpp"

namespace atl {

namespace {

RankCounts part_counts(const PartitionQuality& partition, int rank, bool covers,
                       const Recomputation* recomputation) {
  const PartQuality& part = partition.parts[static_cast<std::size_t>(rank)];
  RankCounts counts;
  counts.shape.marginal = part.nodes - part.central;
  counts.shape.marginal_edges = part.marginal_edges;
  RankRows& rows = counts.shape.rows;
  rows.inner = part.nodes;
  rows.edges = part.edges;
  const auto computes = [&](int reader, int owner) {
    return recomputation != nullptr && recomputation->computes(reader, owner);
  };
  for (int peer = 0; peer < static_cast<int>(partition.parts.size()); ++peer) {
    const bool covers_pair = covers && !keeps_rows(recomputation, rank, peer);
    const auto messages = [&](Direction direction, int from, int to) {
      return partition.messages(direction, from, to, covers_pair);
    };
    const auto received = messages(Direction::kForward, peer, rank);
    const auto sent = messages(Direction::kForward, rank, peer);
    const auto sent_back = messages(Direction::kBackward, rank, peer);
    const auto saves = [&](Direction direction, int from, int to) {
      return covers_pair && messages(direction, from, to).count !=
                                partition.messages(direction, from, to, /*covers=*/false).count;
    };
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      counts.covered =
          counts.covered || saves(direction, peer, rank) || saves(direction, rank, peer);
    }
    if (computes(rank, peer)) rows.computed += received.count;
    if (!computes(peer, rank)) counts.sent_rest.add(sent.count);
    counts.returned.add(received.count);
    counts.sent_forward.add(sent.count);
    counts.sent_backward.add(sent_back.count);
    rows.forward_sums += sent.sums;
    rows.backward_sums += sent_back.sums;
    rows.backward_halo += messages(Direction::kBackward, peer, rank).count + sent_back.sums;
  }
  rows.forward_halo = counts.returned.rows + rows.forward_sums;
  rows.returned = counts.sent_forward.rows;
  return counts;
}

}  // namespace

RankCounts rank_counts(const PartitionQuality& partition, int rank, bool covers,
                       const Recomputation* recomputation, int ranks_per_part) {
  const RankMap map = rank_map(partition, ranks_per_part);
  RankCounts counts = part_counts(partition, map.part_of(rank), covers, recomputation);
  if (ranks_per_part == 1) return counts;
  counts.role = map.role_of(rank);
  RankShape& shape = counts.shape;
  const auto share = [&](RowRange rows) { return map.share(rank, rows).size(); };
  shape.divide(share({0, shape.central()}), share({shape.central(), shape.rows.inner}));
  return counts;
}

void divide_marginal_rows(RankShape& shape) {
  const auto until = [](std::int64_t all, int group) { return all * group / kMarginalGroups; };
  for (int group = 0; group < kMarginalGroups; ++group) {
    const RowRange rows{shape.central() + until(shape.marginal, group),
                        shape.central() + until(shape.marginal, group + 1)};
    shape.groups.push_back(
        {rows, until(shape.marginal_edges, group + 1) - until(shape.marginal_edges, group)});
  }
}

}  // namespace atl
