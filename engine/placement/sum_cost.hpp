// The time of sums of gradients over all ranks by the routes that a plan may choose.
#pragma once

#include "engine/placement/topology.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// The load that one step of all ranks, all at once, puts on links and cards.
class StepLoad {
 public:
  // counts_latency: of the links' messages.
  explicit StepLoad(const Topology& topology, bool counts_latency = true)
      : topology_(topology),
        counts_latency_(counts_latency),
        sent_(topology.hosts.size(), 0),
        received_(topology.hosts.size(), 0) {}

  void send(int from, int to, double bytes);
  // Until the slowest link or card has moved all.
  double seconds() const;

 private:
  std::size_t host(int rank) const {
    return static_cast<std::size_t>(topology_.devices[static_cast<std::size_t>(rank)].host);
  }

  const Topology& topology_;
  bool counts_latency_;
  double slowest_ = 0;
  std::vector<double> sent_;  // by host, to other hosts
  std::vector<double> received_;
};

// Sum over all ranks of `bytes` on each, of f32 but where all-reduced; steps follow one another,
// and each takes as long as its slowest pair of ranks, or network card.
double sum_seconds(const Topology& topology, double bytes, const SumRoute& route);

// Routes that the ranks' places offer beside an all-reduce: hierarchical by island and by host,
// where these have equally many ranks, and the fastest parameter server for `bytes`.
std::vector<SumRoute> other_sum_routes(const Topology& topology, double bytes);

}  // namespace atl
