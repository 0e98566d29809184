// A sum over ranks as a series of all-to-alls.
#pragma once

#include <span>
#include <vector>

#include "engine/comm/transport.hpp"

namespace atl {

// One all-to-all among some of the ranks over some of the values, as one of them sees it.
struct SumStep {
  enum class Kind : std::uint8_t {
    kAdd,    // each member gets its block of all members and adds it up, in the order of members
    kShare,  // each member sends its block, which is added up, to all members
  };
  Kind kind = Kind::kAdd;
  std::vector<int> members;         // ranks
  std::vector<ReduceBlock> blocks;  // of each member
  std::size_t own = 0;              // this rank's place among the members

  const ReduceBlock& own_block() const { return blocks[own]; }
  // Values that this rank sends.
  std::size_t sent_values() const;
};

// All members add, or share, equal blocks of `whole`; `rank` is one of them.
SumStep even_step(SumStep::Kind kind, std::vector<int> members, int rank, ReduceBlock whole);
// Reduce-scatter and all-gather of `count` values among all ranks.
std::vector<SumStep> all_reduce_steps(int rank, int ranks, std::size_t count);

// Sums in place, on the host; all ranks have as many steps, of the same kinds. Every rank gets the
// same bits. Floats are added in double and rounded once per step that adds.
void sum_by_steps(Transport& transport, std::span<const SumStep> steps, std::span<float> values,
                  const OperationLabel& label);
void sum_by_steps(Transport& transport, std::span<const SumStep> steps, std::span<double> values,
                  const OperationLabel& label);
void sum_by_steps(Transport& transport, std::span<const SumStep> steps,
                  std::span<std::int64_t> values, const OperationLabel& label);

}  // namespace atl
