#include "engine/placement/fair_shares.hpp"

#include <algorithm>
#include <limits>

namespace atl {

FairShares::FairShares(const Topology& topology) : topology_(topology) {
  for (const Host& host : topology.hosts) hosts_.push_back({host.send_bytes_per_s, 0, 0});
  for (const Host& host : topology.hosts) hosts_.push_back({host.receive_bytes_per_s, 0, 0});
}

void FairShares::compute(const std::vector<Flow>& flows, std::vector<double>& rates) {
  const std::size_t hosts = topology_.hosts.size();
  const auto send_of = [&](const Flow& flow) -> Resource& {
    return hosts_[static_cast<std::size_t>(
        topology_.devices[static_cast<std::size_t>(flow.from)].host)];
  };
  const auto receive_of = [&](const Flow& flow) -> Resource& {
    return hosts_[hosts + static_cast<std::size_t>(
                              topology_.devices[static_cast<std::size_t>(flow.to)].host)];
  };
  const auto crosses = [&](const Flow& flow) {
    return topology_.devices[static_cast<std::size_t>(flow.from)].host !=
           topology_.devices[static_cast<std::size_t>(flow.to)].host;
  };
  rates.assign(flows.size(), 0);
  fixed_.assign(flows.size(), 0);
  for (Resource& resource : hosts_) resource = {resource.capacity, resource.capacity, 0};
  std::size_t open = 0;
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (!crosses(flows[f])) {  // passes no card
      rates[f] = topology_.link(flows[f].from, flows[f].to).bytes_per_s;
      fixed_[f] = 1;
      continue;
    }
    ++send_of(flows[f]).flows;
    ++receive_of(flows[f]).flows;
    ++open;
  }
  const auto share_of = [](const Resource& resource) {
    return resource.left / std::max(resource.flows, 1);
  };
  while (open > 0) {
    // What the flow that is worst off can have: by its link, or by an even share of a card.
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed_[f] != 0) continue;
      least = std::min({least, topology_.link(flows[f].from, flows[f].to).bytes_per_s,
                        share_of(send_of(flows[f])), share_of(receive_of(flows[f]))});
    }
    // Of a share computed from what was left over after rounding, a little less counts as equal.
    const double bound = least * (1 + 1e-12);
    const auto limited = [&](const Flow& flow) {
      return topology_.link(flow.from, flow.to).bytes_per_s <= bound ||
             share_of(send_of(flow)) <= bound || share_of(receive_of(flow)) <= bound;
    };
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed_[f] == 0 && limited(flows[f])) fixed_[f] = 2;
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed_[f] != 2) continue;
      fixed_[f] = 1;
      rates[f] = least;
      --open;
      for (Resource* resource : {&send_of(flows[f]), &receive_of(flows[f])}) {
        resource->left = std::max(resource->left - least, 0.0);
        --resource->flows;
      }
    }
  }
}

}  // namespace atl
