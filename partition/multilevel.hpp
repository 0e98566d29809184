// A graph cut level by level: communities are contracted until a few thousand nodes are left, and
// on the way back each level's cut is improved before its communities are taken apart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/graph_level.hpp"
#include "partition/halo_rows.hpp"
#include "partition/part_loads.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// The graph of a problem as the finest level, and the halo rows of its nodes by direction; one
// where both are the same. Views of the problem, which outlives them.
GraphLevel finest_level(const PartitionProblem& problem);
std::vector<Nets> nets_of(const PartitionProblem& problem);
// (1 + imbalance) * share of every quantity, [parts, constraints].
std::vector<double> load_limits(const PartitionProblem& problem, double imbalance);
// Loads of the parts of a cut of the whole graph, within the problem's imbalance.
PartLoads limited_loads(const PartitionProblem& problem, std::span<const std::int32_t> part_of);

class Multilevel {
 public:
  // Below this many stored edges every level knows the halo rows of the whole graph, and cuts are
  // improved by searches that may pass through worse ones. Above, both cost more than METIS and
  // gain little: 0.4 % of the rows of the products shape at .3 for 15 times the time.
  static constexpr std::int64_t kDetailedEntries = 6'000'000;

  // Up to so many `auto` compares the cut with one by METIS, which has 11 % fewer rows on a
  // directed R-MAT graph of 8 million entries in 16 parts, for 25 s in place of 1.5. At 37 million,
  // METIS takes minutes and has no fewer.
  static constexpr std::int64_t kComparedEntries = 16'000'000;

  // Most rows of all parts that even_out() leaves, of those before. On arxiv in 8 parts, seed 1,
  // 1.04 would leave the fullest part 0.77 of its rows.
  static constexpr double kMostRowsForPeak = 1.01;

  // How long searches through worse cuts go on.
  struct Effort {
    int rounds;
    double least_gain;  // of all rows, for another round
  };
  static constexpr Effort kUsual{.rounds = 6, .least_gain = 0.001};
  static constexpr Effort kThorough{.rounds = 30, .least_gain = 0.0001};

  // METIS cuts so many nodes in a moment, and they leave it room to balance.
  static std::int64_t nodes_of_last_level(int parts);

  // The problem, and what its views show, outlives this.
  explicit Multilevel(const PartitionProblem& problem, Effort effort = kUsual);
  Multilevel(const Multilevel&) = delete;  // its parts show each other
  Multilevel& operator=(const Multilevel&) = delete;
  ~Multilevel() = default;

  // A cut from scratch: METIS cuts the last level. For objective volume it is still to be refined.
  // climb: whether levels are searched beyond descent, too.
  std::vector<std::int32_t> cut(bool climb = true) const;
  // entries: stored edges, in both directions
  static bool detailed(std::int64_t entries) { return entries <= kDetailedEntries; }
  bool detailed() const { return detailed_; }
  static bool compared(std::int64_t entries) { return entries <= kComparedEntries; }
  bool compared() const { return compared_; }
  // Whether there is anything to contract.
  bool is_small() const { return finest_.nodes() <= last_level_; }
  std::int64_t rows(std::span<const std::int32_t> part_of) const;
  // Single nodes move while that lowers the rows; where detailed, also through worse cuts.
  void search(std::span<std::int32_t> part_of) const;
  // The better of two cuts, improved by moving groups of nodes that both leave together; never
  // more rows than that one.
  std::vector<std::int32_t> combine(std::vector<std::int32_t> one,
                                    std::vector<std::int32_t> other) const;
  // Fewer halo rows by moving nodes, within (1 + imbalance) * share where that can be had; never
  // more rows unless a part was above it.
  void refine(std::span<std::int32_t> part_of) const;
  // The part that sends or receives most gets less to do, which all others wait for: nodes move
  // where that lowers the sum of two ratios to the cut as it came, of all rows and of that part's;
  // the former ends at kMostRowsForPeak at most. Where detailed.
  void even_out(std::span<std::int32_t> part_of) const;
  // The same for rows weighted by island (partition/island_prices.hpp), by descent alone.
  void refine_islands(std::span<std::int32_t> part_of) const;

 private:
  struct Level {
    Communities communities;  // of the nodes below
    ContractedGraph graph;
    std::vector<ContractedNets> rows;  // of each direction, where they are known
  };

  class LevelNets;

  // How a contracted level is improved. Loosely: parts may exceed their share by more meanwhile,
  // because groups of nodes don't fit into the room that is left; the graph's own nodes mend that.
  enum class Search { kDescent, kClimb, kLooseClimb };

  // With part_of, no community spans two parts.
  std::vector<Level> coarsen(std::vector<std::int32_t> part_of, std::uint64_t seed) const;
  std::vector<std::int32_t> cut_last(const Level& level) const;
  // Takes a cut of the last level down to the graph's own nodes.
  std::vector<std::int32_t> uncoarsen(std::vector<Level> levels, std::vector<std::int32_t> part_of,
                                      Search search) const;
  void improve(const Level& level, std::span<std::int32_t> part_of, Search search) const;
  void descend_cut(const GraphLevel& graph, std::span<std::int32_t> part_of) const;
  // Coarsens inside the cells, each of which lies in one part, and improves on the way back.
  void cycle(std::span<std::int32_t> part_of, std::vector<std::int32_t> cells, Search search,
             std::uint64_t seed) const;
  std::vector<double> limits() const { return load_limits(problem_, problem_.imbalance); }
  std::vector<ContractedNets> contracted_rows(const std::vector<Level>& levels,
                                              std::span<const std::int32_t> community_of) const;

  const PartitionProblem& problem_;
  Effort effort_;
  GraphLevel finest_;
  bool detailed_;
  bool compared_;
  std::int64_t last_level_;  // nodes of the last level, at most
};

}  // namespace atl
