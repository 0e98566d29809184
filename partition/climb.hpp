// Local searches that may pass through worse cuts (Fiduccia and Mattheyses 1982; k-way and from
// single nodes as in Sanders and Schulz, "Engineering multilevel graph partitioning algorithms",
// ESA 2011): each begins at a node, moves the best one near it next, and undoes what came after its
// best cut. They leave what descent alone can't: a full part first loses a node, then takes a
// better one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/mixed_bits.hpp"
#include "partition/descent.hpp"
#include "partition/graph_level.hpp"

namespace atl {

template <typename Objective>
class Climb {
 public:
  // graph: says which nodes are near a moved one.
  Climb(Objective& objective, PartLoads& loads, const GraphLevel& graph,
        std::span<std::int32_t> part_of)
      : objective_(objective),
        loads_(loads),
        graph_(graph),
        part_of_(part_of),
        moved_(part_of.size()),
        changed_(part_of.size(), true) {}

  // Searches from every node that may gain, then from those whose surroundings have changed, in
  // `rounds` rounds at most, until one gains at most `least`. A node moves once in a round. Returns
  // what was gained, never less than 0. One thread.
  std::int64_t run(int rounds, double least, std::uint64_t seed) {
    std::int64_t gained = 0;
    for (int round = 0; round < rounds; ++round) {
      std::fill(moved_.begin(), moved_.end(), false);
      std::int64_t gain = 0;
      const std::vector<std::int32_t> nodes = starts(seed + static_cast<std::uint64_t>(round));
      std::fill(changed_.begin(), changed_.end(), false);
      for (const std::int32_t node : nodes) {
        if (!moved_[node]) gain += search(node);
      }
      gained += gain;
      if (static_cast<double>(gain) <= least) break;
    }
    return gained;
  }

 private:
  struct Worse {
    bool operator()(const Proposal& a, const Proposal& b) const {
      return a.gain != b.gain ? a.gain < b.gain : a.node > b.node;
    }
  };

  std::vector<std::int32_t> starts(std::uint64_t seed) const {
    std::vector<std::pair<std::uint64_t, std::int32_t>> keys;
    for (std::size_t v = 0; v < part_of_.size(); ++v) {
      const auto node = static_cast<std::int32_t>(v);
      if (changed_[v] && objective_.may_gain(node)) keys.emplace_back(mixed_bits(seed, v), node);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::int32_t> nodes;
    nodes.reserve(keys.size());
    for (const auto& [key, node] : keys) nodes.push_back(node);
    return nodes;
  }
  void offer(std::int32_t node) {
    const Proposal p = objective_.best(node, loads_, /*any=*/false);
    if (p.to >= 0) queue_.push(p);
  }
  void move(std::int32_t node, int to) {
    loads_.move(node, part_of_[node], to);
    objective_.move(node, to);
  }
  std::int64_t search(std::int32_t start) {
    constexpr std::size_t kPatience = 30;  // moves without a new best cut
    queue_ = {};
    moves_.clear();
    offer(start);
    std::int64_t total = 0;
    std::int64_t best = 0;
    std::size_t kept = 0;
    while (!queue_.empty() && moves_.size() - kept < kPatience) {
      const Proposal then = queue_.top();
      queue_.pop();
      if (moved_[then.node] || loads_.is_last(part_of_[then.node])) continue;
      const Proposal now = objective_.best(then.node, loads_, /*any=*/false);
      if (now.to < 0) continue;
      if (now.gain < then.gain) {  // others moved meanwhile
        queue_.push(now);
        continue;
      }
      moved_[now.node] = true;
      moves_.push_back({now.gain, now.node, part_of_[now.node]});
      move(now.node, now.to);
      total += now.gain;
      if (total > best) {
        best = total;
        kept = moves_.size();
      }
      offer_neighbours(now.node);
    }
    for (; moves_.size() > kept; moves_.pop_back()) move(moves_.back().node, moves_.back().to);
    for (const Proposal& p : moves_) {
      changed_[p.node] = true;
      for_each_near(p.node, [&](std::int32_t u) { changed_[u] = true; });
    }
    return best;
  }
  // Hubs are near everything: following them would make every search one of the whole graph.
  template <typename F>
  void for_each_near(std::int32_t node, const F& f) const {
    constexpr std::int64_t kMostNeighbours = 500;
    if (graph_.degree(node) > kMostNeighbours) return;
    graph_.for_each_neighbour(node, [&](std::int32_t u, std::int64_t) { f(u); });
  }
  void offer_neighbours(std::int32_t node) {
    constexpr std::int64_t kMostDegree = 2000;
    for_each_near(node, [&](std::int32_t u) {
      if (!moved_[u] && graph_.degree(u) <= kMostDegree) offer(u);
    });
  }

  Objective& objective_;
  PartLoads& loads_;
  const GraphLevel& graph_;
  std::span<std::int32_t> part_of_;
  std::vector<bool> moved_;
  std::vector<bool> changed_;  // nodes that this round moved for good, and those near them
  std::priority_queue<Proposal, std::vector<Proposal>, Worse> queue_;
  std::vector<Proposal> moves_;  // to: where the node came from
};

}  // namespace atl
