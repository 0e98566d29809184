// The steps of a sum by the route that a plan has chosen.
#pragma once

#include <span>

#include "engine/comm/sum_steps.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Without a plan: by the places of ranks, their hosts, if there are several that have as many ranks
// each, one place after the other; else an all-reduce.
SumRoute route_by_places(std::span<const std::int64_t> places);

// The steps of `rank` of `ranks` to sum `count` values. A hierarchical sum is rounded twice.
std::vector<SumStep> sum_steps(const SumRoute& route, int rank, int ranks, std::size_t count);

}  // namespace atl
