// Descent on what a cut costs. In a round all nodes look for a better part at once; then those that
// found one move one after another, the greatest gain first, if it still is a gain. Nothing changes
// while nodes look, and the order of moves does not depend on who found them, so the result is the
// same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "partition/part_loads.hpp"

namespace atl {

// A node's best move: its gain, and to which part.
struct Proposal {
  std::int64_t gain = 0;
  std::int32_t node = -1;
  std::int32_t to = -1;  // -1: no other part has room

  // Becomes the move to `part` if that gains more, or as much and the part is emptier.
  void offer(int part, std::int64_t its_gain, const PartLoads& loads) {
    if (to >= 0 && its_gain < gain) return;
    if (to >= 0 && its_gain == gain && loads.fullness(part) >= loads.fullness(to)) return;
    gain = its_gain;
    to = part;
  }
};

// Objective: HaloRows or CutWeight.
//   bool may_gain(node): cheap; false where no move can gain.
//   Proposal best(node, loads, any): the greatest gain, a loss if need be, among parts with room
//     that the node has to do with; any: among all parts with room. The emptier one of equals.
//   void move(node, to).
template <typename Objective>
class Descent {
 public:
  Descent(Objective& objective, PartLoads& loads, std::span<std::int32_t> part_of)
      : objective_(objective), loads_(loads), part_of_(part_of) {}

  // Relieves parts above their limit, then improves until a round gains at most `least`. Returns
  // what was gained; negative where relief cost more.
  std::int64_t run(double least) {
    constexpr int kRounds = 8;
    std::int64_t gained = 0;
    for (int round = 0; round < kRounds && relieve(round + 1 == kRounds, gained); ++round) {
    }
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t gain = improve();
      gained += gain;
      if (static_cast<double>(gain) <= least) break;
    }
    return gained;
  }

 private:
  void apply(const Proposal& p) {
    loads_.move(p.node, part_of_[p.node], p.to);
    objective_.move(p.node, p.to);
  }

  // Proposals for all nodes for which `wanted` holds, in no order.
  template <typename Wanted>
  std::vector<Proposal> propose(bool any, const Wanted& wanted) {
    const auto nodes = static_cast<std::int64_t>(part_of_.size());
    std::vector<std::vector<Proposal>> found(static_cast<std::size_t>(parallel_threads()));
    const std::int64_t length = nodes > kManyNodes ? 4096 : nodes;
    parallel_pieces(nodes, length, [&](std::int64_t begin, std::int64_t end, int slot) {
      std::vector<Proposal>& mine = found[static_cast<std::size_t>(slot)];
      for (std::int64_t v = begin; v < end; ++v) {
        const auto node = static_cast<std::int32_t>(v);
        if (!wanted(node)) continue;
        const Proposal p = objective_.best(node, loads_, any);
        if (p.to >= 0 && (any || p.gain > 0)) mine.push_back(p);
      }
    });
    std::vector<Proposal> all = std::move(found.front());
    for (std::size_t k = 1; k < found.size(); ++k) {
      all.insert(all.end(), found[k].begin(), found[k].end());
    }
    return all;
  }

  std::int64_t improve() {
    std::vector<Proposal> proposals =
        propose(/*any=*/false, [&](std::int32_t v) { return objective_.may_gain(v); });
    std::sort(proposals.begin(), proposals.end(), [](const Proposal& a, const Proposal& b) {
      return a.gain != b.gain ? a.gain > b.gain : a.node < b.node;
    });
    std::int64_t gained = 0;
    for (const Proposal& p : proposals) {
      if (loads_.is_last(part_of_[p.node])) continue;
      const Proposal now = objective_.best(p.node, loads_, /*any=*/false);
      if (now.to < 0 || now.gain <= 0) continue;
      apply(now);
      gained += now.gain;
    }
    return gained;
  }

  // One round of nodes leaving parts above their limit, the cheapest for what it relieves first.
  // Nodes that have become dearer wait for the next round unless this is the last one. False if no
  // part is too heavy or nothing moved.
  bool relieve(bool last, std::int64_t& gained) {
    std::vector<bool> heavy(static_cast<std::size_t>(loads_.parts()));
    for (int part = 0; part < loads_.parts(); ++part) heavy[part] = loads_.too_heavy(part);
    if (std::ranges::none_of(heavy, [](bool h) { return h; })) return false;
    const std::vector<Proposal> proposals = propose(/*any=*/true, [&](std::int32_t v) {
      return heavy[part_of_[v]] && loads_.relieves(v, part_of_[v]);
    });
    std::vector<std::pair<double, Proposal>> order;
    order.reserve(proposals.size());
    for (const Proposal& p : proposals) {
      const double weight = loads_.share_of_limit(p.node, part_of_[p.node]);
      const auto gain = static_cast<double>(p.gain);
      order.emplace_back(gain > 0 ? -gain * weight : -gain / weight, p);
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second.node < b.second.node;
    });
    bool moved = false;
    for (const auto& [price, p] : order) {
      const int from = part_of_[p.node];
      if (loads_.is_last(from) || !loads_.relieves(p.node, from)) continue;
      const Proposal now = objective_.best(p.node, loads_, /*any=*/true);
      if (now.to < 0 || (now.gain < p.gain && !last)) continue;
      apply(now);
      gained += now.gain;
      moved = true;
    }
    return moved;
  }

  static constexpr std::int64_t kManyNodes = 20'000;  // fewer are not worth waking threads for
  Objective& objective_;
  PartLoads& loads_;
  std::span<std::int32_t> part_of_;
};

}  // namespace atl
