// Cuts that grow: a graph's cut from before nodes and edges came is extended to the graph of now,
// or the graph is cut anew where the old cut no longer serves.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "partition/halo_rows.hpp"
#include "partition/partitioner.hpp"
#include "partition/union_find.hpp"

namespace atl {

// Counts the independent cycles of a graph, edges - nodes + components, while its edges are told:
// what cuts grow by. A forest falls into parts for next to nothing; each further edge closes a
// cycle that a cut may have to open. Loops are none, and duplicates count.
class CycleCount {
 public:
  explicit CycleCount(std::int64_t nodes) : connected_(nodes) {}
  void add(std::int32_t one, std::int32_t other);
  std::int64_t count() const { return edges_ - joined_; }

 private:
  UnionFind connected_;
  std::int64_t edges_ = 0;
  std::int64_t joined_ = 0;  // edges that connected two sets
};
std::int64_t independent_cycles(const GraphView& graph);

// The halo rows that a cut from nothing had, or was measured to have, and the graph's cycles. Halo
// rows are those of both directions where these differ.
struct WholeCut {
  double rows = 0;
  std::int64_t cycles = 0;
};

// Rows of a cut of method `auto` against those of quick_cut(), for estimates; see docs/growing.md.
inline constexpr double kOfQuickRows = 0.96;

enum class GrownBy : std::uint8_t {
  kExtended,
  kQuick,  // the quick cut, which is within the drift of a fresh one
  kAnew,   // as partition_graph cuts
};
// "extended", "quick", "anew"
std::string to_string(GrownBy grown_by);

// The graph before it grew, as far as it is known. Its nodes are the first ones of the graph of
// now.
struct CutBefore {
  std::span<const std::int32_t> part_of;
  std::span<const std::uint8_t> touched;  // per node: 1 if edges of it came or went
  WholeCut whole;                         // the last one, that the cut goes back to
};

struct GrownCut {
  std::vector<std::int32_t> part_of;
  GrownBy by = GrownBy::kExtended;
  std::int64_t rows = 0;
  std::int64_t extended_rows = 0;  // of the extended cut, whether it was taken or not
  double estimate = 0;             // of the rows of a fresh cut
  std::int64_t moved = 0;          // nodes of before that changed their part
  WholeCut whole;                  // for the cut that grows from this one
};

// The cut of before, extended. Where it has more than `drift` times the rows that a fresh cut is
// expected to have, as many as the last whole one per cycle, a quick cut measures them. Where no
// cut so far is within the drift of that, the graph is cut anew, as by partition_graph. The cut
// with fewest rows is taken. Deterministic. Throws as partition_graph and check_growth_options.
GrownCut grow_cut(const GraphView& graph, int parts, const PartitionOptions& options,
                  std::span<const std::uint8_t> split, const CutBefore& before, double drift);

// Throws Error{kOption} naming an option that a cut can't grow by.
void check_growth_options(const PartitionOptions& options);

// The steps of grow_cut.
//
// Gives each of `nodes`, which have the number `problem.parts` for a part, one of the parts: those
// with most neighbours in parts first, each to the part with most rows of its nets, less the more
// that part is full (linear deterministic greedy; Stanton and Kliot, "Streaming graph partitioning
// for large distributed graphs", KDD 2012), within the limits of `loads`, and without neighbours to
// the emptiest part. `rows` and `loads` know one part more than there are, for nodes without one.
// placed(node, to), if given, is called before each is moved.
void place_nodes(const GraphLevel& graph, std::span<const std::int32_t> nodes, HaloRows& rows,
                 PartLoads& loads, std::span<std::int32_t> part_of,
                 const std::function<void(std::int32_t, int)>& placed = {});
// Places the nodes that came, and the others that have no edges where there is room, and moves
// nodes near those that came or are touched while that saves halo rows. Where it won't come down
// to `most_rows` anyway, it is not refined.
std::vector<std::int32_t> extend_cut(const PartitionProblem& problem, const CutBefore& before,
                                     double most_rows);
// The best of a few cuts by METIS with few edges between parts, which it makes several times as
// fast as those with few rows, improved by descent, and of small graphs by searches, too.
std::vector<std::int32_t> quick_cut(const PartitionProblem& problem);

}  // namespace atl
