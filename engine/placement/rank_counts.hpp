// The counts of a cut that the time and the memory of training on a rank depend on.
#pragma once

#include "engine/exchange/rank_map.hpp"
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
  int role = 0;          // among the ranks that hold its part
  bool covered = false;  // it holds its edges a second time (CoveredGraph)
  MessageRows sent_forward;
  MessageRows sent_backward;
  MessageRows sent_rest;  // forward, but for rows that other ranks compute themselves
  MessageRows returned;   // to those who sent them forward

  // Rows that it sends for a halo operation.
  const MessageRows& sent_for(const Operation& op) const {
    return op.returns_rows()                               ? returned
           : op.messages.direction == Direction::kBackward ? sent_backward
           : op.decided.fetches_rest                       ? sent_rest
                                                           : sent_forward;
  }
};

// Whether two ranks keep rows for messages because one of them computes rows of the other.
inline bool keeps_rows(const Recomputation* recomputation, int a, int b) {
  return recomputation != nullptr &&
         (recomputation->computes(a, b) || recomputation->computes(b, a));
}

// Which ranks hold the parts of a cut.
inline RankMap rank_map(const PartitionQuality& partition, int ranks_per_part) {
  return RankMap(static_cast<int>(partition.parts.size()), ranks_per_part);
}

// covers: see covers_messages(). recomputation: null: none. Additions that make partial sums count
// as work of those who receive them. Where several ranks hold a part, messages are rows of its
// slice, to and from ranks of the same role.
RankCounts rank_counts(const PartitionQuality& partition, int rank, bool covers,
                       const Recomputation* recomputation = nullptr, int ranks_per_part = 1);

// Divides the marginal rows into groups as training does where they are computed in order of
// arrival (partition/arrival.hpp), by an estimate: a cut's counts don't say which rows need which
// messages.
void divide_marginal_rows(RankShape& shape);

}  // namespace atl
