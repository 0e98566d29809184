// Where the values of a program lie in memory: one block, in which values that are never needed at
// the same time share places.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/program/schedule.hpp"

namespace atl {

// Rows of matrices on one rank.
struct RankRows {
  std::int64_t inner = 0;  // where several ranks hold a part, this one's share
  std::int64_t forward_halo = 0;
  std::int64_t backward_halo = 0;
  std::int64_t computed = 0;  // of the forward halo rows, those of ComputedHalo
  std::int64_t returned = 0;  // by other ranks, where ranks return rows (HaloReturn)
  std::int64_t edges = 0;     // that come in, as stored
  std::int64_t pairs = 0;     // of a block of them
  std::int64_t part = 0;      // inner ones of all ranks of the part, of RowsOf::kPart
  // The last of the halo rows: partial sums that are made to be sent (DistributedOperator::sums).
  std::int64_t forward_sums = 0;
  std::int64_t backward_sums = 0;

  // Inner nodes of the graph that neighbours are read of.
  std::int64_t of_part() const { return std::max(inner, part); }
  std::int64_t halo(Direction direction) const {
    return direction == Direction::kForward ? forward_halo : backward_halo;
  }
  std::int64_t sums(Direction direction) const {
    return direction == Direction::kForward ? forward_sums : backward_sums;
  }
  // Those that come in, or are computed.
  std::int64_t arriving(Direction direction) const { return halo(direction) - sums(direction); }
  // Halo rows that a halo operation needs behind its input.
  std::int64_t halo_for(const Operation& op) const {
    return op.returns_rows() ? returned : halo(op.messages.direction);
  }
  // Those that come in.
  std::int64_t received_for(const Operation& op) const {
    const std::int64_t computed_here = op.decided.fetches_rest ? computed : 0;
    return op.returns_rows() ? returned : arriving(op.messages.direction) - computed_here;
  }
  // That a value has, but for halo and computed rows.
  std::int64_t own(RowsOf rows_of) const {
    switch (rows_of) {
      case RowsOf::kNodes:
        return inner;
      case RowsOf::kEdges:
        return edges + of_part();
      case RowsOf::kHalo:
        return forward_halo;
      case RowsOf::kPairs:
        return pairs;
      case RowsOf::kEnds:
        return 2 * pairs;
      case RowsOf::kPart:
        return part;
    }
    return 0;
  }
  // By a store or a fetch.
  std::int64_t copied_by(const Operation& op) const {
    return own(op.rows_of()) + (op.as<Copied>().with_halo ? forward_halo : 0);
  }
};

// Where a matrix lies: its own rows, right behind them its halo rows, where it is aggregated, and
// behind these its computed rows, where it has them.
struct Place {
  std::int64_t offset = -1;  // elements from the start of the block; -1: nowhere
  std::int64_t inner = 0;
  std::int64_t halo = 0;
  std::int64_t computed = 0;

  bool is_nowhere() const { return offset < 0; }
  std::int64_t rows() const { return inner + halo + computed; }
  // Elements of the storage type that a value takes here.
  std::int64_t elements(const Program& program, Value value) const {
    return rows() * program.row_elements(program.at(value));
  }
};

struct Layout {
  std::vector<Place> places;       // by value
  std::int64_t elements = 0;       // of the block
  std::int64_t kept_elements = 0;  // its start, where constants lie: they outlive a pass
  // Host memory beside it, where stored values wait for backward, each in a place of its own: all
  // of them wait at the same time, when the loss is computed.
  std::vector<std::int64_t> host_offsets;  // by value: elements, of a kStore; else -1
  std::int64_t host_elements = 0;
};

enum class Sharing : std::uint8_t {
  kPacked,
  kNone,  // every value has a place of its own, for tests
};

// By value: the last instant at which it is needed; the largest int if it outlives the pass.
std::vector<int> last_instants(const Program& program, const Schedule& schedule);

// Time is counted in instants: one per operation of a segment without aggregate; else two, P and
// {H, C} (schedule.hpp). A value lives from its first write to its last read. Two that live at the
// same instant share a place only where one is written row by row over the other (Rule::may_be_in),
// or added to it.
//
// A stored value lives until the store has been waited for; what is fetched is another value, which
// lives from when its copy may begin to write.
//
// The block is as small as first fit in six orders and exchanges of two neighbours in the best one
// make it. Same rows, same layout.
Layout allocate(const Program& program, const Schedule& schedule, const RankRows& rows,
                Sharing sharing = Sharing::kPacked);

}  // namespace atl
