// The order in which a program's operations run around its messages, so that everything which needs
// no message hides the wire. This is the only place that orders communication and computation.
#pragma once

#include <vector>

#include "engine/program/program.hpp"

namespace atl {

// A range of rows by its number, the same on all ranks. Which rows these are is in a table of each
// rank (RankShape): so a new range is no new word to whoever runs calls.
struct Rows {
  int number = 0;

  static const Rows kAll;       // inner rows
  static const Rows kMarginal;  // of these, rows that other ranks need or that need theirs
  static const Rows kCentral;   // the others
  static const Rows kComputed;  // halo rows that this rank computes (ComputedHalo)
  static const Rows kPlaced;    // the same where they lie among halo rows
  // Marginal rows may be divided into groups, one behind the other; some may be empty
  // (partition/arrival.hpp).
  static constexpr Rows marginal_group(int group) { return {kFixed + group}; }
  // Inner rows of nodes that are no farther from those whose results are wanted
  // (LocalGraphView::within).
  static constexpr Rows within(int hops) { return {-1 - hops}; }

  constexpr bool is_marginal_group() const { return number >= kFixed; }
  constexpr int group() const { return number - kFixed; }
  constexpr bool is_within() const { return number < 0; }
  constexpr int hops() const { return -1 - number; }
  // Whether its rows may have neighbours among halo rows.
  constexpr bool reads_halo() const { return number != kCentralNumber; }
  constexpr auto operator<=>(const Rows&) const = default;

 private:
  static constexpr int kCentralNumber = 2;
  static constexpr int kFixed = 5;
};
inline constexpr Rows Rows::kAll{0};
inline constexpr Rows Rows::kMarginal{1};
inline constexpr Rows Rows::kCentral{Rows::kCentralNumber};
inline constexpr Rows Rows::kComputed{3};
inline constexpr Rows Rows::kPlaced{4};

// One operation on a range of rows; small operations have no rows and run once.
struct Call {
  Value value = kNoValue;
  Rows rows = Rows::kAll;
  bool operator==(const Call&) const = default;
};

// Calls that follow each other without a wait, timed as one span.
struct Block {
  const char* name = nullptr;  // of the span, a literal; null: none of its own
  int scope = 0;
  std::vector<Call> calls;
  // Aggregates whose messages set out, or are waited for, after the calls.
  std::vector<Value> begins;
  std::vector<Value> finishes;
  // The last marginal group whose messages `finishes` waits for; -1: for all messages.
  int finished_group = -1;
};

struct Schedule {
  std::vector<Block> prologue;  // what is computed once, before everything else
  std::vector<Block> blocks;
  std::size_t forward_blocks = 0;  // those before the loss
  // By value: when it is written, see allocate(); -1: lies in no memory of the program. The
  // prologue's come first.
  std::vector<int> instants;
  // The same of its computed rows; -1: it has none.
  std::vector<int> computed_instants;
  // Values that keep what they hold from one pass to the next.
  std::vector<Value> lasting = {};
};

// A scope is cut into segments: after an operation that all ranks wait for; before one that needs
// all rows at once, and before an aggregate that depends on an aggregate of the segment. Copies to
// and from host memory are segments of their own.
//
// Segments run one after another. Without an aggregate each operation is one call over all inner
// rows. With aggregates H, C is what depends on them, P the rest, and A what of P the messages
// depend on:
//
//   A(marginal); begin H; (P - A)(marginal); P(central); H(central); C(central); finish H;
//   H(marginal); C(marginal)
//
// With several marginal groups, H and C run group by group, each when its messages have come, but
// for what adds to a sum or multiplies by a matrix, what computes values of all halo rows, and what
// depends on these: they run over all marginal rows at last, so that the bits are the same.
//
// Sums that are added to range by range are added to in this order. Computed rows come last in a
// scope.
Schedule schedule(const Program& program, int marginal_groups = 1);

// The span, in traces, of an operation that waits for no messages; null: none of its own.
const char* span_of(const Program& program, Value v);

}  // namespace atl
