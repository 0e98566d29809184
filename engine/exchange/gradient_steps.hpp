// The steps of a sum of gradients, and the route that it takes without a plan.
#pragma once

#include <span>

#include "engine/comm/sum_steps.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// The route without a plan. places: the host of each rank. By hosts if there are several, all have
// the same number of ranks, two at least, and ranks are numbered host by host; else an all-reduce.
SumRoute route_by_places(std::span<const std::int64_t> places);

// The steps of `rank` of `ranks` to sum `count` values. A hierarchical sum is rounded twice.
std::vector<SumStep> sum_steps(const SumRoute& route, int rank, int ranks, std::size_t count);

}  // namespace atl
