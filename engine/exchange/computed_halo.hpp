// The halo rows that a rank computes itself instead of receiving them in every epoch (boundary
// recomputation; docs/placement.md).
#pragma once

#include <memory>
#include <vector>

#include "engine/exchange/distributed_operator.hpp"
#include "partition/recomputation.hpp"

namespace atl {

class Transport;

// For rows of the first layer's output: with the kept aggregates of halo nodes at hand, their rows
// are computed like inner ones. "Computed rows" are these halo nodes, numbered from 0.
class ComputedHalo {
 public:
  // `forward` and the graph must outlive it.
  ComputedHalo(Backend& backend, Queue& queue, const LocalGraphView& graph,
               const DistributedOperator& forward, const Recomputation& recomputation);
  ComputedHalo(const ComputedHalo&) = delete;
  ComputedHalo& operator=(const ComputedHalo&) = delete;

  std::int64_t rows() const { return std::ssize(halo_rows_); }
  // Global ids of the computed rows, in the backend's memory.
  std::span<const GlobalId> ids() const { return ids_.span(); }
  // The forward operator with messages for the other halo rows only.
  const DistributedOperator& fetched() const { return fetched_; }
  // Carries matrices [inner + rows(), F] of values that are not scaled from the inner rows of their
  // owners to the computed rows.
  const DistributedOperator& inputs() const { return inputs_; }

  // Gets the column factors of the computed rows from their owners. Collective; once.
  void fetch_factors(Backend& backend, Queue& queue, Transport& transport,
                     std::span<const float> own_factors);
  // For each computed row k: its row among those of a matrix [inner + halo, F], 0, 1, 2, ..., and
  // by what a message would have multiplied it (empty: 1); in the backend's memory.
  std::span<const LocalId> halo_rows() const { return device_rows_.span(); }
  std::span<const LocalId> counting() const { return counting_.span(); }
  std::span<const float> factors() const { return factors_.span(); }
  // The computed rows among those of a matrix [inner + halo, F]: ranges in ascending order.
  const std::vector<RowRange>& ranges() const { return ranges_; }

 private:
  // Part of the lists: what travels between the pairs that `travels` names.
  struct Messages {
    std::vector<std::int64_t> recv_offset;
    std::vector<std::int64_t> recv_first;
    std::vector<std::int64_t> send_offset;
    std::vector<LocalId> send_rows;
    ConstDeviceArray<LocalId> device_send_rows;
  };
  void select(Messages& messages, DistributedOperator& op, bool computed,
              const LocalGraphView& graph, const Recomputation& recomputation, Backend& backend,
              Queue& queue);

  Messages fetched_messages_;
  Messages input_messages_;
  DistributedOperator fetched_;
  DistributedOperator inputs_;
  std::vector<RowRange> ranges_;
  std::vector<LocalId> halo_rows_;         // of each computed row, in [inner, inner + halo)
  ConstDeviceArray<LocalId> device_rows_;  // the same
  ConstDeviceArray<LocalId> counting_;     // 0, 1, 2, ...
  ConstDeviceArray<GlobalId> ids_;
  ConstDeviceArray<float> factors_;  // of the computed rows; empty: 1
};

}  // namespace atl
