// The counts of a cut that the time and the memory of training on a rank depend on.
#pragma once

#include "engine/program/views.hpp"
#include "partition/quality.hpp"
#include "partition/recomputation.hpp"

namespace atl {

// Messages of one halo operation to all other ranks, or from them.
struct MessageRows {
  std::int64_t rows = 0;
  int packets = 0;  // ranks that they go to or come from

  void add(std::int64_t more) {
    rows += more;
    packets += more > 0 ? 1 : 0;
  }
};

struct RankCounts {
  RankShape shape;
  MessageRows sent_forward;
  MessageRows sent_backward;
  MessageRows sent_rest;  // forward, but for rows that other ranks compute themselves
  MessageRows returned;   // to those who sent them forward

  // Rows that the rank sends for a halo operation.
  const MessageRows& sent_for(const Operation& op) const {
    return op.returns_rows()                               ? returned
           : op.messages.direction == Direction::kBackward ? sent_backward
           : op.decided.fetches_rest                       ? sent_rest
                                                           : sent_forward;
  }
  // Rows that it receives for it.
  std::int64_t received_for(const Operation& op) const {
    return shape.rows.received_for(op) - (op.decided.fetches_rest ? shape.rows.computed : 0);
  }
};

// Those of part `rank`. recomputation: null: none.
RankCounts rank_counts(const PartitionQuality& partition, int rank,
                       const Recomputation* recomputation = nullptr);

}  // namespace atl
