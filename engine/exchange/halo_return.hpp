// The reverse of a halo exchange: what a rank has summed up for its halo rows travels to their
// owners, who add it, rank after rank. So go gradients along edges whose coefficients only the
// receiver of a row knows, such as attention's.
#pragma once

#include <vector>

#include "engine/exchange/distributed_operator.hpp"

namespace atl {

enum class EdgesBySource : std::uint8_t { kNone, kSorted };

// Returns rows of the forward direction. The matrices that travel have a row for every halo row of
// this rank, in their order, and behind these, as their halo rows, those that other ranks send, by
// sender.
class HaloReturn {
 public:
  // The graph must outlive it.
  HaloReturn(Backend& backend, Queue& queue, const LocalGraphView& graph, EdgesBySource edges);
  HaloReturn(const HaloReturn&) = delete;
  HaloReturn& operator=(const HaloReturn&) = delete;

  // The operator that an exchange needs: inner() are the rows sent, halo rows those received.
  const DistributedOperator& messages() const { return messages_; }
  // [inner nodes, messages().with_halo()]: adds the rows received to those they are for.
  SparseOperator sums() const { return sums_.view(); }
  // The edges of the forward operator by their source, if it was asked for them.
  SourceEdges edges() const {
    const SparseOperator out = by_source_.view();
    return {out.row_ptr, out.col_idx, edges_.span(), prepared_.get()};
  }
  // Global ids of inner nodes and of the halo rows behind them, in the backend's memory.
  std::span<const GlobalId> column_ids() const { return column_ids_.span(); }

 private:
  void sort_edges(Backend& backend, Queue& queue, const LocalGraphView& graph);

  // On the host.
  std::vector<LocalId> counting_;  // 0, 1, 2, ...: all rows are sent
  Csr host_sums_;

  ConstDeviceArray<LocalId> device_counting_;
  ConstDeviceArray<GlobalId> message_ids_;
  DeviceCsr sums_;
  DeviceCsr by_source_;                   // [columns, inner nodes]: the edges' targets
  ConstDeviceArray<std::int64_t> edges_;  // of each entry its place in the forward operator
  std::shared_ptr<const PreparedSparse> prepared_;
  ConstDeviceArray<GlobalId> column_ids_;
  DistributedOperator messages_;
};

}  // namespace atl
