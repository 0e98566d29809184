// A sum over ranks as a series of all-to-alls.
#pragma once

#include <memory>
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

// A sum on the host that goes on beside other work; the same bits as sum_by_steps().
class PendingSum {
 public:
  // Begins the first step. transport: for this sum alone (Transport::split), because ranks don't
  // come to its steps in one order with other transfers. It and `values`, which nobody may write
  // until finish(), must outlive this.
  PendingSum(Transport& transport, std::vector<SumStep> steps, std::span<float> values,
             const OperationLabel& label);
  ~PendingSum();

  // Values that this rank sends.
  std::size_t sent_values() const;
  // Goes on as far as it can without waiting.
  void advance();
  // Waits until `values` holds the sum.
  void finish();

 private:
  struct Memory;
  void begin_next();
  void end_step();

  Transport& transport_;
  std::vector<SumStep> steps_;
  std::span<float> values_;
  OperationLabel label_;
  std::shared_ptr<Memory> memory_;
  std::size_t step_ = 0;  // that is under way
  std::unique_ptr<PendingTransfer> transfer_;
};

}  // namespace atl
