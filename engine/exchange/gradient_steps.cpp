#include "engine/exchange/gradient_steps.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/exchange/rank_map.hpp"

namespace atl {

namespace {

std::vector<SumStep> hierarchical_steps(const std::vector<std::vector<int>>& groups, int rank,
                                        std::size_t count) {
  const auto own = std::ranges::find_if(groups, [&](const std::vector<int>& group) {
    return std::ranges::find(group, rank) != group.end();
  });
  ATOLL_ASSERT(own != groups.end());
  const SumStep inside = even_step(SumStep::Kind::kAdd, *own, rank, {0, count});
  std::vector<int> peers;  // that have added up the same block
  for (const std::vector<int>& group : groups) peers.push_back(group.at(inside.own));
  std::vector<SumStep> steps = {inside};
  for (const SumStep::Kind kind : {SumStep::Kind::kAdd, SumStep::Kind::kShare}) {
    steps.push_back(even_step(kind, peers, rank, inside.own_block()));
  }
  steps.push_back(inside);
  steps.back().kind = SumStep::Kind::kShare;
  return steps;
}

}  // namespace

SumRoute route_by_places(std::span<const std::int64_t> places) {
  const int each = ranks_of_each(places);
  return each == 0 ? SumRoute() : route_of_groups(static_cast<int>(places.size()), each);
}

std::vector<SumStep> sum_steps(const SumRoute& route, int rank, int ranks, std::size_t count) {
  if (!route.groups.empty()) return hierarchical_steps(route.groups, rank, count);
  std::vector<SumStep> steps = all_reduce_steps(rank, ranks, count);
  if (route.server < 0) return steps;
  for (SumStep& step : steps) {
    std::ranges::fill(step.blocks, ReduceBlock{0, 0});
    step.blocks[static_cast<std::size_t>(route.server)] = {0, count};
  }
  return steps;
}

}  // namespace atl
