#include "engine/placement/rank_counts.hpp"

namespace atl {

RankCounts rank_counts(const PartitionQuality& partition, int rank,
                       const Recomputation* recomputation) {
  const auto ranks = partition.parts.size();
  const auto r = static_cast<std::size_t>(rank);
  const PartQuality& part = partition.parts[r];
  RankCounts counts;
  counts.shape.marginal = part.nodes - part.central;
  counts.shape.marginal_edges = part.marginal_edges;
  RankRows& rows = counts.shape.rows;
  rows.inner = part.nodes;
  rows.edges = part.edges;
  const bool recomputes = recomputation != nullptr && recomputation->any();
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const auto p = static_cast<int>(peer);
    const std::int64_t received = partition.forward_rows[r * ranks + peer];
    const std::int64_t sent = partition.forward_rows[peer * ranks + r];
    if (recomputes && recomputation->computes(rank, p)) rows.computed += received;
    if (!recomputes || !recomputation->computes(p, rank)) counts.sent_rest.add(sent);
    counts.returned.add(received);
    rows.backward_halo += partition.backward_rows[r * ranks + peer];
    counts.sent_forward.add(sent);
    counts.sent_backward.add(partition.backward_rows[peer * ranks + r]);
  }
  rows.forward_halo = counts.returned.rows;
  rows.returned = counts.sent_forward.rows;
  return counts;
}

}  // namespace atl
