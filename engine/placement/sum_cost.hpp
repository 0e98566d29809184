// What sums of gradients over all ranks take by the routes that a plan may choose.
#pragma once

#include "engine/placement/topology.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Sum over all ranks of `bytes` of f32 on each; steps follow one another, and each takes as long as
// its slowest pair of ranks, or network card.
double sum_seconds(const Topology& topology, double bytes, const SumRoute& route);

// Routes that the ranks' places offer beside an all-reduce: hierarchical by island and by host,
// where these have equally many ranks, and the fastest parameter server for `bytes`.
std::vector<SumRoute> other_sum_routes(const Topology& topology, double bytes);

}  // namespace atl
