// The time of sums of gradients over all ranks by the routes that a plan may choose.
#pragma once

#include <algorithm>

#include "engine/placement/topology.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// The load that one step of all ranks, all at once, puts on links and cards.
class StepLoad {
 public:
  // counts_latency: of the links' messages.
  explicit StepLoad(const Topology& topology, bool counts_latency = true)
      : topology_(topology), counts_latency_(counts_latency), cards_(topology) {}

  void send(int from, int to, double bytes);
  // Until the slowest link or card has moved all.
  double seconds() const { return std::max(slowest_, cards_.seconds()); }

 private:
  const Topology& topology_;
  bool counts_latency_;
  double slowest_ = 0;
  CardLoad cards_;
};

// Sum over all ranks of `bytes` on each, of f32 but where all-reduced; steps follow one another,
// and each takes as long as its slowest pair of ranks, or network card.
double sum_seconds(const Topology& topology, double bytes, const SumRoute& route);

// Routes that the ranks' places offer beside an all-reduce: hierarchical by island and by host,
// where these have equally many ranks, and the fastest parameter server for `bytes`.
std::vector<SumRoute> other_sum_routes(const Topology& topology, double bytes);

}  // namespace atl
