#include "engine/placement/fair_shares.hpp"

#include <algorithm>
#include <limits>

namespace atl {

FairShares::FairShares(const Topology& topology) : topology_(topology) {
  for (const Host& host : topology.hosts) hosts_.push_back({host.send_bytes_per_s, 0, 0});
  for (const Host& host : topology.hosts) hosts_.push_back({host.receive_bytes_per_s, 0, 0});
}

FairShares::Flow FairShares::flow(int from, int to) const {
  Flow flow{from, to, topology_.link(from, to).bytes_per_s, -1, -1, 1};
  const int sender = topology_.devices[static_cast<std::size_t>(from)].host;
  const int receiver = topology_.devices[static_cast<std::size_t>(to)].host;
  if (sender != receiver) {
    flow.send = sender;
    flow.receive = static_cast<int>(topology_.hosts.size()) + receiver;
  }
  return flow;
}

void FairShares::compute(const std::vector<Flow>& flows, std::vector<double>& rates) {
  const auto resource = [&](int index) -> Resource& {
    return hosts_[static_cast<std::size_t>(index)];
  };
  rates.resize(flows.size());
  open_.clear();
  for (Resource& card : hosts_) card = {card.capacity, card.capacity, 0, 0};
  for (std::size_t f = 0; f < flows.size(); ++f) {
    rates[f] = flows[f].count > 0 ? flows[f].limit : 0;
    if (flows[f].send < 0 || flows[f].count == 0) continue;
    resource(flows[f].send).flows += flows[f].count;
    resource(flows[f].receive).flows += flows[f].count;
    open_.push_back(f);
  }
  // What a flow can have at most: by its link, or by an even share of a card.
  const auto bound_of = [&](const Flow& flow) {
    return std::min({flow.limit, resource(flow.send).share, resource(flow.receive).share});
  };
  while (!open_.empty()) {
    for (Resource& card : hosts_) card.share = card.left / std::max(card.flows, 1);
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t f : open_) least = std::min(least, bound_of(flows[f]));
    // Those that are worst off get it, and leave the rest to the others. A share computed from
    // what was left over after rounding counts as equal.
    const double worst_off = least * (1 + 1e-12);
    std::size_t kept = 0;
    for (const std::size_t f : open_) {
      if (bound_of(flows[f]) > worst_off) {
        open_[kept++] = f;
        continue;
      }
      rates[f] = least;
      for (const int card : {flows[f].send, flows[f].receive}) {
        resource(card).left = std::max(resource(card).left - flows[f].count * least, 0.0);
        resource(card).flows -= flows[f].count;
      }
    }
    open_.resize(kept);
  }
}

}  // namespace atl
