// Mends what partitioners leave undone: parts without a node, and parts above the bound.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "partition/part_loads.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

// How full a part may get, against its share, by what is moved here.
double receiver_limit(const PartitionProblem& problem) { return 1 + 0.95 * problem.imbalance; }

PartLoads loads_below_limit(const PartitionProblem& problem,
                            std::span<const std::int32_t> part_of) {
  std::vector<double> limits = load_shares(problem);
  for (double& limit : limits) limit *= receiver_limit(problem);
  return {problem.constraints, problem.node_weights, std::move(limits), part_of};
}

class Mover {
 public:
  Mover(const PartitionProblem& problem, std::span<std::int32_t> part_of)
      : problem_(problem),
        part_of_(part_of),
        loads_(loads_below_limit(problem, part_of)),
        touching_(problem.parts, 0) {}

  // Moves nodes out of `part`, loosest first, until its load is at most `mark` times its share or
  // nothing fits anywhere.
  void relieve(int part, double mark);

  // For one quantity: moves single nodes from the part furthest above its share to the one furthest
  // below while that lowers the former's excess. Ends with every load at most share + heaviest
  // node: otherwise any node of the one part would still fit into the other.
  void level();

 private:
  double looseness(std::int32_t node) const;
  int best_receiver(std::int32_t node);
  void move(std::int32_t node, int to) {
    loads_.move(node, part_of_[node], to);
    part_of_[node] = to;
  }

  const PartitionProblem& problem_;
  std::span<std::int32_t> part_of_;
  PartLoads loads_;
  std::vector<std::int32_t> touching_;  // scratch: in-neighbours of a node by part
};

// Share of its in-neighbours that a node has outside its part.
double Mover::looseness(std::int32_t node) const {
  const auto row = problem_.graph.in_edges.row(node);
  const auto outside =
      std::ranges::count_if(row, [&](std::int32_t u) { return part_of_[u] != part_of_[node]; });
  return row.empty() ? 1 : static_cast<double>(outside) / static_cast<double>(row.size());
}

// The part that the node touches most among those with room, else the emptiest one with room; -1 if
// there is none.
int Mover::best_receiver(std::int32_t node) {
  const auto row = problem_.graph.in_edges.row(node);
  for (const std::int32_t u : row) ++touching_[part_of_[u]];
  int best = -1;
  for (int part = 0; part < problem_.parts; ++part) {
    if (part == part_of_[node] || !loads_.fits(node, part)) continue;
    const bool better =
        best < 0 || touching_[part] > touching_[best] ||
        (touching_[part] == touching_[best] && loads_.fullness(part) < loads_.fullness(best));
    if (better) best = part;
  }
  for (const std::int32_t u : row) touching_[part_of_[u]] = 0;
  return best;
}

void Mover::relieve(int part, double mark) {
  const double full = mark / receiver_limit(problem_);
  std::vector<std::pair<double, std::int32_t>> candidates;
  for (std::size_t v = 0; v < part_of_.size() && loads_.fullness(part) > full; ++v) {
    const auto node = static_cast<std::int32_t>(v);
    if (part_of_[v] == part) candidates.emplace_back(-looseness(node), node);
  }
  std::ranges::sort(candidates);
  for (const auto& [tightness, node] : candidates) {
    if (loads_.fullness(part) <= full || loads_.is_last(part)) return;
    if (loads_.weight(node, loads_.fullest(part)) == 0) continue;
    const int to = best_receiver(node);
    if (to >= 0) move(node, to);
  }
}

void Mover::level() {
  ATOLL_ASSERT(problem_.constraints == 1);
  const std::vector<double> shares = load_shares(problem_);
  const auto excess = [&](int part) {
    return static_cast<double>(loads_.load(part, 0)) - shares[part];
  };
  while (true) {
    int high = 0;
    int low = 0;
    for (int part = 1; part < problem_.parts; ++part) {
      if (excess(part) > excess(high)) high = part;
      if (excess(part) < excess(low)) low = part;
    }
    const double gap = excess(high) - excess(low);
    std::int32_t best = -1;  // the node that comes closest to halving the gap
    for (std::size_t v = 0; v < part_of_.size() && !loads_.is_last(high); ++v) {
      const auto node = static_cast<std::int32_t>(v);
      const auto w = static_cast<double>(loads_.weight(node, 0));
      if (part_of_[v] != high || w <= 0 || w >= gap) continue;
      const auto miss = [&](std::int32_t n) {
        return std::abs(static_cast<double>(loads_.weight(n, 0)) - gap / 2);
      };
      if (best < 0 || miss(node) < miss(best)) best = node;
    }
    if (best < 0) return;
    move(best, low);
  }
}

}  // namespace

bool within_bounds(const PartitionProblem& problem, std::span<const std::int32_t> part_of) {
  const std::vector<double> bounds = load_bounds(problem);
  const std::vector<std::int64_t> loads = part_loads(problem, part_of);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (static_cast<double>(loads[i]) > bounds[i]) return false;
  }
  return true;
}

void repair_empty_parts(const PartitionProblem& problem, std::span<std::int32_t> part_of) {
  std::vector<std::vector<std::int32_t>> members(problem.parts);
  for (std::size_t v = 0; v < part_of.size(); ++v) {
    members[part_of[v]].push_back(static_cast<std::int32_t>(v));
  }
  for (int part = 0; part < problem.parts; ++part) {
    if (!members[part].empty()) continue;
    const auto largest =
        std::ranges::max_element(members, {}, [](const auto& nodes) { return nodes.size(); });
    const std::int32_t moved = largest->back();
    largest->pop_back();
    members[part].push_back(moved);
    part_of[moved] = part;
  }
}

void rebalance(const PartitionProblem& problem, std::span<std::int32_t> part_of) {
  Mover mover(problem, part_of);
  // Lower marks make room: with two quantities, a part full of one can't take over the other.
  for (const double mark : {0.9, 0.5, 0.1, -0.3, -0.6}) {
    if (within_bounds(problem, part_of)) return;
    for (int part = 0; part < problem.parts; ++part) {
      mover.relieve(part, 1 + mark * problem.imbalance);
    }
  }
  // Few nodes per part: what fits below a mark is too coarse a question.
  if (problem.constraints == 1 && !within_bounds(problem, part_of)) mover.level();
}

}  // namespace atl
