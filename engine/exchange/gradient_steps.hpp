// The steps of a sum by the route that a plan has chosen.
#pragma once

#include "engine/comm/sum_steps.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// The steps of `rank` of `ranks` to sum `count` values. A hierarchical sum is rounded twice.
std::vector<SumStep> sum_steps(const SumRoute& route, int rank, int ranks, std::size_t count);

}  // namespace atl
